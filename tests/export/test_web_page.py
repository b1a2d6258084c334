"""The page of a web export in Chromium: for every head, its predictions equal those of the checkpoint."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import pytest
import torch
from matplotlib.image import imread
from tests.export.browser import GPU_ARGUMENTS, WINDOWS, Browser, missing_program, open_browser, serve_folder
from tests.task_fixtures import LABELS, MODEL

from albertine import fill_mask_pipeline, pipeline
from albertine.export.export import export
from albertine.export.settings import ExportSettings
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.settings.exit_rule import ExitRule
from albertine.tasks.card import TaskCard
from albertine.tasks.settings import SequenceSettings
from albertine.text.tokenizer import load_tokenizer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(missing_program() is not None, reason=str(missing_program())),
]

OVERLAPPING = SequenceSettings(stride=12)
TASKS = {
    "classify": (
        HeadSettings("classify", labels=3),
        TaskCard("classify", "classify", labels=LABELS, metric_names=("accuracy",), max_length=64),
    ),
    "matching": (
        HeadSettings("classify", labels=3, matching=True),
        TaskCard("classify", "classify", labels=LABELS, metric_names=("accuracy",), max_length=64),
    ),
    "own exits": (
        HeadSettings("classify", labels=3, exits="own"),
        TaskCard("classify", "classify", labels=LABELS, metric_names=("accuracy",), max_length=64),
    ),
    "multi-label": (
        HeadSettings("multi-label", labels=3),
        TaskCard("multi-label", "multi-label", labels=LABELS, label_threshold=0.6, max_length=64),
    ),
    "regress": (
        HeadSettings("regress", labels=1),
        TaskCard("regress", "regress", metric_names=("pearson",), max_length=64),
    ),
    "choice": (
        HeadSettings("choice", labels=1, options=3),
        TaskCard("choice", "choice", num_options=3, max_length=64),
    ),
    "tag": (HeadSettings("token", labels=3), TaskCard("tag", "tag", labels=LABELS, max_length=32)),
    "span": (
        HeadSettings("span"),
        TaskCard("span", "span", max_length=32, allows_no_answer=True, sequence=OVERLAPPING),
    ),
    "answerable span": (
        HeadSettings("span", answerable=True),
        TaskCard("span", "span", max_length=32, allows_no_answer=True, sequence=OVERLAPPING),
    ),
}
MODELS: dict[str, tuple[HeadSettings, TaskCard | None]] = {
    **TASKS,
    "pretrain": (HeadSettings("pretrain"), None),
    "mlm": (HeadSettings("mlm"), None),
}
PASSAGE = (
    "Kalo put the café in the drawer. Then Mika went to Zürich, bought 25 pears ﬁrst! 漢字 e\u0301t lo mi."
)
INPUTS: dict[str, list[dict[str, Any]]] = {
    "classify": [
        {"text": "Kalo mika lo."},
        {"text": "ka LO\u00a0mi ß", "text_pair": "naïve [MASK] 🙂"},
        {"text": "ka lo " * 60, "text_pair": "mi " * 50},
    ],
    "multi-label": [{"text": "Kalo mika lo."}, {"text": "ka", "text_pair": "lo mi"}],
    "regress": [{"text": "Kalo mika lo."}, {"text": "", "text_pair": "ka"}],
    "choice": [{"context": PASSAGE, "question": "Where?", "options": ["in the drawer", "lo", "Zürich ka"]}],
    "tag": [{"text": "Kalo mika, lo ﬁne \u0301 ka"}, {"text": "ka lomi " * 30}],
    "span": [{"context": PASSAGE, "question": "Where is the café?"}],
}


def make_source(folder: Path, checkpoint: Path, head: HeadSettings, card: TaskCard | None) -> Path:
    """Write an untrained model whose weights are so large that every step of depth affects the output."""
    model = Model(replace(MODEL, mark_matches=head.kind == "span"), head, seed=3)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    if card is not None:
        model.label_names = card.labels
    save_folder(model, folder, tokenizer=load_tokenizer(checkpoint))
    if card is not None:
        card.write(folder)
    return folder


class WebExport(NamedTuple):
    """A model and its export to the web."""

    source: Path
    out: Path


class WebExports(Protocol):
    """Returns a model of `MODELS` and its export."""

    def __call__(self, name: str) -> WebExport: ...


@pytest.fixture(scope="module")
def web_exports(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> WebExports:
    """Exports of models by name; each is made once, because that takes much longer than a page."""

    @cache
    def web_export(name: str) -> WebExport:
        folder = tmp_path_factory.mktemp("web")
        source = make_source(folder / "model", checkpoint, *MODELS[name])
        export(source, folder / "out", ExportSettings(to="web"))
        return WebExport(source, folder / "out")

    return web_export


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


def open_page(browser: Browser, address: str) -> None:
    browser.open(address)
    browser.wait("return document.getElementById('result').dataset.done")


@contextmanager
def shown(page: WebExport, browser: Browser) -> Iterator[Path]:
    """Serve an export and open its page; yield the folder of the model."""
    with serve_folder(page.out) as address:
        open_page(browser, address)
        yield page.source


def predict(browser: Browser, inputs: dict[str, Any], depth: int | None = None) -> dict[str, Any]:
    """Fill the form, and return the prediction of the page at a depth."""
    fields = {name: "\n".join(value) if isinstance(value, list) else value for name, value in inputs.items()}
    browser.run(
        """
        const areas = document.querySelectorAll('#fields textarea');
        for (const area of areas) area.value = arguments[0][area.name] ?? '';
        document.getElementById('form').requestSubmit();
        """,
        fields,
    )
    browser.wait("return document.getElementById('result').dataset.done")
    if depth is not None:
        browser.run(
            """
            const slider = document.getElementById('depth');
            slider.value = arguments[0];
            slider.dispatchEvent(new Event('input'));
            """,
            depth,
        )
    prediction: dict[str, Any] = json.loads(browser.run("return document.getElementById('json').textContent"))
    return prediction


def problems(browser: Browser) -> list[str]:
    """Return the messages of the console, except that there is no graphics card."""
    return [line for line in browser.console() if "No available adapters" not in line]


def assert_close(actual: Any, expected: Any) -> None:
    """Compare predictions; the page's may have more keys, such as the depth."""
    if isinstance(expected, dict):
        for key in expected.keys() & actual.keys():
            assert_close(actual[key], expected[key])
    elif isinstance(expected, list):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected, strict=True):
            assert_close(one, other)
    elif isinstance(expected, float):
        assert actual == pytest.approx(expected, abs=1e-4)
    else:
        assert actual == expected


@pytest.mark.parametrize("name", TASKS)
def test_predictions_of_the_page_equal_those_of_the_checkpoint(
    name: str, web_exports: WebExports, browser: Browser
) -> None:
    kind = {"own exits": "classify", "matching": "classify", "answerable span": "span"}.get(name, name)
    with shown(web_exports(name), browser) as source:
        for inputs in INPUTS[kind]:
            for depth in (None, 1):
                expected = pipeline(source, depth=depth, precision="fp32")(**inputs)
                assert_close(predict(browser, inputs, depth), expected)
        assert browser.run("return document.getElementById('error').hidden")
        assert problems(browser) == []


def test_masks_are_filled_at_every_depth(web_exports: WebExports, browser: Browser) -> None:
    text = "Kalo [MASK] mika, [MASK] ß."
    with shown(web_exports("pretrain"), browser) as source:
        for depth in (1, MODEL.layers, 2 * MODEL.layers):
            actual = predict(browser, {"text": text}, depth)
            assert actual["depth"] == depth
            for mask, expected in zip(
                actual["masks"], fill_mask_pipeline(source).fill(text, top_k=8, depth=depth), strict=True
            ):
                assert [one["token"] for one in mask] == [prediction.token for prediction in expected]
                assert [one["score"] for one in mask] == pytest.approx(
                    [prediction.score for prediction in expected], abs=1e-4
                )


def choose_task(browser: Browser, title: str) -> None:
    browser.run(
        """
        const tab = [...document.querySelectorAll('.tab')].find((one) => one.textContent === arguments[0]);
        delete document.getElementById('result').dataset.done;
        tab.querySelector('input').click();
        """,
        title,
    )


def order_probability(source: Path, inputs: dict[str, str], depth: int) -> float:
    pipeline = fill_mask_pipeline(source)
    ids, segments = pipeline.encode_pair(inputs["first"], inputs["second"])
    strip = Strip.from_sequences([ids], [segments])
    logits = pipeline.engine.run_with_exits(strip, ExitRule(depth=depth)).output.pair_logits
    return float(logits[0].softmax(0)[0])


def test_the_order_of_two_texts_at_every_depth(web_exports: WebExports, browser: Browser) -> None:
    pairs = [{"first": "Kalo mika.", "second": "naïve [MASK] ß"}, {"first": "mi", "second": "ka lo " * 9}]
    with shown(web_exports("pretrain"), browser) as source:
        assert text_of(browser, "summary") == "An ALBERT that predicts masked tokens."
        choose_task(browser, "Sentence order")
        browser.wait("return document.getElementById('result').dataset.done")  # of the example
        assert text_of(browser, "summary") == "An ALBERT that predicts whether two texts are in order."
        for inputs in (*pairs, *({"first": one["second"], "second": one["first"]} for one in pairs)):
            for depth in (1, MODEL.layers, 2 * MODEL.layers):
                expected = order_probability(source, inputs, depth)
                actual = predict(browser, inputs, depth)
                assert actual == {"depth": depth, "in_order": pytest.approx(expected, abs=1e-4)}
                answer = browser.run("return document.querySelector('.answer').textContent")
                assert answer == ("Swapped" if expected < 0.5 else "In this order")
        assert browser.run("return document.querySelectorAll('.chart .line').length") == 2
        assert problems(browser) == []


def test_another_task_keeps_its_texts_and_ignores_steps_of_the_task_before(
    web_exports: WebExports, browser: Browser
) -> None:
    with shown(web_exports("pretrain"), browser):
        masked = predict(browser, {"text": "ka [MASK]"})
        browser.run("document.getElementById('form').requestSubmit()")  # its steps come after the change
        choose_task(browser, "Sentence order")
        browser.wait("return document.getElementById('result').dataset.done")
        for inputs, message in (
            ({"first": "ka", "second": " "}, "Write two texts."),
            ({"first": "ka " * 99, "second": "lo"}, "the model takes 64."),
        ):
            browser.run("delete document.getElementById('result').dataset.done")
            browser.run(
                "for (const [name, text] of Object.entries(arguments[0]))"
                " document.getElementById(`field-${name}`).value = text;"
                "document.getElementById('form').requestSubmit();",
                inputs,
            )
            assert message in text_of(browser, "error")
        choose_task(browser, "Masked tokens")
        browser.wait("return document.getElementById('result').dataset.done")
        assert browser.run("return document.getElementById('error').hidden")
        assert json.loads(text_of(browser, "json"))["masks"] == masked["masks"]
        assert problems(browser) == []


def test_a_model_without_a_pair_head_has_one_task(web_exports: WebExports, browser: Browser) -> None:
    with shown(web_exports("mlm"), browser):
        assert browser.run("return document.getElementById('tasks').hidden")
        assert predict(browser, {"text": "ka [MASK]"})["masks"]


def text_of(browser: Browser, identifier: str) -> str:
    return str(browser.run("return document.getElementById(arguments[0]).textContent", identifier))


def test_what_the_page_says_of_its_depth_and_of_wrong_input(
    web_exports: WebExports, browser: Browser
) -> None:
    with shown(web_exports("pretrain"), browser):
        predict(browser, {"text": "ka [MASK]"}, 2 * MODEL.layers)
        said = browser.run("return document.getElementById('depth-text').textContent")
        assert said == f"{2 * MODEL.layers} of {MODEL.layers} steps, deeper than trained"
        lines = browser.run("return document.querySelectorAll('.chart .line').length")
        assert lines == 5
        browser.run("document.getElementById('field-text').value = 'no mask'")
        browser.run("document.getElementById('form').requestSubmit()")
        message = browser.wait("return document.getElementById('error').textContent")
        assert message == "Write [MASK] where a word is missing."


def shares_of_token(source: Path, text: str, token: str) -> list[float]:
    """Return the probability of a token, as people read it, after each step of depth."""
    pipeline = fill_mask_pipeline(source)
    predictions = [
        pipeline.fill(text, top_k=len(pipeline.tokenizer), depth=depth)[0]
        for depth in range(1, 2 * MODEL.layers + 1)
    ]
    return [
        sum(one.score for one in of_step if one.token.removeprefix("▁") == token) for of_step in predictions
    ]


def test_the_chart_shows_a_token_also_where_others_are_better(
    web_exports: WebExports, browser: Browser
) -> None:
    with shown(web_exports("pretrain"), browser) as source:
        predict(browser, {"text": "ka [MASK]"}, 2 * MODEL.layers)
        names = browser.run("return [...document.querySelectorAll('#legend span')].map(s => s.textContent)")
        paths = browser.run(
            "return [...document.querySelectorAll('.chart .line')].map(line => line.getAttribute('d'))"
        )
        largest = browser.run("return [...document.querySelectorAll('.chart .tick.end')].at(-1).textContent")
        bottom, top = browser.run(
            "return [...document.querySelectorAll('.chart .grid')].map(line => +line.getAttribute('y1'))"
        )[::2]
        best = {one["text"] for one in predict(browser, {"text": "ka [MASK]"}, 1)["masks"][0]}
        assert not set(names) <= best, "the test needs a token that is not among the best after one step"
        for name, path in zip(names, paths, strict=True):
            heights = [float(point.split()[1].removesuffix("l0")) for point in path[1:].split("L")]
            shares = [int(largest.removesuffix("%")) / 100 * (bottom - y) / (bottom - top) for y in heights]
            assert shares == pytest.approx(shares_of_token(source, "ka [MASK]", name), abs=1e-3)


def test_threads_where_the_headers_allow_them(web_exports: WebExports, browser: Browser) -> None:
    source, out = web_exports("classify")
    headers = {
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Embedder-Policy": "require-corp",
    }
    with serve_folder(out, headers) as address:
        open_page(browser, address)
        assert browser.run("return crossOriginIsolated")
        assert "threads" in browser.run("return document.getElementById('time').textContent")
        inputs = INPUTS["classify"][0]
        assert_close(predict(browser, inputs), pipeline(source, precision="fp32")(**inputs))


def test_int8_in_the_page_has_the_predictions_of_int8_in_python(
    web_exports: WebExports, tmp_path: Path, browser: Browser
) -> None:
    export(
        web_exports("classify").source,
        tmp_path / "out",
        ExportSettings(to="web", precision="int8"),
        force=True,
    )
    with serve_folder(tmp_path / "out") as address:
        open_page(browser, address)
        for inputs in INPUTS["classify"]:
            expected = pipeline(tmp_path / "out")(**inputs)
            actual = predict(browser, inputs)
            for label, share in expected["probabilities"].items():
                assert actual["probabilities"][label] == pytest.approx(share, abs=0.02)


def test_nothing_is_loaded_from_elsewhere(web_exports: WebExports, browser: Browser) -> None:
    with serve_folder(web_exports("classify").out) as address:
        open_page(browser, address)
        names = browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        assert names
        assert all(name.startswith(address) for name in names)
        with pytest.raises(RuntimeError, match="Failed to fetch"):
            browser.run("return fetch('http://localhost:9/')")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", ["classify", "choice", "tag", "span", "mlm", "pretrain"])
def test_the_page_fits_a_phone_a_tablet_and_a_desktop(
    name: str, scheme: str, web_exports: WebExports, browser: Browser, tmp_path: Path
) -> None:
    with shown(web_exports(name), browser):
        for width in WINDOWS:
            browser.set_window(width, scheme)
            assert browser.run("return document.documentElement.scrollWidth") <= width
            picture = tmp_path / f"{width}.png"
            browser.screenshot(picture)
            assert is_dark(picture) == (scheme == "dark")


def is_dark(picture: Path) -> bool:
    """Return whether most of a picture is dark."""
    return float(imread(picture)[..., :3].mean()) < 0.5


def test_webgpu_has_the_same_predictions(web_exports: WebExports) -> None:
    source, out = web_exports("classify")
    with serve_folder(out) as address, open_browser(GPU_ARGUMENTS) as browser:
        open_page(browser, address)
        if browser.run("return document.getElementById('device-choice').hidden"):
            pytest.skip("this Chromium has no software driver for WebGPU")
        browser.run(
            """
            const choice = document.getElementById('device');
            choice.value = 'gpu';
            delete document.getElementById('result').dataset.done;
            choice.dispatchEvent(new Event('change'));
            """
        )
        browser.wait("return document.getElementById('result').dataset.done")
        assert "WebGPU" in browser.run("return document.getElementById('time').textContent")
        inputs = INPUTS["classify"][0]
        assert_close(predict(browser, inputs), pipeline(source, precision="fp32")(**inputs))

"""The READMEs of exports: their lines run without Albertine and print what Albertine predicts."""

import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.export.export_fixtures import LABELS, TEXTS
from tests.task_fixtures import MODEL, save_untrained_model

from albertine.cli import app
from albertine.command import run_command
from albertine.export.export import export
from albertine.export.settings import ExportSettings
from albertine.inference.fill_mask import fill_mask_pipeline
from albertine.inference.pipeline import pipeline
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings
from albertine.settings.export import ExportFormat
from albertine.tasks.card import TaskCard
from albertine.text.tokenizer import load_tokenizer


@dataclass(frozen=True)
class Task:
    """A model whose README is tested.

    Attributes:
        head: settings of its head.
        card: its task card.
        inputs: arguments of a pipeline, from the variables of the README's program.
        lines: what the program should print for a prediction of the pipeline.
    """

    head: HeadSettings
    card: TaskCard
    inputs: Callable[[Mapping[str, Any]], dict[str, Any]]
    lines: Callable[[Mapping[str, Any], Mapping[str, Any]], list[str]]


def text(_: Mapping[str, Any]) -> dict[str, Any]:
    return {"text": "A fine film."}


def pair(_: Mapping[str, Any]) -> dict[str, Any]:
    return {"text": "A fine film.", "text_pair": "The film is bad."}


def question(names: Mapping[str, Any]) -> dict[str, Any]:
    return {"context": names["passage"], "question": names["question"]}


def question_with_options(names: Mapping[str, Any]) -> dict[str, Any]:
    return question(names) | {"options": names["options"]}


def label(_: Mapping[str, Any], prediction: Mapping[str, Any]) -> list[str]:
    return [prediction["label"]]


def answer(_: Mapping[str, Any], prediction: Mapping[str, Any]) -> list[str]:
    return [prediction["answer"] or "(no answer)"]


def option(names: Mapping[str, Any], prediction: Mapping[str, Any]) -> list[str]:
    return [names["options"][prediction["option"]]]


def tags(names: Mapping[str, Any], prediction: Mapping[str, Any]) -> list[str]:
    return [f"{word} {tag}" for word, tag in zip(names["words"], prediction["tags"], strict=True)]


def card(type_name: str, **values: Any) -> TaskCard:
    return TaskCard(type_name, type_name, max_length=MODEL.max_length, **values)


OF_PAIRS = {"text": "premise", "text_pair": "hypothesis"}
TASKS = {
    "classify": Task(HeadSettings("classify", labels=3), card("classify", labels=LABELS), text, label),
    "pair": Task(
        HeadSettings("classify", labels=3), card("classify", labels=LABELS, columns=OF_PAIRS), pair, label
    ),
    "mnli": Task(
        HeadSettings("classify", labels=3, matching=True),
        replace(card("classify", labels=LABELS), task="mnli"),
        pair,
        label,
    ),
    "multi-label": Task(
        HeadSettings("multi-label", labels=3),
        card("multi-label", labels=LABELS, label_threshold=0.4),
        text,
        lambda _, prediction: [str(prediction["labels"])],
    ),
    "regress": Task(
        HeadSettings("regress", labels=1),
        card("regress"),
        text,
        lambda _, prediction: [f"{prediction['value']:.4f}"],
    ),
    "choice": Task(
        HeadSettings("choice", labels=1, options=3),
        card("choice", num_options=3),
        question_with_options,
        option,
    ),
    "co-matching": Task(
        HeadSettings("choice", labels=1, options=3, co_matching=True),
        card("choice", num_options=3),
        question_with_options,
        option,
    ),
    "tag": Task(
        HeadSettings("token", labels=3),
        card("tag", labels=LABELS),
        lambda names: {"text": names["words"]},
        tags,
    ),
    "span": Task(HeadSettings("span"), card("span"), question, answer),
    "answerable": Task(
        HeadSettings("span", answerable=True), card("span", allows_no_answer=True), question, answer
    ),
}


def readme_code(folder: Path) -> str:
    """Return the Python program in the README of an export."""
    return (folder / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]


def run_readme(folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], list[str]]:
    """Run the program in the README; return its variables, and the lines that it prints beside outputs."""
    monkeypatch.chdir(folder)
    lines: list[str] = []

    def keep_prediction(*values: Any) -> None:
        if not isinstance(values[-1], dict):  # the outputs of a graph
            lines.append(
                " ".join(f"{value:.4f}" if isinstance(value, float) else str(value) for value in values)
            )

    names: dict[str, Any] = {"print": keep_prediction}
    exec(compile(readme_code(folder), "README.md", "exec"), names)
    return names, lines


def save_model(folder: Path, checkpoint: Path, task: Task) -> Path:
    """Write a model with weights so large that its predictions differ between steps; return its folder."""
    model, generator = Model(MODEL, task.head, seed=3), torch.Generator().manual_seed(4)
    model.label_names = task.card.labels
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith("norm.weight"):
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.15)
    save_folder(model, folder, tokenizer=load_tokenizer(checkpoint))
    task.card.write(folder)
    return folder


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
@pytest.mark.parametrize(
    ("name", "exits"),
    [
        (name, exits)
        for name, task in TASKS.items()
        for exits in (False, True)
        if not (exits and task.head.co_matching)  # `export` refuses it
    ],
)
def test_the_lines_of_the_readme_print_what_the_pipeline_predicts(
    name: str,
    to: ExportFormat,
    exits: bool,
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = TASKS[name]
    source = save_model(tmp_path / "source", checkpoint, task)
    export(source, tmp_path / "out", ExportSettings(to=to, exits=exits))
    names, lines = run_readme(tmp_path / "out", monkeypatch)
    expected: list[str] = []
    for depth in range(1, MODEL.layers + 1) if exits else [None]:
        prediction = pipeline(source, precision="fp32", depth=depth)(**task.inputs(names))
        expected += task.lines(names, prediction)
    if task.head.kind == "span":  # the pipeline completes the words at both ends
        assert all(line and line in text for line, text in zip(lines, expected, strict=True))
    else:
        assert lines == expected


@pytest.mark.parametrize("exits", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_the_lines_of_the_readme_fill_a_mask(
    exits: bool, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(checkpoint, tmp_path / "out", ExportSettings(exits=exits))
    _, lines = run_readme(tmp_path / "out", monkeypatch)
    expected = []
    for depth in range(1, MODEL.layers + 1) if exits else [None]:
        (predictions,) = fill_mask_pipeline(checkpoint).fill("It was a [MASK].", depth=depth)
        expected.append(str([prediction.token for prediction in predictions]))
    assert lines == expected


def test_the_lines_of_the_readme_truncate(exported: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(exported)
    code = readme_code(exported).replace("A fine film.", "A fine film. " * 500)
    exec(compile(code, "README.md", "exec"), {})


def test_the_code_of_the_readme_reads_special_tokens_as_text(
    classifier: Path, exported: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(exported)
    text, names = "mi [MASK] lobra [SEP] dormi", dict[str, Any]()
    exec(compile(readme_code(exported).replace("A fine film.", text), "README.md", "exec"), names)
    probabilities = torch.from_numpy(names["results"]["logits"][0]).softmax(0).tolist()
    expected = pipeline(classifier, precision="fp32")(text)["probabilities"]
    assert probabilities == pytest.approx([expected[label] for label in LABELS], abs=1e-4)


@pytest.mark.parametrize("answerable", [False, True])
@pytest.mark.parametrize("threshold", [None, -50.0, 50.0])
def test_the_code_of_the_readme_answers_a_question(
    threshold: float | None,
    answerable: bool,
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    card = TaskCard(
        "span",
        "span",
        allows_no_answer=threshold is not None,
        no_answer_threshold=threshold or 0.0,
        max_length=MODEL.max_length,
    )
    head = HeadSettings("span", answerable=answerable)
    source = save_untrained_model(tmp_path / "span", checkpoint, head, card)
    export(source, tmp_path / "out", ExportSettings())
    monkeypatch.chdir(tmp_path / "out")
    names = dict[str, Any]()
    exec(compile(readme_code(tmp_path / "out"), "README.md", "exec"), names)
    answer = pipeline(source, precision="fp32")(question=names["question"], context=names["passage"])
    (candidate, *_) = answer["candidates"]
    assert names["answer"] in (candidate["text"] if threshold != -50.0 else "(no answer)")
    assert capsys.readouterr().out.splitlines()[-1] == names["answer"] != ""
    assert (answer["answer"] == "") == (threshold == -50.0)


def readme_command(folder: Path) -> list[str]:
    """Return the arguments of the shell command in the README of an export."""
    block = (folder / "README.md").read_text(encoding="utf-8").split("```sh\n")[1].split("```")[0]
    program, *arguments = shlex.split(block)
    assert program == "albertine"
    return arguments


@pytest.mark.slow
def test_the_command_of_the_readme_runs(
    classifier: Path, checkpoint: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for source in (classifier, checkpoint):
        folder = tmp_path / f"my {source.name}"
        export(source, folder, ExportSettings())
        monkeypatch.chdir(folder)
        shutil.copy(data, "new.csv")
        assert run_command(app, readme_command(folder)) == 0
    assert (
        len((tmp_path / f"my {classifier.name}" / "answers.csv").read_text(encoding="utf-8").splitlines())
        == len(TEXTS) + 1
    )

"""Tests of the report of a fine-tuned model: every task type, hostile texts, and runs without predictions."""

import html
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from albertine.finetune import dev_outcomes
from albertine.finetune.dev_predictions import (
    DEV_PREDICTIONS_FILE,
    DecisionColumns,
    DevPredictions,
    ExampleColumns,
    WorstError,
)
from albertine.finetune.finetune import finetune
from albertine.finetune.settings import FinetuneSettings, FinetuneTrainSettings
from albertine.report.dev_sections import _error_blocks
from albertine.report.score_section import comparison_columns, key_figure_notes, key_figures
from albertine.report.scores_by_length import length_groups, scores_by_length_html, truncation_html
from albertine.report.write import write_report
from albertine.tasks.registry import TASK_TYPES
from tests.export.browser import assert_fits_windows
from tests.task_fixtures import with_train_settings, write_jsonl

from .test_write import read_well_formed

HOSTILE = (
    "<script>alert(1)</script>",
    "</blockquote></div></body></html>",
    '" onmouseover="alert(2)" <img src=x onerror=alert(3)>',
    "&lt;b&gt; &amp;amp; \x00\x08\x1b \u202e ]]> <!-- ",
    "x" * 3000,
)
Row = dict[str, Any]


def text_row(index: int, text: str) -> Row:
    return {"text": f"{text} {index}", "label": ("<i>yes</i>", "no & 'never'")[index % 2]}


def pair_row(index: int, text: str) -> Row:
    return {**text_row(index, text), "text": text, "pair": f"{index} {text}"}


def number_row(index: int, text: str) -> Row:
    return {"text": f"{text} {index}", "label": float(index % 7) - 3}


def tag_row(index: int, text: str) -> Row:
    words = ["Ida", text.replace(" ", "_").replace("\x00", ""), f"w{index}"]
    return {"text": words, "label": ["B-<b>", "I-<b>", "O"] if index % 2 else ["O", "O", "B-LOC"]}


def labels_row(index: int, text: str) -> Row:
    return {"text": f"{text} {index}", "label": [["<i>a</i>"], ["b", "<i>a</i>"], []][index % 3]}


def span_row(index: int, text: str) -> Row:
    answers = [{"text": "Ida", "answer_start": len(text) + 1}] if index % 3 else []
    return {"question": f"Who {text}?"[:200], "context": f"{text} Ida ran {index}.", "answers": answers}


def choice_row(index: int, text: str) -> Row:
    return {"question": text, "options": [text, f"b {index}"], "label": index % 2}


CASES: dict[str, tuple[str, Callable[[int, str], Row], dict[str, str], tuple[str, ...]]] = {
    "classify": (
        "classify",
        text_row,
        {},
        ("What it confuses", "expected calibration error", "bag of words"),
    ),
    "pairs": ("classify", pair_row, {"text_pair": "pair"}, ("second text", "Matthews correlation")),
    "multi-label": (
        "multi-label",
        labels_row,
        {},
        ("wrongly given", "exactly the right labels", "always"),
    ),
    "regress": ("regress", number_row, {}, ("Predicted and right numbers", "farthest from the right number")),
    "tag": ("tag", tag_row, {}, ("What it confuses", "words with the right tag", "Over all words")),
    "span": ("span", span_row, {}, ("never an answer", "exact match", "passage")),
    "choice": ("choice", choice_row, {"options": "options"}, ("always option", "What it confuses")),
}


def test_every_task_type_has_a_case() -> None:
    assert {task for task, *_ in CASES.values()} == set(TASK_TYPES)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_page_of_every_task_type_with_hostile_texts(case: str, checkpoint: Path, tmp_path: Path) -> None:
    task, make_row, columns, expected = CASES[case]
    rows = [make_row(index, HOSTILE[index % len(HOSTILE)]) for index in range(60)]
    settings = FinetuneSettings(
        task=task,
        data=str(write_jsonl(tmp_path / "train.jsonl", rows)),
        dev=str(write_jsonl(tmp_path / "dev.jsonl", rows[:40])),
        device="cpu",
        train=FinetuneTrainSettings(steps=2, batch_size=8, lr=1e-4, evaluate_every=2, precision="fp32"),
        **columns,  # type: ignore[arg-type]
    )
    finetune(checkpoint, tmp_path / "run", settings)
    page = read_well_formed(write_report(tmp_path / "run"))
    for text in ("Scores", "What it gets wrong", "Short and long texts", "this model", *expected):
        assert text in page, text
    assert not re.search(r"<(script|img|i>|b>y)", page)
    assert_fits_windows(tmp_path / "run" / "report.html")
    assert not re.search(r"<[^>]* on\w+=", page)
    assert page.count("</body>") == page.count("</html>") == 1
    assert not re.search(r"[\x00-\x08\x0e-\x1f]", page)
    assert len(page) < 100_000
    for raw_key in ("macro_f1", "best_f1", "f1_answerable", "matthews<", "rmse"):
        assert raw_key not in page, raw_key
    assert f"albertine evaluate {tmp_path / 'run'} --data {tmp_path / 'dev.jsonl'}" in html.unescape(page)


def test_report_without_predictions_computes_them_or_says_how(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = with_train_settings(finetune_settings, steps=4, warmup=1, evaluate_every=2)
    run = tmp_path / "run"
    finetune(checkpoint, run, settings)
    page = read_well_formed(write_report(run))
    file = run / DEV_PREDICTIONS_FILE
    kept = file.read_bytes()
    file.unlink()
    assert read_well_formed(write_report(run)) == page
    assert file.read_bytes() == kept
    file.unlink()
    Path(str(settings.dev)).rename(tmp_path / "moved.csv")
    capsys.readouterr()
    page = read_well_formed(write_report(run))
    assert f"albertine report {run}" in page
    assert "What it confuses" not in page
    error_output = " ".join(capsys.readouterr().err.split())
    assert "the report lacks what the model gets wrong" in error_output
    assert f"{settings.dev}: no such file" in error_output


def test_a_sample_is_named(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dev_outcomes, "MAX_EXAMPLES", 30)
    settings = with_train_settings(finetune_settings, steps=4, warmup=1, evaluate_every=2)
    finetune(checkpoint, tmp_path / "run", replace(settings, seeds=2))
    page = read_well_formed(write_report(tmp_path / "run"))
    assert "a sample: 30 of the 60 examples of dev" in page
    assert "The scores are medians of 2 runs" in page


def test_key_figures_of_one_metric_are_those_compared() -> None:
    columns = [("this model", {"accuracy": 0.5}), ("bag of words", {"accuracy": 0.75})]
    assert key_figures(columns) == [("accuracy", "50.0"), ("bag of words", "75.0")]
    assert key_figure_notes(columns) == []
    several = [("this model", {"f1": 0.5, "rmse": 2.0}), ("always 3", {"f1": 0.25})]
    assert key_figures(several) == [("F1", "50.0"), ("RMSE", "2.000")]
    assert key_figure_notes(several) == ["always 3: 25.0", ""]
    assert comparison_columns({"f1": 0.5}, None, None) == [("this model", {"f1": 0.5})]


def test_lengths_are_grouped() -> None:
    groups = length_groups([5, 1, 3, 3, 9, 7, 2, 8])
    assert [len(group) for group in groups] == [2, 2, 2, 2]
    assert sorted(index for group in groups for index in group) == list(range(8))
    assert len(length_groups([4] * 10)) == 1
    assert scores_by_length_html([4] * 30, [1.0] * 30, "right answers", is_share=True) == ""
    lengths, scores = list(range(1, 41)), [1.0] * 20 + [0.0] * 20
    bars = scores_by_length_html(lengths, scores, "right answers", is_share=True)
    assert re.findall(r"(\d+)% of 10", bars) == ["100", "100", "0", "0"]


@pytest.mark.parametrize(
    ("num_wrong", "text"),
    [
        (1, "1 of 3 predictions on dev is wrong; here it is. Read it: a confident error"),
        (2, "2 of 3 predictions on dev are wrong; here are all of them, the most confident first. Read them"),
    ],
)
def test_errors_are_counted(num_wrong: int, text: str) -> None:
    scores = [0.0] * num_wrong + [1.0] * (3 - num_wrong)
    examples = ExampleColumns(["a", "b", "c"], [1] * 3, [0] * 3, scores, [], [])
    worst = [WorstError("a", "good", "bad", 0.9, [])] * num_wrong
    decisions = DecisionColumns([], [], [], [], [])
    predictions = DevPredictions("classify", "", 3, 0, 0.0, None, examples, decisions, num_wrong, worst)
    assert text in _error_blocks(predictions, is_share=True)[0]


def test_truncation_is_described() -> None:
    assert "No example was truncated" in truncation_html([0, 0], [1.0, 0.0], is_share=True)
    text = truncation_html([0, 10, 30, 0], [1.0, 0.0, 0.5, 1.0], is_share=True)
    assert "2 of 4 examples were truncated, by 20 tokens on average and 30 at most" in text
    assert "Their mean score is 25%, that of the others 100%." in text

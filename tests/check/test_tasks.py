"""Tests of `albertine check --task`: data of every task type, read as fine-tuning reads them."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.task_fixtures import write_csv, write_jsonl, write_squad

from albertine.check.check import CheckReport, check_data
from albertine.check.settings import CheckSettings
from albertine.cli import app
from albertine.command import run_command
from albertine.errors import ExitStatus

from .test_check import expect_refusal, reviews, tokenizer

__all__ = ["tokenizer"]


def report_by_kind(data: Path, task: str, **options: Any) -> dict[str, Any]:
    """Return the findings by kind, without those about language and rare tokens."""
    report = check_data([str(data)], CheckSettings(task=task, **options))
    return {
        each.kind: each for each in report.findings if each.kind not in ("language", "unknown-characters")
    }


def question(context: str, text: str, *answers: str) -> dict[str, Any]:
    return {"context": context, "question": text, "answers": list(answers)}


def choice(options: list[str], label: int | str = 0, text: str = "Who ran?") -> dict[str, Any]:
    return {"context": f"{options[0]} ran.", "question": text, "options": options, "label": label}


def test_questions_about_passages(tmp_path: Path, tokenizer: Path) -> None:
    story = "Ida walked to the mill and " + "then to the bridge and " * 12 + "slept."
    rows = [
        question("Ben ran home.", "Who ran?", "Ben"),
        question("Ben ran home.", "Where?", "home"),
        question("Ben ran home.", "When?"),
        question(story, "What did Ida do?", story[4:]),
        question("Eva sang.", "Who sang?", "Tom"),
    ]
    dev = write_jsonl(
        tmp_path / "dev.jsonl", [question("Ben ran home.", "How?"), question("Leo sang.", "Who?", "Leo")]
    )
    data = write_jsonl(tmp_path / "train.jsonl", rows)
    found = report_by_kind(data, "span", dev=str(dev), tokenizer=tokenizer)
    assert found.keys() == {"unreadable", "unanswered", "long-answers", "passages-in-dev"}
    assert found["unreadable"].location.endswith("train.jsonl, line 5")
    assert found["unreadable"].example == "its answer is not in the passage: Tom"
    assert (found["unanswered"].severity, found["unanswered"].count) == ("note", 2)
    assert (found["long-answers"].severity, found["long-answers"].count) == ("warning", 1)
    assert found["passages-in-dev"].count == 1
    assert found["passages-in-dev"].location == f"{data}, line 1 and {dev}, line 1"
    assert "truncated" in report_by_kind(data, "span", tokenizer=tokenizer, max_length=48)


def test_questions_without_any_answer_are_an_error(tmp_path: Path) -> None:
    data = write_jsonl(tmp_path / "a.jsonl", [question("Ben ran.", f"Who {n}?") for n in range(3)])
    assert report_by_kind(data, "span")["unanswered"].severity == "error"


def test_the_same_question_with_two_answers(tmp_path: Path) -> None:
    rows = [question("Ben ran home.", "Who ran?", "Ben"), question("Ben ran home.", "Who ran?")]
    found = report_by_kind(write_jsonl(tmp_path / "a.jsonl", rows), "span")
    assert found["conflicting-labels"].message == "texts with different answers"
    assert found["conflicting-labels"].example == "Who ran?: Ben and no answer"


def test_questions_with_options(tmp_path: Path, tokenizer: Path) -> None:
    rows = [
        *(choice([f"Ben {n}", "Ida", "Eva"], 1) for n in range(30)),
        choice(["Ida", "Ben"], 1),
        choice(["Leo", "Tom  B", "Tom B"], 2),
        choice(["Leo", "Tom", "Ann"], 7),
    ]
    data = write_jsonl(tmp_path / "a.jsonl", rows)
    found = report_by_kind(data, "choice", tokenizer=tokenizer, max_length=60)
    assert found.keys() == {"unreadable", "option-counts", "equal-options", "never-first-option"}
    assert (found["option-counts"].severity, found["option-counts"].count) == ("error", 1)
    assert found["option-counts"].location.endswith("line 31")
    assert (found["equal-options"].example, found["equal-options"].count) == ("Tom B", 1)
    assert found["never-first-option"].count == 32
    # A sequence has one option at a time.
    options = ["the bridge " * 5, "the mill " * 5, "the school " * 5]
    data = write_jsonl(tmp_path / "b.jsonl", [{"options": options, "label": 0}])
    assert "truncated" not in report_by_kind(data, "choice", tokenizer=tokenizer, max_length=20)
    assert "truncated" in report_by_kind(data, "choice", tokenizer=tokenizer, max_length=12)


def test_numbers_are_no_classes(tmp_path: Path) -> None:
    rows = [{"text": f"text {n}", "label": n % 5} for n in range(40)] + [{"text": "x", "label": "many"}]
    data = write_csv(tmp_path / "a.csv", rows)
    found = report_by_kind(data, "regress")
    assert found.keys() == {"labels", "unreadable"}
    assert found["labels"].message == "distinct numbers as labels: a task of type regress"
    assert found["labels"].count == 5
    assert "one-label" in report_by_kind(write_csv(tmp_path / "b.csv", rows[:1] * 2), "regress")


def test_conll_and_lists_of_words(tmp_path: Path) -> None:
    (tmp_path / "a.conll").write_text("Ida B-PER\nran O\n\nTom B-PER\nsang O\n\n" * 10 + "lost\n")
    found = report_by_kind(tmp_path / "a.conll", "tag")
    assert found["labels"].message == "labels in train: B-PER 50%, O 50%"  # of the words
    assert found["unreadable"].location.endswith("line 61")
    assert "conflicting-labels" not in found


def test_folders_in_the_official_layout_have_train_and_dev(tmp_path: Path) -> None:
    for split in ("train", "dev"):
        write_squad(tmp_path / "squad" / f"{split}-v2.0.json")
    report = check_data([str(tmp_path / "squad")], CheckSettings(task="squad-2.0"))
    assert report.texts == 12
    found = {finding.kind: finding.count for finding in report.findings}
    assert (found["train-in-dev"], found["passages-in-dev"]) == (6, 3)
    # A dev of one's own takes the place of that in the folder.
    dev = write_jsonl(tmp_path / "dev.jsonl", [question("Leo sang.", "Who?", "Leo")])
    report = check_data([str(tmp_path / "squad")], CheckSettings(task="squad-2.0", dev=str(dev)))
    assert report.texts == 7
    assert "passages-in-dev" not in {finding.kind for finding in report.findings}


def test_labels_of_texts_are_checked_as_without_a_task(tmp_path: Path) -> None:
    data = write_csv(tmp_path / "a.csv", reviews(0, 60))

    def without_task(**options: Any) -> CheckReport:
        return check_data([str(data)], CheckSettings(**options))

    assert without_task(task="classify") == without_task()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "span"], "--task span: no data; name a file or a folder"),
        (["a.jsonl", "--task", "spans"], "--task spans: unknown (did you mean span?)"),
        (["a.jsonl", "--task", "blimp"], "for albertine evaluate only"),
        (["a.jsonl", "--options", "a,b"], "--options a,b: needs a task"),
        (["a.jsonl", "--task", "classify", "--context", "b"], "--context is not used for classification"),
        (["a.jsonl", "--task", "span"], "no column question"),
        (["a.jsonl", "--task", "tag", "--dev", "b.jsonl"], "b.jsonl: no such file or folder"),
        ([".", "--task", "classify"], "is a folder; --task classify needs a file"),
        (["a.jsonl", "--task", "classify", "--no-header"], "--no-header is for .csv and .tsv files"),
        (["unlabeled.json", "--task", "squad-1.1"], "train has no labels; fine-tuning needs them"),
    ],
)
def test_wrong_arguments_are_refused_in_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    write_jsonl(tmp_path / "a.jsonl", [{"text": ["Ida", "ran"], "label": ["A", "B"]}])
    paragraph = {"context": "Ida ran.", "qas": [{"id": "1", "question": "Who ran?"}]}
    (tmp_path / "unlabeled.json").write_text(json.dumps({"data": [{"paragraphs": [paragraph]}]}))
    expect_refusal(arguments, message, capsys)


def test_the_command_prints_the_findings_of_a_task(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = write_jsonl(tmp_path / "a.jsonl", [choice(["Ida", "Ben"]), choice(["Tom", "Tom"])])
    assert run_command(app, ["check", str(data), "--task", "choice"]) == ExitStatus.DONE
    assert f"warning: 1 question with two equal options; {data}, line 2: Tom; " in capsys.readouterr().out
    assert run_command(app, ["check", str(data), "--task", "choice", "--json"]) == ExitStatus.DONE
    assert json.loads(capsys.readouterr().out)["warnings"] == 1

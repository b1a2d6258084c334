"""Tests of fine-tuning with a co-matching head, through the command line: from training to predictions."""

import json
import random
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from tests.task_fixtures import finetune_words, random_words, write_jsonl

import albertine
from albertine.bench.settings import FinetuneBenchSettings
from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.finetune.finetuning import Finetuning
from albertine.finetune.settings import FinetuneTrainSettings

_CPU = ["--device", "cpu"]
_OPTIONS = {
    "task": "choice",
    "dropout": "0",
    "train.precision": "fp32",
    "train.steps": "200",
    "train.lr": "3e-3",
    "train.warmup": "6",
    "train.batch-size": "16",
    "train.optimizer": "adamw",
    "train.evaluate-every": "50",
    "train.save-every": "70",
}


def questions(seed: int, count: int) -> list[dict[str, Any]]:
    """Return rows whose right option is in the passage; some have no question, and some no passage."""
    rng = random.Random(seed)
    rows = []
    for number in range(count):
        options, label = rng.sample(("ka", "lo", "mi"), 2), rng.randrange(2)
        passage = " ".join([options[label]] * 3 + random_words(rng, rng.randint(1, 4)))
        row = {"context": passage, "question": "Ren tas vu?", "options": options, "label": label}
        if number % 4 == 0:
            row["question"] = ""
        elif number % 4 == 1:
            row |= {"context": "", "question": passage}
        rows.append(row)
    return rows


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("questions")
    write_jsonl(folder / "train.jsonl", questions(1, 600))
    write_jsonl(folder / "dev.jsonl", questions(2, 80))
    return folder


def finetune_arguments(
    checkpoint: Path, data: Path, out: Path, changes: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    return [*finetune_words(checkpoint, data, out, _OPTIONS | dict(changes)), "--co-matching"]


@pytest.fixture(scope="module")
def run(checkpoint: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a finished run with a co-matching head."""
    folder = tmp_path_factory.mktemp("runs") / "matched"
    assert run_command(app, finetune_arguments(checkpoint, data, folder)) == 0
    return folder


@pytest.fixture
def command_json(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """A function that runs a command and returns its JSON output."""

    def call(*arguments: object) -> Any:
        capsys.readouterr()
        assert run_command(app, [*map(str, arguments), *_CPU]) == 0
        return json.loads(capsys.readouterr().out)

    return call


def accuracy(folder: Path) -> float:
    return float(json.loads((folder / "results.json").read_text())["median"]["accuracy"])


@pytest.mark.slow
def test_the_head_learns_and_is_saved(run: Path) -> None:
    assert accuracy(run) > 0.75
    assert (run / "co_matching.safetensors").exists()
    assert json.loads((run / "config.json").read_text())["albertine"]["head"]["co_matching"]


@pytest.mark.slow
def test_the_saved_model_evaluates_predicts_and_answers_as_in_training(
    run: Path, data: Path, tmp_path: Path, command_json: Callable[..., Any]
) -> None:
    (result,) = command_json("evaluate", run, "--data", data / "dev.jsonl", "--json")["results"]
    assert result["metrics"]["accuracy"] == pytest.approx(accuracy(run), abs=1e-6)
    out = tmp_path / "answers.jsonl"
    assert (
        run_command(app, ["predict", str(run), "--data", str(data / "dev.jsonl"), "--out", str(out), *_CPU])
        == 0
    )
    predictions = [json.loads(line) for line in out.read_text().splitlines()]
    pipeline, rows = albertine.pipeline(run, device="cpu"), questions(2, 80)
    for row, prediction in zip(rows, predictions, strict=True):  # alone and in a batch
        alone = pipeline(context=row["context"], question=row["question"], options=row["options"])
        assert alone["probabilities"] == pytest.approx(prediction["probabilities"], abs=1e-5)


@pytest.mark.slow
def test_an_ensemble_may_mix_both_heads(
    run: Path, checkpoint: Path, data: Path, tmp_path: Path, command_json: Callable[..., Any]
) -> None:
    arguments = finetune_arguments(checkpoint, data, tmp_path / "published")
    arguments.remove("--co-matching")
    assert run_command(app, arguments) in (0, 3)
    assert not (tmp_path / "published" / "co_matching.safetensors").exists()
    dev, both = ("--data", data / "dev.jsonl"), tmp_path / "both"
    command_json(
        "ensemble", run, tmp_path / "published", *dev, "--selection", "all", "--save", both, "--json"
    )
    (result,) = command_json("evaluate", both, *dev, "--json")["results"]
    assert result["metrics"]["accuracy"] > 0.5
    assert accuracy(run) > accuracy(tmp_path / "published") + 0.1  # the published head learns it more slowly


def test_a_run_has_a_report_and_can_be_converted(run: Path, tmp_path: Path) -> None:
    assert run_command(app, ["report", str(run)]) == 0
    assert run_command(app, ["convert", str(run), str(tmp_path / "copy")]) == 0
    assert (tmp_path / "copy" / "co_matching.safetensors").read_bytes() == (
        run / "co_matching.safetensors"
    ).read_bytes()


@pytest.mark.slow
def test_an_interrupted_run_resumes_exactly(
    checkpoint: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = tmp_path / "whole"
    assert run_command(app, finetune_arguments(checkpoint, data, whole)) == 0
    next_batch = Finetuning.next_batch

    def interrupted(self: Finetuning, step: int) -> Any:
        if step == 90:
            raise KeyboardInterrupt
        return next_batch(self, step)

    arguments = finetune_arguments(checkpoint, data, tmp_path / "run")
    with monkeypatch.context() as patch:
        patch.setattr(Finetuning, "next_batch", interrupted)
        assert run_command(app, arguments) == 130
    assert run_command(app, arguments) == 0
    for name in ("model.safetensors", "co_matching.safetensors", "task.json"):
        assert (tmp_path / "run" / name).read_bytes() == (whole / name).read_bytes(), name


def test_a_run_starts_from_one_with_a_co_matching_head(run: Path, data: Path, tmp_path: Path) -> None:
    arguments = finetune_arguments(run, data, tmp_path / "again", {"train.steps": "2", "train.warmup": "1"})
    assert run_command(app, arguments) in (0, 3)
    assert (tmp_path / "again" / "co_matching.safetensors").exists()


def error_line(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> str:
    """Return the one line of the message with which a command ends that is used wrongly."""
    capsys.readouterr()
    assert run_command(app, arguments) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("albertine: ")]
    return line


def test_another_task_type_is_refused(
    checkpoint: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changes = {"task": "classify", "text": "context"}
    assert (
        "--co-matching: --task classify is classification, which has no options to match; "
        "use one of: race, dream, choice"
    ) in error_line(capsys, finetune_arguments(checkpoint, data, tmp_path / "new", changes))


def test_a_run_keeps_its_head(
    run: Path, checkpoint: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = finetune_arguments(checkpoint, data, run)
    arguments.remove("--co-matching")
    assert "a run with co_matching = true, not false" in error_line(capsys, arguments)


def test_a_model_without_the_file_of_its_head_is_refused(
    run: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "copy"
    shutil.copytree(run, folder, ignore=shutil.ignore_patterns("checkpoints"))
    (folder / "co_matching.safetensors").unlink()
    arguments = ["evaluate", str(folder), "--data", str(data / "dev.jsonl"), *_CPU]
    assert "co_matching.safetensors: missing; get the file again" in error_line(capsys, arguments)


def test_options_without_a_passage_are_refused(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"options": ["ka lo", "mi"], "label": number % 2} for number in range(20)]
    write_jsonl(tmp_path / "train.jsonl", rows)
    write_jsonl(tmp_path / "dev.jsonl", rows)
    message = error_line(capsys, finetune_arguments(checkpoint, tmp_path, tmp_path / "new"))
    assert "has options only, and no passage or question to match them with" in message
    assert not (tmp_path / "new").exists()


def test_the_benchmark_against_transformers_has_no_such_heads() -> None:
    with pytest.raises(InputError, match="exit_heads"):
        FinetuneBenchSettings(exit_heads="own")
    with pytest.raises(InputError, match="transformers has no exits"):
        FinetuneBenchSettings(train=FinetuneTrainSettings(exits=True))
    with pytest.raises(InputError, match="co_matching = true: transformers has no such head to compare with"):
        FinetuneBenchSettings(co_matching=True)

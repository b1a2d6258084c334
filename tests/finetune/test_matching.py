"""Tests of fine-tuning with --matching, through the command line: from training to predictions."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

import pytest
from tests.finetune.pair_fixtures import accuracy, check_saved_model, pairs
from tests.task_fixtures import MODEL, finetune_words, write_jsonl

from albertine.cli import app
from albertine.command import run_command
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings
from albertine.text.tokenizer import load_tokenizer

_CPU = ["--device", "cpu"]
_OPTIONS = {
    "task": "classify",
    "text-pair": "other",
    "dropout": "0",
    "train.precision": "fp32",
    "train.steps": "120",
    "train.lr": "3e-3",
    "train.warmup": "6",
    "train.batch-size": "16",
    "train.optimizer": "adamw",
    "train.evaluate-every": "60",
}


@pytest.fixture(scope="module")
def checkpoint(tokenizer: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of an untrained checkpoint, so wide that different words have different states."""
    folder = tmp_path_factory.mktemp("checkpoint") / "wide"
    settings = replace(MODEL, embedding_size=64, hidden_size=64, heads=4)
    save_folder(
        Model(settings, HeadSettings("pretrain"), seed=1), folder, tokenizer=load_tokenizer(tokenizer)
    )
    return folder


def finetune_arguments(
    checkpoint: Path, data: Path, out: Path, changes: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    return finetune_words(checkpoint, data, out, _OPTIONS | dict(changes))


@pytest.fixture(scope="module")
def run(checkpoint: Path, data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a finished run whose head matches texts."""
    folder = tmp_path_factory.mktemp("runs") / "matched"
    assert run_command(app, [*finetune_arguments(checkpoint, data, folder), "--matching"]) == 0
    return folder


@pytest.mark.slow
def test_the_head_learns_to_compare_and_is_saved(run: Path) -> None:
    assert accuracy(run) > 0.95
    assert (run / "matching.safetensors").exists()
    assert json.loads((run / "config.json").read_text())["albertine"]["head"]["matching"]


@pytest.mark.slow
def test_without_it_the_run_says_what_would_help(
    checkpoint: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run_command(app, finetune_arguments(checkpoint, data, tmp_path / "published"))
    assert not (tmp_path / "published" / "matching.safetensors").exists()
    assert accuracy(tmp_path / "published") < 0.9  # [CLS] learns it more slowly
    output = capsys.readouterr().out
    assert "mark the tokens that both texts have (--mark-matches)" in output
    assert "compare the two texts token by token (--matching)" in output


def test_the_saved_model_evaluates_and_predicts_as_in_training(
    run: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    check_saved_model(run, data, tmp_path, capsys)


def test_a_run_has_a_report_and_can_be_converted(run: Path, tmp_path: Path) -> None:
    assert run_command(app, ["report", str(run)]) == 0
    assert run_command(app, ["convert", str(run), str(tmp_path / "copy")]) == 0
    copied, original = (folder / "matching.safetensors" for folder in (tmp_path / "copy", run))
    assert copied.read_bytes() == original.read_bytes()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("steps", [[], ["--exits"]], ids=["whole", "steps"])
@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_an_export_predicts_as_its_source(
    run: Path, data: Path, to: str, steps: list[str], tmp_path: Path
) -> None:
    exported, dev = tmp_path / "exported", str(data / "dev.jsonl")
    assert run_command(app, ["export", str(run), "--to", to, *steps, "--out", str(exported)]) == 0
    predictions = []
    for model in (run, exported):
        out = tmp_path / f"{model.name}.jsonl"
        assert run_command(app, ["predict", str(model), "--data", dev, "--out", str(out)]) == 0
        predictions.append([json.loads(line) for line in out.read_text().splitlines()])
    for expected, actual in zip(*predictions, strict=True):
        assert actual["probabilities"] == pytest.approx(expected["probabilities"], abs=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"task": "tag", "text-pair": ""},
            "--matching: --task tag is tagging; it compares the two texts of a classification",
        ),
        ({"task": "choice", "text-pair": ""}, "--co-matching is for multiple choice"),
        ({"text-pair": ""}, "has only one text per example, so there is nothing to compare; leave"),
    ],
    ids=["tags", "options", "one text"],
)
def test_what_has_no_two_texts_is_refused(
    options: dict[str, str],
    message: str,
    checkpoint: Path,
    data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    arguments = finetune_arguments(checkpoint, data, tmp_path / "out", options)
    assert run_command(app, [*arguments, "--matching"]) == 2
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("albertine: ")]
    assert message in line
    assert not (tmp_path / "out").exists()


def test_a_run_keeps_its_head(
    run: Path, checkpoint: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, finetune_arguments(checkpoint, data, run)) == 2
    assert "a run with matching = true, not false" in capsys.readouterr().err


def test_second_texts_that_are_all_empty_are_none(
    checkpoint: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{**row, "other": " "} for row in pairs(1, 20)]
    for name in ("train", "dev"):
        write_jsonl(tmp_path / f"{name}.jsonl", rows)
    arguments = [*finetune_arguments(checkpoint, tmp_path, tmp_path / "out"), "--matching"]
    assert run_command(app, arguments) == 2
    assert "has only one text per example, so there is nothing to compare" in capsys.readouterr().err


def test_a_model_of_one_segment_takes_no_pairs(
    tokenizer: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings, start = replace(MODEL, segments=1), tmp_path / "start"
    save_folder(Model(settings, HeadSettings("mlm"), seed=1), start, tokenizer=load_tokenizer(tokenizer))
    assert run_command(app, finetune_arguments(start, data, tmp_path / "out")) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.endswith(
        f"{start}: the model has one segment, and the task has two texts in a sequence; fine-tune a model "
        "with two segments"
    )
    assert not (tmp_path / "out").exists()

"""Tests of the benchmark from text to labels."""

import json
from pathlib import Path

import pytest
from tests.task_fixtures import LABELS, checkpoint, save_untrained_model

from albertine.cli import app
from albertine.command import run_command
from albertine.export.export import export
from albertine.export.settings import ExportSettings
from albertine.settings import HeadSettings
from albertine.tasks.card import TaskCard

__all__ = ["checkpoint"]

HEAD = HeadSettings("classify", labels=3)
CARD = TaskCard("classify", "classify", labels=LABELS, metric_names=("accuracy",), max_length=64)


@pytest.fixture
def classifier(checkpoint: Path, tmp_path: Path) -> Path:
    return save_untrained_model(tmp_path / "classifier", checkpoint, HEAD, CARD)


def test_both_sides_of_a_checkpoint(classifier: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["bench", "pipeline", str(classifier), "--runs", "1", "--precision", "fp32"]
    assert run_command(app, [*words, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["engine"] == "torch, fp32"
    names = [workload["workload"] for workload in result["workloads"]]
    assert names == ["one text of 16 tokens", "8 texts of 64 tokens", "512 sentences, in strips"]
    one, rows, _ = (workload["tokens"] for workload in result["workloads"])
    assert (one, rows) == (16, 8 * 64)
    for workload in result["workloads"]:
        assert workload["engine_seconds"] > 0
        assert workload["ratio"] > 0
    assert run_command(app, words) == 0
    assert "8 texts of 64 tokens" in capsys.readouterr().out


@pytest.mark.slow
def test_an_export_also_gets_padded_batches(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export(classifier, tmp_path / "out", ExportSettings(to="onnx"))
    assert run_command(app, ["bench", "pipeline", str(tmp_path / "out"), "--runs", "1", "--json"]) == 0
    names = [workload["workload"] for workload in json.loads(capsys.readouterr().out)["workloads"]]
    assert names[2:] == ["512 sentences, as they arrive", "512 sentences, sorted"]


def test_a_model_of_another_type_is_refused(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = TaskCard("span", "span", max_length=32, allows_no_answer=True)
    model = save_untrained_model(tmp_path / "reader", checkpoint, HeadSettings("span"), card)
    assert run_command(app, ["bench", "pipeline", str(model)]) == 2
    assert "the benchmark needs a model of single texts" in capsys.readouterr().err

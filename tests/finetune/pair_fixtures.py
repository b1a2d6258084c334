"""Pairs of texts with a word in common or not, and what the tests of runs on them share."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tests.task_fixtures import write_jsonl

import albertine
from albertine.cli import app
from albertine.command import run_command

_CPU = ["--device", "cpu"]


def pairs(seed: int, count: int) -> list[dict[str, Any]]:
    """Return rows whose texts have a word in common, or not; no word says by itself which."""
    rng = random.Random(seed)
    rows = []
    for _ in range(count):
        words = rng.sample(("ka", "lo", "mi", "vu", "ren", "tas"), 6)
        is_shared = rng.random() < 0.5
        second = [rng.choice(words[:2]) if is_shared else words[3], *words[4:]]
        rng.shuffle(second)
        label = "shared" if is_shared else "apart"
        rows.append({"text": " ".join(words[:2]), "other": " ".join(second), "label": label})
    return rows


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with pairs to train on and for dev."""
    folder = tmp_path_factory.mktemp("pairs")
    write_jsonl(folder / "train.jsonl", pairs(1, 500))
    write_jsonl(folder / "dev.jsonl", pairs(2, 100))
    return folder


def accuracy(folder: Path) -> float:
    return float(json.loads((folder / "results.json").read_text())["median"]["accuracy"])


def check_saved_model(run: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Check that a model evaluates as in training, and predicts alone as in a batch."""
    dev, out = str(data / "dev.jsonl"), tmp_path / "answers.jsonl"
    capsys.readouterr()
    assert run_command(app, ["evaluate", str(run), "--data", dev, "--json", *_CPU]) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["metrics"]["accuracy"] == pytest.approx(accuracy(run), abs=1e-6)
    assert run_command(app, ["predict", str(run), "--data", dev, "--out", str(out), *_CPU]) == 0
    predictions = [json.loads(line) for line in out.read_text().splitlines()]
    pipeline = albertine.pipeline(run, device="cpu")
    for row, prediction in zip(pairs(2, 100)[:20], predictions, strict=False):  # alone and in a batch
        alone = pipeline(row["text"], row["other"])
        assert alone["probabilities"] == pytest.approx(prediction["probabilities"], abs=1e-5)

"""Several processes tune as one does, through the real command line."""

import json
from dataclasses import replace
from pathlib import Path
from signal import Signals

import pytest

from albertine.settings.toml import write
from albertine.tasks.settings import FinetuneSettings
from albertine.train.journal import read_journal
from tests.conftest import Nursery
from tests.tasks.conftest import reviews, with_train, write_csv


def words(settings: FinetuneSettings, start: Path, run: Path) -> list[str]:
    file = run.parent / f"{run.name}.toml"
    file.write_text(write(settings), encoding="utf-8")
    return ["finetune", str(start), "--config", str(file), "--out", str(run), "--json"]


def numbers(run: Path) -> list[float]:
    lines = read_journal(run)
    told = [
        [line.get("label_loss"), line.get("held_out_accuracy"), line.get("gradient_norm")] for line in lines
    ]
    return [one for line in told for one in line if one is not None]


@pytest.mark.parametrize("shard", [False, True])
def test_the_numbers_are_those_of_one(
    shard: bool, checkpoint: Path, asked: FinetuneSettings, tmp_path: Path, nursery: Nursery
) -> None:
    asked = with_train(replace(asked, classifier_dropout=0.0), steps=12, warmup=2, evaluate_every=4)
    ended, said = nursery.run(*words(asked, checkpoint, tmp_path / "alone"))
    assert ended == [0], said
    ended, said = nursery.run(*words(with_train(asked, shard=shard), checkpoint, tmp_path / "run"), ranks=2)
    assert ended == [0, 0], said
    assert said.count('"median"') == 1
    assert numbers(tmp_path / "run") == pytest.approx(numbers(tmp_path / "alone"), rel=1e-3, abs=2e-4)
    assert len(numbers(tmp_path / "run")) == 12 * 2 + 4


def test_spread_weights_with_few_samples(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path, nursery: Nursery
) -> None:
    """Some pieces are empty, and one example to measure on is scored by all."""
    one = write_csv(tmp_path / "one.csv", reviews(3, 1))
    asked = replace(asked, task="regress", label="mark", dev=str(one), classifier_dropout=0.0)
    asked = with_train(asked, steps=4, warmup=1, evaluate_every=4, batch=3, at_once=16)
    ended, said = nursery.run(*words(asked, checkpoint, tmp_path / "alone"))
    assert ended == [0], said
    ended, said = nursery.run(*words(with_train(asked, shard=True), checkpoint, tmp_path / "run"), ranks=2)
    assert ended == [0, 0], said
    losses = [
        [line["number_loss"] for line in read_journal(tmp_path / run) if "number_loss" in line]
        for run in ("alone", "run")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert len(losses[0]) == 4


def test_killed_at_any_moment_it_ends_with_the_same_model(
    checkpoint: Path, asked: FinetuneSettings, tmp_path: Path, nursery: Nursery
) -> None:
    asked = with_train(asked, steps=80, save_every=5, evaluate_every=10)
    ended, said = nursery.run(*words(asked, checkpoint, tmp_path / "whole"))
    assert ended == [0], said
    for at in range(1, 7):
        nursery.run(*words(asked, checkpoint, tmp_path / "run"), signal=Signals.SIGKILL, after=0.25 * at)
    ended, said = nursery.run(*words(asked, checkpoint, tmp_path / "run"))
    assert ended == [0], said
    results = [json.loads((tmp_path / run / "results.json").read_text()) for run in ("whole", "run")]
    assert results[0] == results[1]
    weights = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("whole", "run")]
    assert weights[0] == weights[1]

"""Several processes tune as one does, through the real command line."""

import json
from dataclasses import replace
from pathlib import Path
from signal import Signals

import pytest
from tests.conftest import ForkServer
from tests.task_fixtures import reviews, with_train_settings, write_csv

from albertine.finetune.settings import FinetuneSettings
from albertine.settings.toml import settings_to_toml
from albertine.train.metrics_log import read_metrics

pytestmark = pytest.mark.slow  # several processes per run


def finetune_arguments(settings: FinetuneSettings, start: Path, run: Path) -> list[str]:
    file = run.parent / f"{run.name}.toml"
    file.write_text(settings_to_toml(settings), encoding="utf-8")
    return ["finetune", str(start), "--config", str(file), "--out", str(run), "--json"]


def logged_metrics(run: Path) -> list[float]:
    lines = read_metrics(run)
    told = [
        [line.get("label_loss"), line.get("held_out_accuracy"), line.get("gradient_norm")] for line in lines
    ]
    return [one for line in told for one in line if one is not None]


@pytest.mark.parametrize("shard", [False, True])
def test_two_processes_match_one(
    shard: bool,
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    fork_server: ForkServer,
) -> None:
    finetune_settings = with_train_settings(
        replace(finetune_settings, classifier_dropout=0.0), steps=12, warmup=2, evaluate_every=4
    )
    ended, said = fork_server.run(*finetune_arguments(finetune_settings, checkpoint, tmp_path / "alone"))
    assert ended == [0], said
    ended, said = fork_server.run(
        *finetune_arguments(
            with_train_settings(finetune_settings, shard=shard), checkpoint, tmp_path / "run"
        ),
        world_size=2,
    )
    assert ended == [0, 0], said
    assert said.count('"median"') == 1
    assert logged_metrics(tmp_path / "run") == pytest.approx(
        logged_metrics(tmp_path / "alone"), rel=1e-3, abs=2e-4
    )
    assert len(logged_metrics(tmp_path / "run")) == 12 * 2 + 4


def test_sharding_with_empty_micro_batches(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    """Some pieces are empty, and one example to measure on is scored by all."""
    one = write_csv(tmp_path / "one.csv", reviews(3, 1))
    finetune_settings = replace(
        finetune_settings, task="regress", label="mark", dev=str(one), classifier_dropout=0.0
    )
    finetune_settings = with_train_settings(
        finetune_settings, steps=4, warmup=1, evaluate_every=4, batch_size=3, micro_batch_tokens=16
    )
    ended, said = fork_server.run(*finetune_arguments(finetune_settings, checkpoint, tmp_path / "alone"))
    assert ended == [0], said
    ended, said = fork_server.run(
        *finetune_arguments(with_train_settings(finetune_settings, shard=True), checkpoint, tmp_path / "run"),
        world_size=2,
    )
    assert ended == [0, 0], said
    losses = [
        [line["number_loss"] for line in read_metrics(tmp_path / run) if "number_loss" in line]
        for run in ("alone", "run")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert len(losses[0]) == 4


def test_resume_after_sigkill_gives_same_model(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    finetune_settings = with_train_settings(finetune_settings, steps=80, save_every=5, evaluate_every=10)
    ended, said = fork_server.run(*finetune_arguments(finetune_settings, checkpoint, tmp_path / "whole"))
    assert ended == [0], said
    for at in range(1, 7):
        fork_server.run(
            *finetune_arguments(finetune_settings, checkpoint, tmp_path / "run"),
            signal=Signals.SIGKILL,
            signal_after=0.25 * at,
        )
    ended, said = fork_server.run(*finetune_arguments(finetune_settings, checkpoint, tmp_path / "run"))
    assert ended == [0], said
    results = [json.loads((tmp_path / run / "results.json").read_text()) for run in ("whole", "run")]
    assert results[0] == results[1]
    weights = [(tmp_path / run / "model.safetensors").read_bytes() for run in ("whole", "run")]
    assert weights[0] == weights[1]

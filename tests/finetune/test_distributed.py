"""Tests of distributed fine-tuning from the command line: same losses, sharding, exact resume."""

import json
from dataclasses import replace
from pathlib import Path
from signal import Signals

import pytest
from tests.conftest import ForkServer
from tests.task_fixtures import reviews, with_train_settings, write_csv

from albertine.errors import ExitStatus
from albertine.finetune.settings import FinetuneSettings
from albertine.settings.toml import settings_to_toml
from albertine.train.metrics_log import read_metrics

pytestmark = pytest.mark.slow  # several processes per run


def finetune_arguments(settings: FinetuneSettings, checkpoint: Path, run: Path) -> list[str]:
    """Return the arguments of `albertine`, with the settings in a file beside the run folder."""
    file = run.parent / f"{run.name}.toml"
    file.write_text(settings_to_toml(settings), encoding="utf-8")
    return ["finetune", str(checkpoint), "--config", str(file), "--out", str(run), "--json"]


def logged_metrics(run: Path) -> list[float]:
    """Return losses, gradient norms and accuracies in the metrics log, in order."""
    names = ("label_loss", "held_out_accuracy", "gradient_norm")
    values = [line.get(name) for line in read_metrics(run) for name in names]
    return [value for value in values if value is not None]


@pytest.mark.long
@pytest.mark.parametrize(
    ("shard", "exits"),
    [(False, ""), (True, ""), (True, "own"), (False, "learned"), (True, "learned")],
)
def test_two_processes_match_one(
    shard: bool,
    exits: str,
    checkpoint: Path,
    finetune_settings: FinetuneSettings,
    tmp_path: Path,
    fork_server: ForkServer,
) -> None:
    finetune_settings = with_train_settings(
        replace(finetune_settings, classifier_dropout=0.0),
        steps=12,
        warmup=2,
        evaluate_every=4,
        exits=bool(exits),
        learned_exit=exits == "learned",
    )
    if exits == "own":
        finetune_settings = replace(finetune_settings, exit_heads="own")
    statuses, output = fork_server.run(
        *finetune_arguments(finetune_settings, checkpoint, tmp_path / "single")
    )
    assert statuses == [ExitStatus.NOTHING_LEARNED], output  # all predictions are still the same
    statuses, output = fork_server.run(
        *finetune_arguments(
            with_train_settings(finetune_settings, shard=shard), checkpoint, tmp_path / "distributed"
        ),
        world_size=2,
    )
    assert statuses == [ExitStatus.NOTHING_LEARNED, ExitStatus.DONE], output  # one process reports it
    assert output.count('"median"') == 1
    assert logged_metrics(tmp_path / "distributed") == pytest.approx(
        logged_metrics(tmp_path / "single"), rel=1e-3, abs=2e-4
    )
    assert len(logged_metrics(tmp_path / "distributed")) == 12 * 2 + 4


def test_sharding_with_empty_micro_batches(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    """One process has fewer micro-batches than the other, and dev has a single example."""
    dev = write_csv(tmp_path / "single-example.csv", reviews(3, 1))
    finetune_settings = replace(
        finetune_settings, task="regress", label="mark", dev=str(dev), classifier_dropout=0.0
    )
    finetune_settings = with_train_settings(
        finetune_settings, steps=4, warmup=1, evaluate_every=4, batch_size=3, micro_batch_tokens=16
    )
    statuses, output = fork_server.run(
        *finetune_arguments(finetune_settings, checkpoint, tmp_path / "single")
    )
    assert statuses == [0], output
    statuses, output = fork_server.run(
        *finetune_arguments(
            with_train_settings(finetune_settings, shard=True), checkpoint, tmp_path / "distributed"
        ),
        world_size=2,
    )
    assert statuses == [0, 0], output
    losses = [
        [line["number_loss"] for line in read_metrics(tmp_path / run) if "number_loss" in line]
        for run in ("single", "distributed")
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    assert len(losses[0]) == 4


def test_resume_after_sigkill_gives_same_model(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    finetune_settings = with_train_settings(finetune_settings, steps=80, save_every=5, evaluate_every=10)
    statuses, output = fork_server.run(
        *finetune_arguments(finetune_settings, checkpoint, tmp_path / "uninterrupted")
    )
    assert statuses == [0], output
    for attempt in range(1, 7):
        fork_server.run(
            *finetune_arguments(finetune_settings, checkpoint, tmp_path / "interrupted"),
            signal=Signals.SIGKILL,
            signal_after=0.25 * attempt,
        )
    statuses, output = fork_server.run(
        *finetune_arguments(finetune_settings, checkpoint, tmp_path / "interrupted")
    )
    assert statuses == [0], output
    results = [
        json.loads((tmp_path / run / "results.json").read_text()) for run in ("uninterrupted", "interrupted")
    ]
    assert results[0] == results[1]
    weights = [
        (tmp_path / run / "model.safetensors").read_bytes() for run in ("uninterrupted", "interrupted")
    ]
    assert weights[0] == weights[1]

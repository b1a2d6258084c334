"""Training with several processes equals training with one."""

from pathlib import Path
from signal import Signals
from typing import Any

import pytest

from albertine.pretrain.settings import PretrainSettings
from tests.conftest import ForkServer

from .conftest import read_untimed_metrics, weight_bytes, with_train
from .test_resume import command_line, variant

pytestmark = pytest.mark.slow  # several processes per run


def metric_values(run: Path) -> list[Any]:
    return [
        one
        for line in read_untimed_metrics(run)
        for key, one in sorted(line.items())
        if isinstance(one, float)
    ]


def metrics_are_close(one: Path, other: Path) -> bool:
    assert [line["step"] for line in read_untimed_metrics(one)] == [
        line["step"] for line in read_untimed_metrics(other)
    ]
    return metric_values(one) == pytest.approx(metric_values(other), abs=2e-4, rel=1e-3)


@pytest.fixture
def alone(settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer) -> Path:
    ended, said = fork_server.run(*command_line(settings, tmp_path / "alone", tmp_path))
    assert ended == [0], said
    return tmp_path / "alone"


@pytest.mark.parametrize("ranks", [2, 4])
def test_losses_match_a_single_process(
    ranks: int, settings: PretrainSettings, alone: Path, tmp_path: Path, fork_server: ForkServer
) -> None:
    ended, said = fork_server.run(*command_line(settings, tmp_path / "run", tmp_path), world_size=ranks)
    assert ended == [0] * ranks, said
    assert said.count("curve.svg") == 1
    assert metrics_are_close(alone, tmp_path / "run")


@pytest.mark.parametrize("optimizer", ["muon", "adamw", "lamb"])
def test_sharding_does_not_change_losses(
    optimizer: str, settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    settings = with_train(settings, optimizer=optimizer, micro_batch_tokens=64)
    ended, said = fork_server.run(*command_line(settings, tmp_path / "alone", tmp_path))
    assert ended == [0], said
    spread = with_train(settings, shard=True)
    ended, said = fork_server.run(*command_line(spread, tmp_path / "run", tmp_path), world_size=2)
    assert ended == [0, 0], said
    assert metrics_are_close(tmp_path / "alone", tmp_path / "run")


def test_batch_with_fewer_samples_than_processes(
    settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    """Some processes get no samples."""
    settings = with_train(settings, batch_tokens=128)
    few = ["--objective.max-length", "32", "--objective.short-seq-prob", "0"]
    ended, said = fork_server.run(*command_line(settings, tmp_path / "alone", tmp_path), *few)
    assert ended == [0], said
    for shard in ("false", "true"):
        run = tmp_path / f"shard-{shard}"
        command = [*command_line(settings, run, tmp_path), *few, f"--train.shard={shard}"]
        ended, said = fork_server.run(*command, world_size=4)
        assert ended == [0] * 4, said
        assert metrics_are_close(tmp_path / "alone", run)


@pytest.mark.parametrize(("before", "after", "shard"), [(2, 1, "false"), (1, 2, "true"), (2, 1, "true")])
def test_resuming_with_another_world_size(
    before: int, after: int, shard: str, settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    settings = with_train(variant(settings, "curricula"), steps=30, save_every=5)
    ended, said = fork_server.run(*command_line(settings, tmp_path / "alone", tmp_path))
    assert ended == [0], said
    command = [*command_line(settings, tmp_path / "run", tmp_path), f"--train.shard={shard}"]
    saved = tmp_path / "run" / "checkpoints" / "step-00000010"
    ended, said = fork_server.run(*command, world_size=before, signal_when_exists=saved)
    assert ended == [-9] * before, said
    ended, said = fork_server.run(*command, world_size=after)
    assert ended == [0] * after, said
    assert metrics_are_close(tmp_path / "alone", tmp_path / "run")


def test_all_processes_stop_at_the_same_step(
    settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    command = command_line(with_train(settings, steps=4000), tmp_path / "run", tmp_path)
    saved = tmp_path / "run" / "checkpoints" / "step-00000009"
    ended, said = fork_server.run(*command, world_size=2, signal=Signals.SIGTERM, signal_when_exists=saved)
    assert ended == [143, 143], said
    assert "run the same command again to resume" in said
    step = max(line["step"] for line in read_untimed_metrics(tmp_path / "run"))
    assert (tmp_path / "run" / "checkpoints" / f"step-{step:08d}").exists()


def test_sharding_without_the_pair_objective(
    settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    """Without pairs, the pooler gets no gradient."""
    alone = ["--objective.pair", "none"]
    for name, ranks, more in (("alone", 1, []), ("run", 2, ["--train.shard"])):
        ended, said = fork_server.run(
            *command_line(settings, tmp_path / name, tmp_path), *alone, *more, world_size=ranks
        )
        assert ended == [0] * ranks, said
    assert metrics_are_close(tmp_path / "alone", tmp_path / "run")


def test_an_error_is_reported_once(
    settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "summer.jpg").touch()
    ended, said = fork_server.run(*command_line(settings, tmp_path / "photos", tmp_path), world_size=2)
    assert ended == [2, 2]
    assert said.count("exists already and is no run") == 1
    assert "defect" not in said
    late = ["--train.batch-tokens", "80", "--curriculum.length", "16, 64 from 0.5"]
    ended, said = fork_server.run(*command_line(settings, tmp_path / "late", tmp_path), *late, world_size=2)
    assert ended == [2, 2]
    assert "must hold a sample of 64 tokens for each of 2 processes" in said


def test_distributed_training_is_deterministic(
    settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    for name in ("one", "other"):
        ended, said = fork_server.run(*command_line(settings, tmp_path / name, tmp_path), world_size=2)
        assert ended == [0, 0], said
    assert weight_bytes(tmp_path / "one") == weight_bytes(tmp_path / "other")

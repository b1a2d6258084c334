"""Training with several processes equals training with one."""

import re
from dataclasses import replace
from pathlib import Path
from signal import Signals
from typing import Any

import pytest

from albertine.pretrain.settings import PretrainSettings
from albertine.settings.model import Sharing
from tests.conftest import ForkServer

from .conftest import read_untimed_metrics, weight_bytes, with_train
from .test_resume import variant, write_recipe_and_command

pytestmark = pytest.mark.slow  # several processes per run


def metric_values(run: Path) -> list[Any]:
    """Return all fractional numbers of a metrics log, in a fixed order."""
    return [
        value
        for line in read_untimed_metrics(run)
        for _, value in sorted(line.items())
        if isinstance(value, float)
    ]


def metrics_are_close(run: Path, other_run: Path) -> bool:
    steps, other_steps = (
        [line["step"] for line in read_untimed_metrics(folder)] for folder in (run, other_run)
    )
    assert steps == other_steps
    return metric_values(run) == pytest.approx(metric_values(other_run), abs=2e-4, rel=1e-3)


@pytest.fixture
def single_process_run(settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer) -> Path:
    exit_codes, output = fork_server.run(*write_recipe_and_command(settings, tmp_path / "single", tmp_path))
    assert exit_codes == [0], output
    return tmp_path / "single"


@pytest.mark.long
@pytest.mark.parametrize("world_size", [2, 4])
def test_losses_match_a_single_process(
    world_size: int,
    settings: PretrainSettings,
    single_process_run: Path,
    tmp_path: Path,
    fork_server: ForkServer,
) -> None:
    command = write_recipe_and_command(settings, tmp_path / "run", tmp_path)
    exit_codes, output = fork_server.run(*command, world_size=world_size)
    assert exit_codes == [0] * world_size, output
    assert output.count("curve.svg") == 1  # only the main process prints
    assert metrics_are_close(single_process_run, tmp_path / "run")


@pytest.mark.long
@pytest.mark.parametrize(
    ("optimizer", "share", "changes"),
    [
        ("muon", "all", {}),
        ("adamw", "all", {}),
        ("lamb", "all", {}),
        ("muon", "none", {}),  # each block is gathered by itself
        ("adamw", "attention", {"recompute": True}),
        ("lamb", "none", {"precision": "bf16"}),
    ],
)
def test_sharding_does_not_change_losses(
    optimizer: str,
    share: Sharing,
    changes: dict[str, Any],
    settings: PretrainSettings,
    tmp_path: Path,
    fork_server: ForkServer,
) -> None:
    settings = replace(settings, model=replace(settings.model, share=share))
    settings = with_train(settings, optimizer=optimizer, micro_batch_tokens=64, **changes)
    exit_codes, output = fork_server.run(*write_recipe_and_command(settings, tmp_path / "single", tmp_path))
    assert exit_codes == [0], output
    sharded = with_train(settings, shard=True)
    exit_codes, output = fork_server.run(
        *write_recipe_and_command(sharded, tmp_path / "run", tmp_path), world_size=2
    )
    assert exit_codes == [0, 0], output
    assert metrics_are_close(tmp_path / "single", tmp_path / "run")


@pytest.mark.parametrize("causal_fraction", [0.0, 0.5])
def test_exits_and_causal_samples_do_not_depend_on_the_number_of_processes(
    causal_fraction: float, settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    settings = with_train(variant(settings, "curricula"), exits=True, micro_batch_tokens=64)
    settings = replace(settings, objective=replace(settings.objective, causal_fraction=causal_fraction))
    exit_codes, output = fork_server.run(*write_recipe_and_command(settings, tmp_path / "single", tmp_path))
    assert exit_codes == [0], output
    for shard in ("false", "true"):
        run = tmp_path / f"shard-{shard}"
        command = [*write_recipe_and_command(settings, run, tmp_path), f"--train.shard={shard}"]
        exit_codes, output = fork_server.run(*command, world_size=2)
        assert exit_codes == [0, 0], output
        assert metrics_are_close(tmp_path / "single", run)


@pytest.mark.long
def test_batch_with_fewer_samples_than_processes(
    settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    """Some processes get no samples."""
    settings = with_train(settings, batch_tokens=128)
    options = ["--objective.max-length", "32", "--objective.short-seq-prob", "0"]
    exit_codes, output = fork_server.run(
        *write_recipe_and_command(settings, tmp_path / "single", tmp_path), *options
    )
    assert exit_codes == [0], output
    for shard in ("false", "true"):
        run = tmp_path / f"shard-{shard}"
        command = [*write_recipe_and_command(settings, run, tmp_path), *options, f"--train.shard={shard}"]
        exit_codes, output = fork_server.run(*command, world_size=4)
        assert exit_codes == [0] * 4, output
        assert metrics_are_close(tmp_path / "single", run)


@pytest.mark.long
@pytest.mark.parametrize(
    ("before", "after", "shard", "optimizer", "share"),
    [
        (2, 1, "false", "muon", "all"),
        (4, 1, "true", "muon", "all"),
        (4, 3, "true", "adamw", "none"),  # the rows of a shard of 3 are uneven
        (1, 4, "true", "lamb", "none"),
        (3, 4, "true", "muon", "all"),
    ],
)
def test_resuming_with_another_world_size(
    before: int,
    after: int,
    shard: str,
    optimizer: str,
    share: Sharing,
    settings: PretrainSettings,
    tmp_path: Path,
    fork_server: ForkServer,
) -> None:
    settings = replace(settings, model=replace(settings.model, share=share))
    if share == "all":  # the curriculum of depth is only for shared blocks
        settings = variant(settings, "curricula")
    settings = with_train(settings, steps=30, save_every=5, batch_tokens=512, optimizer=optimizer)
    exit_codes, output = fork_server.run(*write_recipe_and_command(settings, tmp_path / "single", tmp_path))
    assert exit_codes == [0], output
    command = [*write_recipe_and_command(settings, tmp_path / "run", tmp_path), f"--train.shard={shard}"]
    checkpoint = tmp_path / "run" / "checkpoints" / "step-00000010"
    exit_codes, output = fork_server.run(*command, world_size=before, signal_when_exists=checkpoint)
    assert exit_codes == [-9] * before, output
    exit_codes, output = fork_server.run(*command, world_size=after)
    assert exit_codes == [0] * after, output
    assert metrics_are_close(tmp_path / "single", tmp_path / "run")


def test_all_processes_stop_at_the_same_step(
    settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    command = write_recipe_and_command(with_train(settings, steps=4000), tmp_path / "run", tmp_path)
    checkpoint = tmp_path / "run" / "checkpoints" / "step-00000009"
    exit_codes, output = fork_server.run(
        *command, world_size=2, signal=Signals.SIGTERM, signal_when_exists=checkpoint
    )
    assert exit_codes == [143, 143], output
    assert "run the same command again to resume" in output
    step = max(line["step"] for line in read_untimed_metrics(tmp_path / "run"))
    assert re.findall(r"stopped on request at step (\d+) of", output) == [str(step)] * 2
    assert (tmp_path / "run" / "checkpoints" / f"step-{step:08d}").exists()


def test_lamb_shards_matrices_of_an_odd_number_of_layers(
    settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    """Each matrix of a stacked parameter is scaled by its own norm, on whichever process it is."""
    settings = replace(settings, model=replace(settings.model, layers=3, step_rank=2, step_vectors=True))
    settings = with_train(settings, optimizer="lamb", micro_batch_tokens=64)
    for name, world_size, options in (("single", 1, []), ("run", 2, ["--train.shard"])):
        command = [*write_recipe_and_command(settings, tmp_path / name, tmp_path), *options]
        exit_codes, output = fork_server.run(*command, world_size=world_size)
        assert exit_codes == [0] * world_size, output
    assert metrics_are_close(tmp_path / "single", tmp_path / "run")


def test_sharding_without_the_pair_objective(
    settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    """Without pairs, the pooler gets no gradient."""
    for name, world_size, options in (("single", 1, []), ("run", 2, ["--train.shard"])):
        command = [
            *write_recipe_and_command(settings, tmp_path / name, tmp_path),
            "--objective.pair",
            "none",
            *options,
        ]
        exit_codes, output = fork_server.run(*command, world_size=world_size)
        assert exit_codes == [0] * world_size, output
    assert metrics_are_close(tmp_path / "single", tmp_path / "run")


def test_an_error_is_reported_once(
    settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "summer.jpg").touch()
    exit_codes, output = fork_server.run(
        *write_recipe_and_command(settings, tmp_path / "photos", tmp_path), world_size=2
    )
    assert exit_codes == [2, 2]
    assert output.count("exists already and is not a run folder") == 1
    assert "internal error" not in output  # a user error, not a bug in Albertine


def test_batch_too_small_for_the_world_size_is_refused(
    settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    command = write_recipe_and_command(settings, tmp_path / "small-batch", tmp_path)
    options = ["--train.batch-tokens", "80", "--curriculum.length", "16, 64 from 0.5"]
    exit_codes, output = fork_server.run(*command, *options, world_size=2)
    assert exit_codes == [2, 2]
    assert "must hold a sample of 64 tokens for each of 2 processes" in output


def test_distributed_training_is_deterministic(
    settings: PretrainSettings, tmp_path: Path, fork_server: ForkServer
) -> None:
    for name in ("first", "second"):
        exit_codes, output = fork_server.run(
            *write_recipe_and_command(settings, tmp_path / name, tmp_path), world_size=2
        )
        assert exit_codes == [0, 0], output
    assert weight_bytes(tmp_path / "first") == weight_bytes(tmp_path / "second")

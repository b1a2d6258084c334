"""Several processes train as one does."""

from pathlib import Path
from signal import Signals
from typing import Any

import pytest

from albertine.pretrain.settings import PretrainSettings
from tests.conftest import Nursery

from .conftest import steps_of, weights_of, with_train
from .test_resume import variant, words


def numbers(run: Path) -> list[Any]:
    return [one for line in steps_of(run) for key, one in sorted(line.items()) if isinstance(one, float)]


def close(one: Path, other: Path) -> bool:
    assert [line["step"] for line in steps_of(one)] == [line["step"] for line in steps_of(other)]
    return numbers(one) == pytest.approx(numbers(other), abs=2e-4, rel=1e-3)


@pytest.fixture
def alone(settings: PretrainSettings, tmp_path: Path, nursery: Nursery) -> Path:
    ended, said = nursery.run(*words(settings, tmp_path / "alone", tmp_path))
    assert ended == [0], said
    return tmp_path / "alone"


@pytest.mark.parametrize("ranks", [2, 4])
def test_the_losses_are_those_of_one(
    ranks: int, settings: PretrainSettings, alone: Path, tmp_path: Path, nursery: Nursery
) -> None:
    ended, said = nursery.run(*words(settings, tmp_path / "run", tmp_path), ranks=ranks)
    assert ended == [0] * ranks, said
    assert said.count("curve.svg") == 1
    assert close(alone, tmp_path / "run")


@pytest.mark.parametrize("optimizer", ["muon", "adamw", "lamb"])
def test_spread_weights_make_no_difference(
    optimizer: str, settings: PretrainSettings, tmp_path: Path, nursery: Nursery
) -> None:
    settings = with_train(settings, optimizer=optimizer, at_once=64)
    ended, said = nursery.run(*words(settings, tmp_path / "alone", tmp_path))
    assert ended == [0], said
    spread = with_train(settings, shard=True)
    ended, said = nursery.run(*words(spread, tmp_path / "run", tmp_path), ranks=2)
    assert ended == [0, 0], said
    assert close(tmp_path / "alone", tmp_path / "run")


def test_a_batch_of_fewer_samples_than_processes(
    settings: PretrainSettings, tmp_path: Path, nursery: Nursery
) -> None:
    """Some shares are empty."""
    settings = with_train(settings, batch_tokens=128)
    few = ["--objective.max-length", "32", "--objective.short", "0"]
    ended, said = nursery.run(*words(settings, tmp_path / "alone", tmp_path), *few)
    assert ended == [0], said
    for shard in ("false", "true"):
        run = tmp_path / f"shard-{shard}"
        command = [*words(settings, run, tmp_path), *few, f"--train.shard={shard}"]
        ended, said = nursery.run(*command, ranks=4)
        assert ended == [0] * 4, said
        assert close(tmp_path / "alone", run)


@pytest.mark.parametrize(("before", "after", "shard"), [(2, 1, "false"), (1, 2, "true"), (2, 1, "true")])
def test_saved_on_some_it_goes_on_on_others(
    before: int, after: int, shard: str, settings: PretrainSettings, tmp_path: Path, nursery: Nursery
) -> None:
    settings = with_train(variant(settings, "curricula"), steps=30, save_every=5)
    ended, said = nursery.run(*words(settings, tmp_path / "alone", tmp_path))
    assert ended == [0], said
    command = [*words(settings, tmp_path / "run", tmp_path), f"--train.shard={shard}"]
    saved = tmp_path / "run" / "trainer" / "step-00000010"
    ended, said = nursery.run(*command, ranks=before, when=saved)
    assert ended == [-9] * before, said
    ended, said = nursery.run(*command, ranks=after)
    assert ended == [0] * after, said
    assert close(tmp_path / "alone", tmp_path / "run")


def test_asked_to_end_all_end_together(settings: PretrainSettings, tmp_path: Path, nursery: Nursery) -> None:
    command = words(with_train(settings, steps=4000), tmp_path / "run", tmp_path)
    saved = tmp_path / "run" / "trainer" / "step-00000009"
    ended, said = nursery.run(*command, ranks=2, signal=Signals.SIGTERM, when=saved)
    assert ended == [143, 143], said
    assert "the same command goes on from there" in said
    step = max(line["step"] for line in steps_of(tmp_path / "run"))
    assert (tmp_path / "run" / "trainer" / f"step-{step:08d}").exists()


def test_spread_weights_without_an_objective(
    settings: PretrainSettings, tmp_path: Path, nursery: Nursery
) -> None:
    """Without pairs, nothing asks for the pooler."""
    alone = ["--objective.pair", "none"]
    for name, ranks, more in (("alone", 1, []), ("run", 2, ["--train.shard"])):
        ended, said = nursery.run(*words(settings, tmp_path / name, tmp_path), *alone, *more, ranks=ranks)
        assert ended == [0] * ranks, said
    assert close(tmp_path / "alone", tmp_path / "run")


def test_a_mistake_is_told_once(settings: PretrainSettings, tmp_path: Path, nursery: Nursery) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "summer.jpg").touch()
    ended, said = nursery.run(*words(settings, tmp_path / "photos", tmp_path), ranks=2)
    assert ended == [2, 2]
    assert said.count("exists already and is no run") == 1
    assert "defect" not in said
    late = ["--train.batch-tokens", "80", "--curriculum.length", "16, 64 from 0.5"]
    ended, said = nursery.run(*words(settings, tmp_path / "late", tmp_path), *late, ranks=2)
    assert ended == [2, 2]
    assert "must hold a sample of 64 pieces for each of 2 processes" in said


def test_weights_are_the_same_each_time(settings: PretrainSettings, tmp_path: Path, nursery: Nursery) -> None:
    for name in ("one", "other"):
        ended, said = nursery.run(*words(settings, tmp_path / name, tmp_path), ranks=2)
        assert ended == [0, 0], said
    assert weights_of(tmp_path / "one") == weights_of(tmp_path / "other")

"""Tests of the doctor: it accepts healthy steps, skips nonfinite ones and rolls back if the loss diverges."""

import math
import random
from dataclasses import asdict

import pytest

from albertine.train.doctor import Doctor


def run_healthy_steps(
    doctor: Doctor, steps: int, *, start: int = 1, loss: float = 6.0, noise: float = 0.1
) -> None:
    rng = random.Random(start)
    for step in range(start, start + steps):
        assert doctor.check_step(step, loss + rng.gauss(0, noise), 1.0) == "ok"


@pytest.mark.parametrize("noise", [0.0, 0.02, 0.5])
def test_noise_causes_no_rollback(noise: float) -> None:
    doctor = Doctor()
    run_healthy_steps(doctor, 3000, noise=noise)
    assert doctor.last_healthy_step > 2900


@pytest.mark.parametrize(
    ("loss", "norm"), [(math.nan, 1.0), (6.0, math.nan), (6.0, math.inf), (math.inf, 1.0)]
)
def test_nonfinite_steps_are_skipped_then_rolled_back(loss: float, norm: float) -> None:
    doctor = Doctor()
    run_healthy_steps(doctor, 100)
    assert [doctor.check_step(101 + n, loss, norm) for n in range(5)] == ["skip"] * 4 + ["rollback"]
    assert doctor.last_healthy_step == 99  # the last finite loss is that of the weights after step 99


def test_single_nonfinite_steps_cause_no_rollback() -> None:
    doctor = Doctor()
    for step in range(1, 400, 2):
        assert doctor.check_step(step, math.nan, 1.0) == "skip"
        assert doctor.check_step(step + 1, 6.0, 1.0) == "ok"


def test_only_a_lasting_loss_spike_causes_a_rollback() -> None:
    doctor = Doctor()
    run_healthy_steps(doctor, 200)
    assert [doctor.check_step(201 + n, 8.0, 5.0) for n in range(10)] == ["ok"] * 10
    run_healthy_steps(doctor, 50, start=211)
    verdicts = [doctor.check_step(261 + n, 8.0, 5.0) for n in range(20)]
    assert verdicts == ["ok"] * 19 + ["rollback"]
    assert doctor.last_healthy_step == 259


CEILING = 6.0  # of a model that has learned next to nothing


@pytest.mark.parametrize("was_below", [True, False])
def test_a_changed_objective_keeps_a_ceiling_that_was_reached(was_below: bool) -> None:
    doctor = Doctor()
    run_healthy_steps(doctor, 100, loss=4.0 if was_below else 7.0)
    doctor.change_objective(CEILING)
    verdicts = [doctor.check_step(101 + n, 7.5, 5.0, CEILING) for n in range(40)]
    assert ("rollback" in verdicts) == was_below


def test_divergence_in_the_first_steps_causes_a_rollback() -> None:
    doctor = Doctor()
    assert doctor.check_step(1, 5.9, 1.0, CEILING) == "ok"
    found = [doctor.check_step(2 + n, 64.0 + 6 * n, 5.0, CEILING) for n in range(19)]
    assert found == ["ok"] * 18 + ["rollback"]
    assert doctor.last_healthy_step == 0


def test_divergence_without_a_jump_causes_a_rollback() -> None:
    losses = [4.9 + 0.01 * n for n in range(1000)]
    doctor = Doctor()
    verdicts = [doctor.check_step(1 + n, loss, 1.0, CEILING) for n, loss in enumerate(losses)]
    first = verdicts.index("rollback")
    assert losses[first] < CEILING + 1.2
    assert losses[doctor.last_healthy_step] < CEILING + 0.8
    assert "rollback" not in [Doctor().check_step(1 + n, loss, 1.0) for n, loss in enumerate(losses)]


def test_loss_that_is_mostly_high_causes_a_rollback() -> None:
    doctor = Doctor()
    run_healthy_steps(doctor, 10, loss=5.0)
    losses = [8.0, 8.0, 8.0, 6.0] * 20
    verdicts = [doctor.check_step(11 + n, loss, 1.0, CEILING) for n, loss in enumerate(losses)]
    assert verdicts.index("rollback") < 45
    assert doctor.last_healthy_step < 25


def test_loss_that_hovers_above_the_ceiling_causes_a_rollback() -> None:
    """In a diverged run at too high a learning rate, two losses in five can be below the ceiling."""
    doctor = Doctor()
    assert doctor.check_step(1, 6.1, 1.0, CEILING) == "ok"
    losses = [5.8, 7.9, 6.7, 5.9, 8.2] * 30
    assert "rollback" in [doctor.check_step(2 + n, loss, 1.0, CEILING) for n, loss in enumerate(losses)]
    assert doctor.last_healthy_step < 20


@pytest.mark.parametrize("seed", range(5))
def test_noise_of_tiny_batches_at_the_ceiling_causes_no_rollback(seed: int) -> None:
    """Losses of single tokens have a wide and skewed distribution; here its mean is at the ceiling."""
    doctor, random_source = Doctor(), random.Random(seed)
    for step in range(1, 5001):
        loss = CEILING - 2.0 + random_source.expovariate(0.5)
        assert doctor.check_step(step, loss, 1.0, CEILING) == "ok"


def test_run_may_start_above_the_ceiling_and_come_down() -> None:
    doctor = Doctor()
    for step in range(1, 301):  # fresh weights: the first losses are those of a uniform guess, or worse
        assert doctor.check_step(step, max(5.0, 9.0 - 0.02 * step), 1.0, CEILING) == "ok"
    assert "rollback" in [doctor.check_step(301 + n, 8.0, 1.0, CEILING) for n in range(60)]


def test_rollback_forgets_the_lowest_loss() -> None:
    doctor = Doctor()
    run_healthy_steps(doctor, 60, loss=5.0)
    doctor.record_rollback()
    assert all(doctor.check_step(1 + n, 9.0, 1.0, CEILING) == "ok" for n in range(40))


def test_state_of_an_earlier_version_is_read() -> None:
    values = asdict(Doctor(average_loss=5.0, averaged_steps=60))
    for name in ("recent_loss", "recent_deviation", "recent_steps", "lowest_recent_loss"):
        del values[name]
    assert Doctor(**values).check_step(61, 5.0, 1.0, CEILING) == "ok"


def test_every_rollback_halves_the_learning_rate() -> None:
    doctor = Doctor()
    assert doctor.lr_factor == 1
    doctor.record_rollback()
    doctor.record_rollback()
    assert doctor.lr_factor == 0.25
    assert Doctor(**asdict(doctor)) == doctor


def test_a_changed_objective_accepts_a_new_loss_level() -> None:
    doctor = Doctor()
    run_healthy_steps(doctor, 200, loss=5.0)
    doctor.change_objective(math.inf)
    run_healthy_steps(doctor, 200, start=201, loss=8.0)

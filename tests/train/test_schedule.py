"""The rate over a run, and the rule it follows when nobody gives it."""

import math

import pytest

from albertine.train.schedule import Schedule, rate_for, warmup_for
from albertine.train.settings import TrainSettings


def test_the_paper_comes_out_of_the_rule() -> None:
    train = TrainSettings(optimizer="lamb", batch_tokens=4096 * 512, steps=125_000)
    schedule = Schedule.of(train)
    assert schedule.lr == 0.00176
    assert schedule.warmup == 3125


def test_rates_grow_with_the_root_of_the_batch() -> None:
    assert rate_for("lamb", 4 * 4096 * 512) == pytest.approx(2 * rate_for("lamb", 4096 * 512))
    assert rate_for("lamb", 1024 * 512) == pytest.approx(rate_for("lamb", 4096 * 512) / 2, rel=0.01)


def test_a_given_rate_and_warmup_are_taken() -> None:
    schedule = Schedule.of(TrainSettings(lr=0.5, warmup=7, steps=10))
    assert (schedule.lr, schedule.warmup) == (0.5, 7)


@pytest.mark.parametrize("form", ["linear", "cosine", "constant"])
def test_it_rises_then_falls(form: str) -> None:
    schedule = Schedule(1.0, 10, 110, form)  # type: ignore[arg-type]
    rates = [schedule.rate(step) for step in range(110)]
    assert rates[:10] == [pytest.approx((step + 1) / 11) for step in range(10)]
    assert rates[10] == 1.0
    middle = {"linear": 0.5, "cosine": 0.5, "constant": 1.0}[form]
    assert rates[60] == pytest.approx(middle)
    assert rates == sorted(rates[:11]) + sorted(rates[11:], reverse=True)
    last = {"linear": 0.01, "cosine": (1 + math.cos(math.pi * 0.99)) / 2, "constant": 1.0}[form]
    assert rates[-1] == pytest.approx(last)


def test_warmups_fit_their_runs() -> None:
    for steps in (1, 10, 1000, 125_000):
        for tokens in (1024, 65_536, 1 << 24):
            assert 0 <= warmup_for(steps, tokens) <= steps / 4

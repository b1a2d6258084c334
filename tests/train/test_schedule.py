"""Tests of the learning-rate schedule and its defaults."""

import math
from typing import get_args

import pytest

from albertine.train.schedule import LearningRateSchedule, default_lr, default_warmup
from albertine.train.settings import PretrainTrainSettings, ScheduleName


def test_default_lr_and_warmup_match_the_paper() -> None:
    train = PretrainTrainSettings(optimizer="lamb", batch_tokens=4096 * 512, steps=125_000)
    schedule = LearningRateSchedule.from_settings(train)
    assert schedule.peak_lr == 0.00176
    assert schedule.warmup == 3125


def test_default_lr_scales_with_the_square_root_of_the_batch() -> None:
    assert default_lr("lamb", 4 * 4096 * 512) == pytest.approx(2 * default_lr("lamb", 4096 * 512))
    assert default_lr("lamb", 1024 * 512) == pytest.approx(default_lr("lamb", 4096 * 512) / 2, rel=0.01)


def test_given_lr_and_warmup_are_used() -> None:
    schedule = LearningRateSchedule.from_settings(PretrainTrainSettings(lr=0.5, warmup=7, steps=10))
    assert (schedule.peak_lr, schedule.warmup) == (0.5, 7)


@pytest.mark.parametrize("name", sorted({*get_args(ScheduleName)} - {"linear-from-start"}))
def test_lr_warms_up_then_decays(name: ScheduleName) -> None:
    schedule = LearningRateSchedule(1.0, 10, 110, name)
    rates = [schedule.lr_at(step) for step in range(110)]
    assert rates[:10] == [pytest.approx((step + 1) / 11) for step in range(10)]
    assert rates[10] == 1.0
    middle = {"linear": 0.5, "cosine": 0.5, "constant": 1.0}[name]
    assert rates[60] == pytest.approx(middle)
    assert rates == sorted(rates[:11]) + sorted(rates[11:], reverse=True)
    last = {"linear": 0.01, "cosine": (1 + math.cos(math.pi * 0.99)) / 2, "constant": 1.0}[name]
    assert rates[-1] == pytest.approx(last)


def google_lr(peak: float, warmup: int, steps: int, step: int) -> float:
    """Return the rate of `create_optimizer` in Google's `optimization.py`, with its names."""
    learning_rate: float = (peak - 0.0) * (1 - min(step, steps) / steps) ** 1.0 + 0.0
    warmup_learning_rate = peak * (step / warmup)
    is_warmup = float(step < warmup)
    return (1.0 - is_warmup) * learning_rate + is_warmup * warmup_learning_rate


@pytest.mark.parametrize(
    ("peak", "warmup", "steps"), [(3e-5, 200, 800), (1e-5, 320, 5336), (0.00176, 3125, 125_000)]
)
def test_linear_from_start_matches_google(peak: float, warmup: int, steps: int) -> None:
    schedule = LearningRateSchedule(peak, warmup, steps, "linear-from-start")
    for step in (0, 1, warmup - 1, warmup, warmup + 1, steps // 2, steps - 1):
        assert schedule.lr_at(step) == pytest.approx(google_lr(peak, warmup, steps, step), rel=1e-12), step


def test_linear_from_start_without_warmup() -> None:
    schedule = LearningRateSchedule(1.0, 0, 10, "linear-from-start")
    assert [schedule.lr_at(step) for step in range(10)] == pytest.approx(
        [1 - step / 10 for step in range(10)]
    )


def test_default_warmup_is_at_most_a_quarter_of_the_run() -> None:
    for steps in (1, 10, 1000, 125_000):
        for tokens in (1024, 65_536, 1 << 24):
            assert 0 <= default_warmup(steps, tokens) <= steps / 4

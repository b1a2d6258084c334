"""Intervals of differences, compared with SciPy."""

import math

import numpy as np
import pytest
import scipy.stats

from albertine.paired_statistics import (
    MAX_SEEDS,
    detectable_difference,
    detectable_distance,
    half_width,
    paired_difference,
    seeds_to_confirm_equality,
    seeds_to_detect,
    student_quantile,
)
from albertine.study.claim import Expectation
from albertine.study.verdicts import judge


@pytest.mark.parametrize("degrees", [1, 2, 3, 4, 5, 9, 30, 99, 998])
@pytest.mark.parametrize("probability", [0.6, 0.8, 0.975, 0.999])
def test_quantiles(degrees: int, probability: float) -> None:
    expected = scipy.stats.t.ppf(probability, degrees)
    assert student_quantile(probability, degrees) == pytest.approx(expected, rel=1e-9)


def test_interval_of_a_paired_difference() -> None:
    first, second = np.random.default_rng(0).normal(size=(2, 7))
    result = paired_difference(first.tolist(), second.tolist())
    expected = scipy.stats.ttest_rel(first, second).confidence_interval(0.95)
    assert (result.low, result.high) == pytest.approx((expected.low, expected.high))
    assert result.mean == pytest.approx((first - second).mean())


def test_one_seed_says_nothing() -> None:
    result = paired_difference([1.0], [0.0])
    assert (result.low, result.high) == (-math.inf, math.inf)
    assert result.to_json() == {"mean": 1.0, "low": None, "high": None, "deviation": None, "seeds": 1}
    assert half_width(1.0, 1) == math.inf


def test_intervals_contain_the_mean_as_often_as_they_should() -> None:
    seeds = 5
    samples = np.random.default_rng(1).normal(3.0, 2.0, size=(5_000, seeds))
    halves = np.array([half_width(one, seeds) for one in samples.std(1, ddof=1)])
    assert np.mean(abs(samples.mean(1) - 3.0) <= halves) == pytest.approx(0.95, abs=0.01)


def test_number_of_seeds_that_find_a_difference() -> None:
    seeds = seeds_to_detect(1.0, 0.5, 5)
    assert detectable_difference(1.0, seeds) < 0.5 <= detectable_difference(1.0, seeds - 1)
    assert seeds_to_detect(1.0, 100.0, 5) == 5
    assert seeds_to_detect(1.0, 1e-6, 5) == MAX_SEEDS + 1


@pytest.mark.parametrize("seeds", [5, 10, 30])
def test_detectable_differences_are_found_in_four_of_five_studies(seeds: int) -> None:
    difference = detectable_difference(1.0, seeds)
    critical = scipy.stats.t.ppf(0.975, seeds - 1)
    power = scipy.stats.nct.sf(critical, seeds - 1, difference * math.sqrt(seeds))
    assert power == pytest.approx(0.8, abs=0.02)


@pytest.mark.parametrize("margin", [1.05, 1.2, 5.0])
def test_distances_from_the_margin_are_found_in_four_of_five_studies(margin: float) -> None:
    seeds = 12
    distance = detectable_distance(1.0, seeds, margin)
    assert distance <= margin
    samples = np.random.default_rng(0).normal(margin - distance, 1.0, size=(5_000, seeds))
    halves = np.array([half_width(one, seeds) for one in samples.std(1, ddof=1)])
    assert np.mean(abs(samples.mean(1)) + halves <= margin) == pytest.approx(0.8, abs=0.03)


def test_a_margin_that_is_too_narrow_for_the_seeds() -> None:
    assert detectable_distance(1.0, 12, 0.5) > 0.5
    assert detectable_distance(1.0, 1, 0.5) == math.inf
    assert detectable_distance(0.0, 12, 0.5) == 0.0
    seeds = seeds_to_confirm_equality(1.0, 0.3, 5, 0.5)
    assert detectable_distance(1.0, seeds, 0.5) <= 0.2 < detectable_distance(1.0, seeds - 1, 0.5)
    assert seeds_to_confirm_equality(1.0, 0.4999, 5, 0.5) == MAX_SEEDS + 1


@pytest.mark.slow
def test_detectable_differences_reach_the_margin() -> None:
    rng, seeds, margin = np.random.default_rng(0), 10, 1.0
    true = detectable_difference(0.3, seeds, margin)
    expectation = Expectation("sop_accuracy", "a", "b", margin)
    found = [
        judge(expectation, rng.normal(true, 0.3, seeds).tolist(), [0.0] * seeds).outcome for _ in range(1_000)
    ]
    assert found.count("confirmed") == pytest.approx(800, abs=40)


def test_one_seed_detects_nothing() -> None:
    assert detectable_difference(1.0, 1) == math.inf

"""Differences of two arms over seeds: their 95% interval, and which differences how many seeds detect."""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from statistics import fmean, stdev

_QUANTILE = 0.975  # of a two-sided interval of 95%
_POWER = 0.8  # share of studies that find a detectable difference
MAX_SEEDS = 1000  # of an estimate of the seeds that are needed


@dataclass(frozen=True)
class PairedDifference:
    """The mean difference of two arms over seeds.

    Attributes:
        mean: mean over the seeds.
        low: lower end of the 95% interval; minus infinity with one seed.
        high: upper end of the 95% interval.
        deviation: standard deviation over the seeds; NaN with one seed.
        seeds: number of seeds.
    """

    mean: float
    low: float
    high: float
    deviation: float
    seeds: int

    def to_json(self) -> dict[str, float | None]:
        """Return the fields, with None in place of infinity and NaN, which JSON does not have."""
        return {name: value if math.isfinite(value) else None for name, value in asdict(self).items()}


def paired_difference(first: Sequence[float], second: Sequence[float]) -> PairedDifference:
    """Return the mean of `first - second`, whose numbers belong to the same seeds."""
    differences = [a - b for a, b in zip(first, second, strict=True)]
    mean, seeds = fmean(differences), len(differences)
    if seeds < 2:
        return PairedDifference(mean, -math.inf, math.inf, math.nan, seeds)
    deviation = stdev(differences)
    half = half_width(deviation, seeds)
    return PairedDifference(mean, mean - half, mean + half, deviation, seeds)


def half_width(deviation: float, seeds: int) -> float:
    """Return half the 95% interval of a mean over seeds; infinity for one seed."""
    return student_quantile(_QUANTILE, seeds - 1) * deviation / math.sqrt(seeds) if seeds > 1 else math.inf


def detectable_difference(deviation: float, seeds: int, margin: float = 0.0) -> float:
    """Return the true difference that is found in four of five studies; infinity for one seed.

    Found means that the interval excludes 0 and the mean reaches the margin. Approximate: the quantiles are
    added, as if the estimated deviation were exact. From five seeds on, the power is within 2% of 80%.
    """
    if seeds < 2:
        return math.inf
    spread = student_quantile(_POWER, seeds - 1) * deviation / math.sqrt(seeds)
    return max(half_width(deviation, seeds), margin) + spread


def seeds_to_detect(deviation: float, difference: float, at_least: int, margin: float = 0.0) -> int:
    """Return the smallest number of seeds that finds a true difference; see `detectable_difference`.

    It is `MAX_SEEDS + 1` if more are needed.
    """

    def is_enough(seeds: int) -> bool:
        return detectable_difference(deviation, seeds, margin) < difference

    return at_least + bisect_left(range(at_least, MAX_SEEDS + 1), True, key=is_enough)


def detectable_distance(deviation: float, seeds: int, margin: float) -> float:
    """Return how far within the margin a true difference must be, so that four of five studies find it there.

    Found means that the whole interval is within the margin, on both sides. A distance above the margin says
    that no difference, not even 0, is found so often.
    """
    if seeds < 2 or not deviation:
        return math.inf if seeds < 2 else 0.0
    # A difference at one end of the margin is rarely beyond the other end, and one of 0 is beyond both alike.
    error, half = deviation / math.sqrt(seeds), half_width(deviation, seeds)
    low, high = (half + student_quantile(power, seeds - 1) * error for power in (_POWER, (1 + _POWER) / 2))
    if high >= margin:
        return high
    for _ in range(60):
        middle = (low + high) / 2
        if _share_within(deviation, seeds, margin - middle, margin) < _POWER:
            low = middle
        else:
            high = middle
    return high


def seeds_to_confirm_equality(deviation: float, difference: float, at_least: int, margin: float) -> int:
    """Return the smallest number of seeds that finds a true difference within the margin.

    It is `MAX_SEEDS + 1` if more are needed; see `detectable_distance`.
    """

    def is_enough(seeds: int) -> bool:
        return _share_within(deviation, seeds, difference, margin) >= _POWER

    return at_least + bisect_left(range(at_least, MAX_SEEDS + 1), True, key=is_enough)


def _share_within(deviation: float, seeds: int, difference: float, margin: float) -> float:
    """Return the share of studies whose whole interval is within the margin on both sides.

    Approximate, as `detectable_difference`: as if the estimated deviation were exact.
    """
    error, half = deviation / math.sqrt(seeds), half_width(deviation, seeds)
    ends = (margin - difference - half, margin + difference - half)
    return sum(_probability_within(end / error, seeds - 1) for end in ends) / 2


@cache
def student_quantile(probability: float, degrees: int) -> float:
    """Return a quantile above the median of Student's t distribution, by bisection."""
    low, high = 0.0, 1.0
    while _probability_within(high, degrees) < 2 * probability - 1:
        low, high = high, 2 * high
    for _ in range(60):
        middle = (low + high) / 2
        if _probability_within(middle, degrees) < 2 * probability - 1:
            low = middle
        else:
            high = middle
    return high


def _probability_within(t: float, degrees: int) -> float:
    """Return the probability of values between -t and t; a finite sum for a whole number of degrees."""
    angle = math.atan(t / math.sqrt(degrees))
    sine, cosine = math.sin(angle), math.cos(angle)
    is_odd = degrees % 2 == 1
    term = cosine if is_odd else 1.0
    total = 0.0
    for power in range(3 if is_odd else 2, degrees + 1, 2):
        total += term
        term *= cosine**2 * (power - 1) / power
    return 2 / math.pi * (angle + sine * total) if is_odd else sine * total

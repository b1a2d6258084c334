"""Confidence intervals of scores, and of ratios of measured numbers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from albertine.paired_statistics import student_quantile

NORMAL_QUANTILE = 1.96  # 95% of a normal distribution are within so many standard deviations of its mean


def wilson_interval(share: float, count: float) -> tuple[float, float]:
    """Return the 95% interval of a share of `count` independent outcomes (Wilson's, within 0 and 1)."""
    z = NORMAL_QUANTILE
    center = (share + z * z / (2 * count)) / (1 + z * z / count)
    margin = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return max(0.0, center - margin), min(1.0, center + margin)


def mean_quantile(count: int) -> float:
    """Return how many standard errors the 95% interval of a mean of `count` numbers has on each side."""
    return student_quantile(0.975, count - 1) if count <= 100 else NORMAL_QUANTILE


@dataclass(frozen=True)
class Estimate:
    """A number with the ends of its 95% interval."""

    value: float
    low: float
    high: float


def ratio_estimate(numerators: Sequence[float], denominators: Sequence[float]) -> Estimate:
    """Return the ratio of two sums, with the interval from its spread over their pairs, two at least."""
    ratio, count = sum(numerators) / sum(denominators), len(numerators)
    residuals = [first - ratio * second for first, second in zip(numerators, denominators, strict=True)]
    variance = sum(residual**2 for residual in residuals) / (count - 1)
    margin = mean_quantile(count) * math.sqrt(variance * count) / sum(denominators)
    return Estimate(ratio, ratio - margin, ratio + margin)

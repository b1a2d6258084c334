"""Confidence intervals of scores."""

import math

NORMAL_QUANTILE = 1.96  # 95% of a normal distribution are within so many standard deviations of its mean


def wilson_interval(share: float, count: float) -> tuple[float, float]:
    """Return the 95% interval of a share of `count` independent outcomes (Wilson's, within 0 and 1)."""
    z = NORMAL_QUANTILE
    center = (share + z * z / (2 * count)) / (1 + z * z / count)
    margin = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return max(0.0, center - margin), min(1.0, center + margin)

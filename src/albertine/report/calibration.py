"""Calibration: whether predictions with a probability of 80% are right in 80 of 100 cases."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from albertine.report.charts import Axes, Curve, line_chart
from albertine.report.page import html_paragraphs, html_table, side_by_side

_NUM_BINS = 10
_MIN_PREDICTIONS = 20  # the shares of fewer are chance
_SMALL_ERROR = 0.03
_LARGE_GAP = 0.1  # of a tenth that contradicts the others


@dataclass(frozen=True)
class CalibrationBin:
    """The predictions whose probability is in one tenth of the range.

    Attributes:
        low: the lowest probability of the tenth, exclusive.
        high: the highest probability of the tenth.
        count: number of predictions.
        mean_probability: mean of their probabilities.
        share_right: share of them that are right.
    """

    low: float
    high: float
    count: int
    mean_probability: float
    share_right: float


def calibration_bins(probabilities: Sequence[float], is_right: Sequence[bool]) -> list[CalibrationBin]:
    """Return the predictions in tenths of the range of probabilities, without empty tenths."""
    probability, right = np.array(probabilities, np.float64), np.array(is_right, np.float64)
    edges = np.linspace(0, 1, _NUM_BINS + 1)
    bin_of = np.searchsorted(edges[1:-1], probability)
    bins = []
    for index in range(_NUM_BINS):
        selected = bin_of == index
        if selected.any():
            bins.append(
                CalibrationBin(
                    float(edges[index]),
                    float(edges[index + 1]),
                    int(selected.sum()),
                    float(probability[selected].mean()),
                    float(right[selected].mean()),
                )
            )
    return bins


def expected_calibration_error(bins: Sequence[CalibrationBin]) -> float:
    """Return the mean distance of the probability from the share of right predictions, between 0 and 1."""
    total = sum(each.count for each in bins)
    return sum(each.count * abs(each.share_right - each.mean_probability) for each in bins) / total


def calibration_html(probabilities: Sequence[float], is_right: Sequence[bool], unit: str) -> str:
    """Return a reliability diagram with the expected calibration error in words; empty for few predictions.

    Args:
        probabilities: predicted probability of each prediction.
        is_right: whether it is right.
        unit: what is predicted, such as "examples".
    """
    if len(probabilities) < _MIN_PREDICTIONS:
        return ""
    bins = calibration_bins(probabilities, is_right)
    return html_paragraphs(_verdict(bins, unit)) + side_by_side([_diagram(bins), _table(bins)])


def _verdict(bins: Sequence[CalibrationBin], unit: str) -> str:
    total = sum(each.count for each in bins)
    mean_probability, share_right = (
        sum(each.count * value for each, value in zip(bins, values, strict=True)) / total
        for values in ([each.mean_probability for each in bins], [each.share_right for each in bins])
    )
    error = expected_calibration_error(bins)
    if error <= _SMALL_ERROR:
        verdict = "They can be taken as they are."
    elif mean_probability > share_right:
        verdict = "The model is more confident than it should be: read its probabilities as too high."
    else:
        verdict = "The model is less confident than it could be: it is right more often than it says."
    if error <= _SMALL_ERROR or mean_probability <= share_right:
        verdict += _exception(bins)
    return (
        f"Over all {unit}, the model gives its predictions {mean_probability:.0%} on average, and "
        f"{share_right:.0%} of them are right. Its probabilities are off by {100 * error:.1f} percentage "
        f"points on average (the expected calibration error). {verdict}"
    )


def _exception(bins: Sequence[CalibrationBin]) -> str:
    """Return a sentence on the tenth that is right far less often than it says; empty if there is none."""
    doubtful = [each for each in bins if each.mean_probability - each.share_right > _chance_gap(each)]
    if not doubtful:
        return ""
    worst = max(doubtful, key=lambda each: each.mean_probability - each.share_right)
    return (
        f" Not everywhere: of the {worst.count:,} predictions of {worst.low:.0%} to {worst.high:.0%}, only "
        f"{worst.share_right:.0%} are right."
    )


def _chance_gap(each: CalibrationBin) -> float:
    """Return the largest difference that is small, or may be chance: two standard errors."""
    probability = each.mean_probability
    return max(_LARGE_GAP, 2 * math.sqrt(probability * (1 - probability) / each.count))


def _diagram(bins: Sequence[CalibrationBin]) -> str:
    points = [(100 * each.mean_probability, 100 * each.share_right) for each in bins]
    low = 100 * bins[0].low
    return line_chart(
        "Reliability: the closer to the gray line, the better",
        Axes("predicted probability (%)", "right (%)", 0, 100),
        [Curve("ideal", [(low, low), (100, 100)], 4), Curve("model", points, 1, dots=True)],
    )


def _table(bins: Sequence[CalibrationBin]) -> str:
    rows = [
        (f"{100 * each.low:.0f} to {100 * each.high:.0f}%", f"{each.count:,}", f"{each.share_right:.0%}")
        for each in bins
    ]
    return html_table(("probability", "predictions", "of them right"), rows)

"""Tests of calibration and confusion against scikit-learn."""

import re

import numpy as np
import pytest
from sklearn.calibration import calibration_curve
from sklearn.metrics import confusion_matrix

from albertine.report.calibration import calibration_bins, calibration_html, expected_calibration_error
from albertine.report.confusion import MAX_CLASSES, confusion_html
from albertine.tasks.metrics.scores import matthews


def random_predictions(count: int = 1000) -> tuple[list[float], list[bool]]:
    """Return probabilities, some of them on the edges of tenths, and whether predictions are right."""
    rng = np.random.default_rng(0)
    probabilities = [*rng.uniform(0.2, 1, count).round(4), 0.0, 0.3, 0.5, 0.7, 1.0]
    is_right = rng.uniform(size=len(probabilities)) < np.array(probabilities) ** 2
    return [float(value) for value in probabilities], [bool(value) for value in is_right]


def test_bins_are_those_of_scikit_learn() -> None:
    probabilities, is_right = random_predictions()
    shares, means = calibration_curve(is_right, probabilities, n_bins=10, strategy="uniform")
    bins = calibration_bins(probabilities, is_right)
    assert [each.share_right for each in bins] == pytest.approx(list(shares))
    assert [each.mean_probability for each in bins] == pytest.approx(list(means))
    assert sum(each.count for each in bins) == len(probabilities)


def test_expected_calibration_error() -> None:
    probabilities, is_right = random_predictions()
    bins = calibration_bins(probabilities, is_right)
    shares, means = calibration_curve(is_right, probabilities, n_bins=10, strategy="uniform")
    weights = np.array([each.count for each in bins]) / len(probabilities)
    assert expected_calibration_error(bins) == pytest.approx(float(weights @ abs(shares - means)))
    ideal = calibration_bins([0.75] * 100, [True] * 75 + [False] * 25)
    assert expected_calibration_error(ideal) == pytest.approx(0)
    assert expected_calibration_error(calibration_bins([1.0] * 10, [False] * 10)) == 1.0


@pytest.mark.parametrize(
    ("probability", "num_right", "verdict"),
    [
        (0.8, 80, "They can be taken as they are."),
        (0.9, 50, "more confident than it should be"),
        (0.5, 90, "less confident than it could be"),
    ],
)
def test_the_verdict_names_the_direction(probability: float, num_right: int, verdict: str) -> None:
    page = calibration_html([probability] * 100, [True] * num_right + [False] * (100 - num_right), "examples")
    assert verdict in page
    assert f"off by {abs(100 * probability - num_right):.1f} percentage points" in page


def test_a_part_that_is_worse_than_the_verdict_is_named() -> None:
    usual, top = [0.5] * 200, [0.95] * 9
    page = calibration_html(
        [*usual, *top], [True] * 180 + [False] * 20 + [True] * 5 + [False] * 4, "examples"
    )
    assert "less confident than it could be" in page
    assert "Not everywhere: of the 9 predictions of 90% to 100%, only 56% are right." in page
    by_chance = calibration_html([*usual, *top[:5]], [True] * 180 + [False] * 20 + [True] * 4 + [False], "x")
    assert "Not everywhere" not in by_chance


def test_few_predictions_have_no_calibration() -> None:
    assert calibration_html([0.5] * 19, [True] * 19, "examples") == ""


def test_confusion_is_that_of_scikit_learn() -> None:
    rng = np.random.default_rng(1)
    expected, predicted = rng.integers(0, 4, 300).tolist(), rng.integers(0, 4, 300).tolist()
    page = confusion_html(list("abcde"), expected, predicted, "examples")  # no example of the fifth class
    shown = [int(number) for number in re.findall(r"<td style[^>]*>(\d+)", page)]
    assert shown == confusion_matrix(expected, predicted, labels=range(5)).flatten().tolist()


def test_the_page_shows_counts_and_the_most_common_confusion() -> None:
    page = confusion_html(["cat", "<dog>"], [0, 0, 0, 1, 1], [0, 1, 1, 1, 0], "examples")
    assert re.findall(r"<td style[^>]*>(\d+)", page) == ["1", "2", "1", "1"]
    assert "\u201ccat\u201d, predicted as \u201c&lt;dog&gt;\u201d, 2 times, 67% of its row." in page
    assert "<dog>" not in page
    assert confusion_html(["cat"], [0], [0], "examples") == ""


def test_many_labels_need_little_memory() -> None:
    labels = list(range(50_000))
    page = confusion_html(list(map(str, labels)), labels, labels[::-1], "examples")
    assert "49,991 others" in page
    assert matthews(np.array(labels), np.array(labels)) == pytest.approx(1)


def test_rare_classes_become_one() -> None:
    num_classes = MAX_CLASSES + 5
    expected = [label for label in range(num_classes) for _ in range(num_classes - label)]
    classes = [f"class {label}" for label in range(num_classes)]
    page = confusion_html(classes, expected, expected[::-1], "examples")
    shown = [int(number) for number in re.findall(r"<td style[^>]*>(\d+)", page)]
    assert len(shown) == MAX_CLASSES**2
    assert sum(shown) == len(expected)
    assert "6 others" in page

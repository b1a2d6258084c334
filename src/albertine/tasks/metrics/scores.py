"""Metrics of classification and regression, as the official scripts of the tasks compute them.

Correlations are between -1 and 1, accuracy and F1 between 0 and 1. A metric that is
undefined because all predictions are the same is 0, as in scikit-learn.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
METRIC_NAMES = ("accuracy", "f1", "macro_f1", "matthews", "pearson", "spearman", "rmse")
LABEL_F1 = "f1:"  # prefix of the F1 of one label, such as "f1:spam"


def compute_metric(name: str, labels: Array, predictions: Array) -> float:
    """Return the metric `name`.

    Args:
        name: name of the metric, such as "macro_f1".
        labels: label ids, or numbers, `[examples]`.
        predictions: predicted label ids or numbers, `[examples]`.
    """
    match name:
        case "accuracy":
            return float((labels == predictions).mean())
        case "f1":
            return f1(labels, predictions, 1)
        case "macro_f1":
            return float(
                np.mean([f1(labels, predictions, label) for label in np.union1d(labels, predictions)])
            )
        case "matthews":
            return matthews(labels, predictions)
        case "pearson":
            return pearson(labels, predictions)
        case "spearman":
            return pearson(fractional_ranks(labels), fractional_ranks(predictions))
        case "rmse":
            return float(np.sqrt(((labels - predictions) ** 2).mean()))
    raise ValueError(name)


def f1(labels: Array, predictions: Array, label: int) -> float:
    """Return the F1 score of one label id."""
    true_positives = int(((labels == label) & (predictions == label)).sum())
    total = int((labels == label).sum() + (predictions == label).sum())
    return 2 * true_positives / total if total else 0.0


def label_f1(label: str) -> str:
    """Return the name of the metric F1 of one label."""
    return f"{LABEL_F1}{label}"


def matthews(labels: Array, predictions: Array) -> float:
    """Return the Matthews correlation coefficient, for any number of labels."""
    num_labels = int(max(labels.max(), predictions.max())) + 1
    label_counts, predicted_counts = (
        np.bincount(ids, minlength=num_labels).astype(np.float64) for ids in (labels, predictions)
    )
    total, num_right = float(len(labels)), float((labels == predictions).sum())
    covariance = num_right * total - label_counts @ predicted_counts
    variances = (total**2 - predicted_counts @ predicted_counts) * (total**2 - label_counts @ label_counts)
    return float(covariance / np.sqrt(variances)) if variances > 0 else 0.0


def pearson(labels: Array, predictions: Array) -> float:
    """Return the Pearson correlation coefficient."""
    if labels.min() == labels.max() or predictions.min() == predictions.max():
        return 0.0  # the differences from the mean would be rounding errors
    a, b = labels - labels.mean(), predictions - predictions.mean()
    norms = np.sqrt((a @ a) * (b @ b))
    return float(np.clip(a @ b / norms, -1, 1)) if norms > 0 else 0.0


def fractional_ranks(values: Array) -> NDArray[np.float64]:
    """Return the rank of each value, from 1; equal values have the mean of their ranks."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    last_ranks = counts.cumsum()
    ranks: NDArray[np.float64] = (last_ranks - (counts - 1) / 2)[group]
    return ranks

"""Metrics of classification and regression, as the official scripts of the tasks compute them.

Each is between 0 and 1, correlations between -1 and 1. A metric that is undefined because
all predictions are the same is 0, as in scikit-learn.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def compute_metric(name: str, labels: Array, predictions: Array, num_labels: int) -> float:
    """Return a metric by its name."""
    match name:
        case "accuracy":
            return float((labels == predictions).mean())
        case "f1":
            return f1(labels, predictions, 1)
        case "macro_f1":
            return float(np.mean([f1(labels, predictions, one) for one in np.union1d(labels, predictions)]))
        case "matthews":
            return matthews(labels, predictions, num_labels)
        case "pearson":
            return pearson(labels, predictions)
        case "spearman":
            return pearson(fractional_ranks(labels), fractional_ranks(predictions))
        case "rmse":
            return float(np.sqrt(((labels - predictions) ** 2).mean()))
    raise ValueError(name)


def f1(labels: Array, predictions: Array, label: int) -> float:
    """Return the F1 score of one label."""
    true_positives = int(((labels == label) & (predictions == label)).sum())
    total = int((labels == label).sum() + (predictions == label).sum())
    return 2 * true_positives / total if total else 0.0


def matthews(label_ids: Array, predictions: Array, num_labels: int) -> float:
    """Return the Matthews correlation coefficient, for any number of labels."""
    table = np.zeros((num_labels, num_labels), np.float64)
    np.add.at(table, (label_ids, predictions), 1)
    true, predicted = table.sum(1), table.sum(0)
    together = np.trace(table) * table.sum() - true @ predicted
    spread = (table.sum() ** 2 - predicted @ predicted) * (table.sum() ** 2 - true @ true)
    return float(together / np.sqrt(spread)) if spread > 0 else 0.0


def pearson(labels: Array, predictions: Array) -> float:
    """Return the Pearson correlation coefficient."""
    a, b = labels - labels.mean(), predictions - predictions.mean()
    spread = np.sqrt((a @ a) * (b @ b))
    return float(np.clip(a @ b / spread, -1, 1)) if spread > 0 else 0.0


def fractional_ranks(values: Array) -> NDArray[np.float64]:
    """Return the ranks of values, from 1; equal values share their mean rank."""
    _, group, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = counts.cumsum()
    found: NDArray[np.float64] = (ends - (counts - 1) / 2)[group]
    return found

"""Metrics of multi-label classification, and the threshold of its probabilities."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Indicators = NDArray[np.bool_]

DEFAULT_THRESHOLD = 0.5


def multi_label_metrics(truth: Indicators, predicted: Indicators) -> dict[str, float]:
    """Return micro-averaged F1, F1 averaged over the labels, and the share of examples that match exactly.

    As in scikit-learn, the F1 of a label that neither truth nor predictions have is 0.

    Args:
        truth: which example has which label, `[examples, labels]`.
        predicted: which example is predicted to have which label, `[examples, labels]`.
    """
    hits = (truth & predicted).sum(0)
    totals = truth.sum(0) + predicted.sum(0)
    f1 = 2 * hits / np.maximum(totals, 1)
    return {
        "micro_f1": float(2 * hits.sum() / max(1, int(totals.sum()))),
        "macro_f1": float(f1.mean()),
        "exact_match": float((truth == predicted).all(1).mean()),
    }


def best_label_threshold(truth: Indicators, probabilities: NDArray[Any]) -> float:
    """Return the threshold with the best micro-averaged F1; between equal ones, the highest.

    It is in the middle between two probabilities. Without any label, it is 0.5.

    Args:
        truth: which example has which label, `[examples, labels]`.
        probabilities: probabilities of the labels, `[examples, labels]`.
    """
    if not truth.any():
        return DEFAULT_THRESHOLD
    order = np.argsort(-probabilities.ravel(), kind="stable")
    values, is_true = probabilities.ravel()[order], truth.ravel()[order]
    counts = np.arange(1, len(values) + 1)
    f1 = 2 * is_true.cumsum() / (counts + is_true.sum())
    f1[:-1][values[:-1] == values[1:]] = -1  # a threshold cannot divide equal probabilities
    best = int(f1.argmax())
    following = values[best + 1] if best + 1 < len(values) else 0.0
    return float((values[best] + following) / 2)

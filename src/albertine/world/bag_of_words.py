"""What a bag of words reaches: logistic regression over single words and pairs of neighbours.

It reads no order beyond two words, so a task on which it comes near the ceiling does
not need a model that reads. For a pair of texts it sees what each has, and what both
have. Fitted by L-BFGS to the end, as usual libraries do, with the same penalty.
"""

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|[^\w\s]")
_MAX_ITERATIONS = 100
_HISTORY_SIZE = 10


class SparseFeatures(NamedTuple):
    """Texts as sparse rows of ones: the columns of all rows, and where each row starts."""

    columns: NDArray[np.int64]
    starts: NDArray[np.int64]
    width: int

    def dot(self, weights: Floats) -> Floats:
        """Return, for each row, the sum of its columns' weights."""
        sums: Floats = np.add.reduceat(weights[self.columns], self.starts)  # no row is empty
        return sums

    def transposed_dot(self, values: Floats) -> Floats:
        """Return, for each column, the sum of the values of the rows that have it."""
        lengths = np.diff(np.append(self.starts, len(self.columns)))
        return np.bincount(self.columns, np.repeat(values, lengths), self.width).astype(np.float64)


def features(texts: Sequence[str]) -> list[str]:
    """Return the words and pairs of a text; of several, each with its place, and what all share."""
    bags = [ngrams(text) for text in texts]
    if len(bags) == 1:
        return sorted(bags[0])
    placed_ngrams = [f"{place}:{ngram}" for place, bag in enumerate(bags) for ngram in sorted(bag)]
    return placed_ngrams + [f"both:{ngram}" for ngram in sorted(set.intersection(*bags))]


def ngrams(text: str) -> set[str]:
    """Return the words of a text, and its pairs of neighbours."""
    words = _WORD.findall(text.lower())
    return {*words, *(f"{one} {two}" for one, two in pairwise(words))}


def feature_index(rows: Sequence[Sequence[str]]) -> dict[str, int]:
    """Give a number to the features that some rows have."""
    return {name: at for at, name in enumerate(sorted({name for row in rows for name in row}))}


def sparse_features(rows: Sequence[Sequence[str]], index: dict[str, int]) -> SparseFeatures:
    """Turn rows of features into numbers; what the index lacks is left out, one column is in every row."""
    bias_column = len(index)
    columns = [[bias_column, *(index[name] for name in row if name in index)] for row in rows]
    lengths = [len(row) for row in columns]
    starts = np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)
    return SparseFeatures(
        np.concatenate(columns).astype(np.int64) if columns else np.zeros(0, np.int64),
        starts,
        bias_column + 1,
    )


def fit_softmax_regression(
    features: SparseFeatures, labels: NDArray[np.int64], classes: int, penalty: float = 1.0
) -> Floats:
    """Fit a softmax over classes; return the weights, a row for each class."""
    targets = np.eye(classes)[labels]

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(classes, features.width)
        scores = np.stack([features.dot(row) for row in weights], axis=1)
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        chances /= chances.sum(axis=1, keepdims=True)
        wrong = chances - targets
        slope = np.stack([features.transposed_dot(column) for column in wrong.T])
        bare = weights.copy()
        bare[:, -1] = 0  # the column in every row is not held back
        value = -np.log(np.maximum(chances[targets == 1], 1e-300)).sum() + 0.5 * penalty * (bare**2).sum()
        return float(value), (slope + penalty * bare).ravel()

    return _minimize_lbfgs(loss, np.zeros(classes * features.width)).reshape(classes, features.width)


def fit_ridge_regression(features: SparseFeatures, values: Floats, penalty: float = 1.0) -> Floats:
    """Fit numbers by least squares; return the weights."""

    def loss(weights: Floats) -> tuple[float, Floats]:
        wrong = features.dot(weights) - values
        bare = weights.copy()
        bare[-1] = 0
        return float(0.5 * (wrong**2).sum() + 0.5 * penalty * (bare**2).sum()), features.transposed_dot(
            wrong
        ) + penalty * bare

    return _minimize_lbfgs(loss, np.zeros(features.width))


def _minimize_lbfgs(loss: Callable[[Floats], tuple[float, Floats]], point: Floats) -> Floats:
    """Go down to where a smooth loss is least (L-BFGS with a step that is halved until it helps)."""
    steps: list[Floats] = []
    changes: list[Floats] = []
    value, gradient = loss(point)
    for _ in range(_MAX_ITERATIONS):
        direction = _lbfgs_direction(gradient, steps, changes)
        directional_derivative = float(direction @ gradient)
        step_size = 1.0 if steps else min(1.0, 1.0 / max(1e-12, float(np.abs(gradient).sum())))
        for _ in range(30):
            new_value, new_gradient = loss(point + step_size * direction)
            if new_value <= value + 1e-4 * step_size * directional_derivative:
                break
            step_size /= 2
        else:
            return point
        step, change = step_size * direction, new_gradient - gradient
        if float(step @ change) > 1e-12:
            steps, changes = [*steps, step][-_HISTORY_SIZE:], [*changes, change][-_HISTORY_SIZE:]
        point = point + step
        done = value - new_value < 1e-6 * max(1.0, abs(value))
        value, gradient = new_value, new_gradient
        if done:
            break
    return point


def _lbfgs_direction(gradient: Floats, steps: list[Floats], changes: list[Floats]) -> Floats:
    """Return the way down, with the curvature of the last steps taken into account."""
    direction = -gradient
    alphas = []
    for step, change in zip(reversed(steps), reversed(changes), strict=True):
        alpha = float(step @ direction) / float(step @ change)
        alphas.append(alpha)
        direction = direction - alpha * change
    if steps:
        direction *= float(steps[-1] @ changes[-1]) / float(changes[-1] @ changes[-1])
    for step, change, alpha in zip(steps, changes, reversed(alphas), strict=True):
        direction = direction + (alpha - float(change @ direction) / float(step @ change)) * step
    return direction

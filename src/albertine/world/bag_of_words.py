"""A bag-of-words baseline: linear models over words and bigrams, in plain numpy.

The baseline sees no word order beyond bigrams, so a task that it nearly solves needs no
language model. For a pair of texts the features are the n-grams of each text and those
that both share. L-BFGS runs until convergence with the same L2 penalty as scikit-learn.
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
    """A sparse binary matrix with one row per text.

    Attributes:
        columns: the column indices of all rows, one row after the other.
        starts: the position in `columns` at which each row starts.
        width: number of columns of the matrix.
    """

    columns: NDArray[np.int64]
    starts: NDArray[np.int64]
    width: int

    def dot(self, weights: Floats) -> Floats:
        """Return the product of the matrix with one weight per column: `[rows]`."""
        # reduceat needs rows that are not empty; every row has the bias column.
        sums: Floats = np.add.reduceat(weights[self.columns], self.starts)
        return sums

    def transposed_dot(self, values: Floats) -> Floats:
        """Return the product of the transposed matrix with one value per row: `[width]`."""
        lengths = np.diff(np.append(self.starts, len(self.columns)))
        return np.bincount(self.columns, np.repeat(values, lengths), self.width).astype(np.float64)


def features(texts: Sequence[str]) -> list[str]:
    """Return the features of an example.

    One text has its n-grams as features. Several texts have the n-grams of each, with the
    index of the text before them, and those that all share, with "both:" before them.
    """
    bags = [ngrams(text) for text in texts]
    if len(bags) == 1:
        return sorted(bags[0])
    indexed_ngrams = [f"{index}:{ngram}" for index, bag in enumerate(bags) for ngram in sorted(bag)]
    return indexed_ngrams + [f"both:{ngram}" for ngram in sorted(set.intersection(*bags))]


def ngrams(text: str) -> set[str]:
    """Return the words and bigrams of a text."""
    words = _WORD.findall(text.lower())
    return {*words, *(f"{first} {second}" for first, second in pairwise(words))}


def feature_index(rows: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return the column index of every feature that occurs in the rows."""
    return {name: column for column, name in enumerate(sorted({name for row in rows for name in row}))}


def sparse_features(rows: Sequence[Sequence[str]], index: dict[str, int]) -> SparseFeatures:
    """Return rows of features as a sparse matrix with a bias column; drop features not in the index."""
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
    """Return the weights of a softmax regression: `[classes, width]`."""
    targets = np.eye(classes)[labels]

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(classes, features.width)
        scores = np.stack([features.dot(row) for row in weights], axis=1)
        scores -= scores.max(axis=1, keepdims=True)
        probabilities = np.exp(scores)
        probabilities /= probabilities.sum(axis=1, keepdims=True)
        residuals = probabilities - targets
        gradient = np.stack([features.transposed_dot(column) for column in residuals.T])
        penalized_weights = weights.copy()
        penalized_weights[:, -1] = 0  # the bias is not penalized
        log_likelihood = np.log(np.maximum(probabilities[targets == 1], 1e-300)).sum()
        value = -log_likelihood + 0.5 * penalty * (penalized_weights**2).sum()
        return float(value), (gradient + penalty * penalized_weights).ravel()

    return _minimize_lbfgs(loss, np.zeros(classes * features.width)).reshape(classes, features.width)


def fit_ridge_regression(features: SparseFeatures, values: Floats, penalty: float = 1.0) -> Floats:
    """Return the weights of a ridge regression: `[width]`."""

    def loss(weights: Floats) -> tuple[float, Floats]:
        residuals = features.dot(weights) - values
        penalized_weights = weights.copy()
        penalized_weights[-1] = 0  # the bias is not penalized
        value = 0.5 * (residuals**2).sum() + 0.5 * penalty * (penalized_weights**2).sum()
        return float(value), features.transposed_dot(residuals) + penalty * penalized_weights

    return _minimize_lbfgs(loss, np.zeros(features.width))


def _minimize_lbfgs(loss: Callable[[Floats], tuple[float, Floats]], point: Floats) -> Floats:
    """Return the minimum of a smooth loss, found by L-BFGS with a backtracking line search."""
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
    """Return the descent direction of L-BFGS (the two-loop recursion)."""
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

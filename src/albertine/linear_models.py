"""Linear models over sparse rows: logistic regression and ridge regression, in plain numpy.

They minimize the same functions as scikit-learn's `LogisticRegression` and `Ridge`, by L-BFGS.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
_BLOCK_ENTRIES = 1 << 22  # of a product computed at once, which bounds temporary arrays
_MAX_ITERATIONS, _MIN_ITERATIONS = 200, 20
_MAX_WORK = 1 << 31  # entries times models times iterations: half a minute; fits of more data stop early
_MAX_HALVINGS = 30  # of a step
_HISTORY_SIZE = 10
_TOLERANCE = 1e-5  # largest derivative at the minimum, for a mean loss


@dataclass(frozen=True)
class SparseRows:
    """A sparse matrix as the entries of one row after the other.

    Each row has a 1 in the last column, whose weight is the bias of a model.

    Attributes:
        columns: the column of each entry, `[entries]`.
        values: the value of each entry, `[entries]`.
        starts: the position of the first entry of each row, and the number of entries, `[rows + 1]`.
        width: number of columns.
    """

    columns: NDArray[np.int32]
    values: NDArray[np.float32]
    starts: NDArray[np.int64]
    width: int

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.starts) - 1

    def dot(self, weights: Floats) -> Floats:
        """Return the product with one weight per column: `[rows]`."""
        product = np.empty(len(self))
        for first, last, entries in self._blocks():
            terms = weights[self.columns[entries]] * self.values[entries]
            product[first:last] = np.add.reduceat(terms, self.starts[first:last] - entries.start)
        return product

    def transposed_dot(self, numbers: Floats) -> Floats:
        """Return the product of the transposed matrix with one number per row: `[width]`."""
        product = np.zeros(self.width)
        for first, last, entries in self._blocks():
            terms = np.repeat(numbers[first:last], np.diff(self.starts[first : last + 1]))
            product += np.bincount(self.columns[entries], terms * self.values[entries], self.width)
        return product

    def _blocks(self) -> Iterator[tuple[int, int, slice]]:
        """Yield ranges of rows with few entries: the first row, the row after the last, the entries."""
        limits = np.searchsorted(self.starts, np.arange(0, self.starts[-1] + _BLOCK_ENTRIES, _BLOCK_ENTRIES))
        for first, last in pairwise(np.unique(np.minimum(limits, len(self))).tolist()):
            yield first, last, slice(int(self.starts[first]), int(self.starts[last]))


def fit_logistic_regression(
    rows: SparseRows,
    labels: NDArray[np.int64],
    num_labels: int,
    penalty: float,
    *,
    balanced: bool = False,
) -> Floats:
    """Return the weights of a logistic regression, with 0 for the first of two labels: `[labels, width]`.

    Args:
        rows: the features.
        labels: the label id of each row; every label occurs.
        num_labels: number of labels, at least 2.
        penalty: factor on half the sum of the squared weights, which is added to the sum of the losses;
            scikit-learn's C is its inverse.
        balanced: weigh the losses of a label in inverse proportion to its frequency.
    """
    counts = np.bincount(labels, minlength=num_labels)
    row_weights = (len(rows) / (num_labels * counts))[labels] if balanced else np.ones(len(rows))
    num_models = 1 if num_labels == 2 else num_labels
    first = num_labels - num_models
    targets = labels[:, None] == np.arange(num_labels)

    def loss(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(num_models, rows.width)
        logits = np.zeros((len(rows), num_labels))
        for label, row in enumerate(weights, first):
            logits[:, label] = rows.dot(row)
        logits -= logits.max(axis=1, keepdims=True)
        log_sums = np.log(np.exp(logits).sum(axis=1, keepdims=True))
        total = float(row_weights @ (log_sums[:, 0] - logits[targets]))
        residuals = (np.exp(logits - log_sums) - targets) * row_weights[:, None]
        gradient = np.stack([rows.transposed_dot(column) for column in residuals[:, first:].T])
        return _with_penalty(total, gradient, weights, penalty, len(rows))

    fitted = _minimize(loss, np.zeros(num_models * rows.width), num_models * len(rows.columns))
    return np.concatenate([np.zeros(first * rows.width), fitted]).reshape(num_labels, rows.width)


def fit_ridge_regression(rows: SparseRows, values: Floats, penalty: float) -> Floats:
    """Return the weights of a ridge regression: `[width]`.

    Args:
        rows: the features.
        values: the number of each row.
        penalty: factor on the sum of the squared weights, which is added to the sum of the squared errors;
            scikit-learn's alpha.
    """
    center, scale = float(values.mean()), float(values.std()) or 1.0
    targets = (values - center) / scale

    def loss(weights: Floats) -> tuple[float, Floats]:
        residuals = rows.dot(weights) - targets
        gradient = rows.transposed_dot(residuals)
        return _with_penalty(0.5 * float(residuals @ residuals), gradient, weights, penalty, len(rows))

    fitted = scale * _minimize(loss, np.zeros(rows.width), len(rows.columns))
    fitted[-1] += center
    return fitted


def _with_penalty(
    total: float, gradient: Floats, weights: Floats, penalty: float, num_rows: int
) -> tuple[float, Floats]:
    """Return the mean loss and its gradient with the penalty, which the bias does not have."""
    penalized = weights.copy()
    penalized[..., -1] = 0
    value = total + 0.5 * penalty * float((penalized**2).sum())
    return value / num_rows, ((gradient + penalty * penalized) / num_rows).ravel()


def _minimize(loss: Callable[[Floats], tuple[float, Floats]], point: Floats, work: int) -> Floats:
    """Return the minimum of a smooth convex loss, found by L-BFGS with a backtracking line search.

    Args:
        loss: returns the loss at a point, and its gradient.
        point: the point to start from.
        work: products that the loss computes at each point.
    """
    steps: list[Floats] = []
    changes: list[Floats] = []
    value, gradient = loss(point)
    max_iterations = max(_MIN_ITERATIONS, min(_MAX_ITERATIONS, _MAX_WORK // max(1, work)))
    for _ in range(max_iterations):
        if np.abs(gradient).max() <= _TOLERANCE:
            break
        direction = _descent_direction(gradient, steps, changes)
        slope = float(direction @ gradient)
        step_size = 1.0 if steps else min(1.0, 1.0 / float(np.abs(gradient).sum()))
        for _ in range(_MAX_HALVINGS):
            new_point = point + step_size * direction
            new_value, new_gradient = loss(new_point)
            if new_value <= value + 1e-4 * step_size * slope:
                break
            step_size /= 2
        else:
            break  # rounding errors exceed what is left to gain
        step, change = new_point - point, new_gradient - gradient
        if float(step @ change) > 0:
            steps, changes = [*steps, step][-_HISTORY_SIZE:], [*changes, change][-_HISTORY_SIZE:]
        point, value, gradient = new_point, new_value, new_gradient
    return point


def _descent_direction(gradient: Floats, steps: Sequence[Floats], changes: Sequence[Floats]) -> Floats:
    """Return the direction of L-BFGS, by the two-loop recursion over the latest steps."""
    direction = -gradient
    curvatures = [float(step @ change) for step, change in zip(steps, changes, strict=True)]
    coefficients = []
    for step, change, curvature in zip(reversed(steps), reversed(changes), reversed(curvatures), strict=True):
        coefficients.append(float(step @ direction) / curvature)
        direction -= coefficients[-1] * change
    if steps:
        direction *= curvatures[-1] / float(changes[-1] @ changes[-1])
    for step, change, curvature, coefficient in zip(
        steps, changes, curvatures, reversed(coefficients), strict=True
    ):
        direction += (coefficient - float(change @ direction) / curvature) * step
    return direction

"""Tests of the linear models against scikit-learn."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression, Ridge

from albertine import linear_models
from albertine.linear_models import SparseRows, fit_logistic_regression, fit_ridge_regression

RNG = np.random.default_rng(0)
NUM_ROWS, WIDTH = 300, 80
MATRIX = scipy.sparse.random(NUM_ROWS, WIDTH, 0.1, "csr", np.float32, random_state=0)
TRUE_WEIGHTS = RNG.normal(size=(WIDTH, 5))
NOISY_SCORES = 3 * (MATRIX @ TRUE_WEIGHTS) + RNG.normal(size=(NUM_ROWS, 5))


def with_bias(matrix: scipy.sparse.csr_matrix) -> SparseRows:
    """Return a matrix of scipy with a column of ones, as rows of the linear models."""
    full = scipy.sparse.hstack([matrix, np.ones((matrix.shape[0], 1))]).tocsr()
    return SparseRows(
        full.indices.astype(np.int32),
        full.data.astype(np.float32),
        full.indptr.astype(np.int64),
        full.shape[1],
    )


@pytest.fixture(params=[1 << 22, 40])
def rows(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> SparseRows:
    """Rows whose products are computed at once, or a few rows at a time."""
    monkeypatch.setattr(linear_models, "_BLOCK_ENTRIES", request.param)
    return with_bias(MATRIX)


def test_products_are_those_of_scipy(rows: SparseRows) -> None:
    full = scipy.sparse.csr_matrix((rows.values, rows.columns, rows.starts), (NUM_ROWS, WIDTH + 1))
    weights, numbers = RNG.normal(size=WIDTH + 1), RNG.normal(size=NUM_ROWS)
    np.testing.assert_allclose(rows.dot(weights), full @ weights, atol=1e-6)
    np.testing.assert_allclose(rows.transposed_dot(numbers), full.T @ numbers, atol=1e-6)


@pytest.mark.parametrize("num_labels", [2, 3, 5])
@pytest.mark.parametrize("penalty", [0.1, 1.0])
@pytest.mark.parametrize("balanced", [False, True])
def test_logistic_regression_is_that_of_scikit_learn(
    rows: SparseRows, num_labels: int, penalty: float, balanced: bool
) -> None:
    # The last labels are frequent.
    labels = (NOISY_SCORES[:, :num_labels] + np.arange(num_labels) / 2).argmax(axis=1)
    weights = fit_logistic_regression(rows, labels, num_labels, penalty, balanced=balanced)
    class_weight = "balanced" if balanced else None
    reference = LogisticRegression(C=1 / penalty, tol=1e-9, max_iter=10_000, class_weight=class_weight)
    reference.fit(MATRIX, labels)
    if num_labels == 2:
        assert not weights[0].any()
        weights = weights[1:]
    # Adding a number to all biases changes no probability.
    biases, expected_biases = (
        one - one.mean() * (num_labels > 2) for one in (weights[:, -1], reference.intercept_)
    )
    np.testing.assert_allclose(weights[:, :-1], reference.coef_, atol=0.01)
    np.testing.assert_allclose(biases, expected_biases, atol=0.01)


@pytest.mark.parametrize("penalty", [0.1, 3.0])
def test_ridge_regression_is_that_of_scikit_learn_in_any_unit(rows: SparseRows, penalty: float) -> None:
    for scale, offset in ((1.0, 0.0), (1e6, 2e9), (1e-6, 1.0)):
        values = scale * NOISY_SCORES[:, 0].astype(np.float64) + offset
        weights = fit_ridge_regression(rows, values, penalty)
        reference = Ridge(alpha=penalty, solver="cholesky").fit(MATRIX.toarray().astype(float), values)
        np.testing.assert_allclose(weights[:-1] / scale, reference.coef_ / scale, atol=0.01)
        assert weights[-1] == pytest.approx(reference.intercept_, abs=0.01 * scale)


def test_equal_rows_give_equal_weights() -> None:
    labels = NOISY_SCORES.argmax(axis=1)
    first, second = (fit_logistic_regression(with_bias(MATRIX), labels, 5, 1.0) for _ in range(2))
    assert first.tobytes() == second.tobytes()


def test_rows_without_features_give_the_frequencies_of_the_labels() -> None:
    empty = with_bias(scipy.sparse.csr_matrix((4, 0), dtype=np.float32))
    weights = fit_logistic_regression(empty, np.array([0, 1, 1, 1]), 2, 1.0)
    assert 1 / (1 + np.exp(-weights[1, 0])) == pytest.approx(0.75, abs=1e-3)
    assert fit_ridge_regression(empty, np.array([1.0, 2.0, 3.0, 4.0]), 1.0) == pytest.approx([2.5])


def test_a_fit_of_much_data_stops_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half converged, the weights are smaller but point in the same direction."""
    labels = NOISY_SCORES[:, :2].argmax(axis=1)
    converged = fit_logistic_regression(with_bias(MATRIX), labels, 2, 1e-4)[1]
    monkeypatch.setattr(linear_models, "_MAX_WORK", 0)
    stopped = fit_logistic_regression(with_bias(MATRIX), labels, 2, 1e-4)[1]
    assert not np.allclose(stopped, converged, atol=0.01)
    assert np.corrcoef(stopped, converged)[0, 1] > 0.9

"""How much is a repetition of a layer worth, compared with new layers? The recurrence exponent.

The loss of many runs is fitted by

    loss = E + A / (N r^phi)^alpha + B / D^beta

with N parameters in the layers, each applied r times, and D training tokens. With phi = 0 repetitions
are worth nothing; with phi = 1 they are worth as much as layers with weights of their own.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from albertine.errors import InputError
from albertine.settings import ModelSettings

Form = Literal["sum", "no floor", "relative", "without the most repetitions"]
FORMS: dict[Form, str] = {
    "sum": "E + A / (N r^phi)^alpha + B / D^beta",
    "no floor": "the same with E = 0",
    "relative": "the same, fitted to the logarithm of the loss",
    "without the most repetitions": "the same, without the runs with the most repetitions",
}
MIN_OBSERVATIONS = 12  # twice the number of fitted values
_PHI, _ALPHA, _BETA = (-0.5, 2.0), (0.02, 2.0), (0.02, 2.0)
# The search: a grid of so many points along each exponent, around the best so far, that shrinks each round.
_POINTS, _SHRINKING = 5, 0.6
_ROUNDS, _ROUNDS_NEAR = range(26), range(2, 14)  # near a known fit, it starts smaller and ends coarser
_QUANTILES = (0.025, 0.975)


@dataclass(frozen=True)
class Observation:
    """The loss of one run.

    Attributes:
        arm: name of its arm.
        parameters: parameters of the layers, without embeddings.
        repetitions: how often each layer is applied.
        tokens: training tokens.
        loss: held-out loss.
    """

    arm: str
    parameters: float
    repetitions: float
    tokens: float
    loss: float


@dataclass(frozen=True)
class RecurrenceFit:
    """Fitted values.

    Attributes:
        phi: the recurrence exponent.
        alpha: exponent of the parameters.
        beta: exponent of the tokens; 0 if all runs have the same number.
        floor: the loss E that remains with infinite parameters and tokens.
        size_term: A, with N in millions.
        data_term: B, with D in millions.
        error: root mean square of loss minus fit.
        low: lower end of the 95% interval of phi.
        high: upper end of the 95% interval of phi.
    """

    phi: float
    alpha: float
    beta: float
    floor: float
    size_term: float
    data_term: float
    error: float
    low: float = -np.inf
    high: float = np.inf

    def predict(self, parameters: float, repetitions: float, tokens: float) -> float:
        """Return the fitted loss."""
        size = parameters / 1e6 * repetitions**self.phi
        data = self.data_term * (tokens / 1e6) ** -self.beta
        return float(self.floor + self.size_term * size**-self.alpha + data)


def fit_with_interval(
    observations: Sequence[Observation], form: Form = "sum", samples: int = 400, seed: int = 0
) -> RecurrenceFit:
    """Return a fit whose interval of phi is that of a bootstrap over the arms.

    Args:
        observations: at least `MIN_OBSERVATIONS` runs, with different parameters and repetitions.
        form: what is fitted.
        samples: fits to arms that are drawn with replacement.
        seed: seed of the draws.
    """
    if form == "without the most repetitions":
        most = max(one.repetitions for one in observations)
        observations = [one for one in observations if one.repetitions < most]
    fit = fit_recurrence(observations, form)
    by_arm = {one.arm: [other for other in observations if other.arm == one.arm] for one in observations}
    arms, rng = list(by_arm.values()), np.random.default_rng(seed)
    phis: list[float] = []
    while len(phis) < samples:
        drawn = [arms[index] for index in rng.integers(len(arms), size=len(arms))]
        resampled = list(itertools.chain(*drawn))
        if _are_different(resampled):
            phis.append(fit_recurrence(resampled, form, near=fit).phi)
    low, high = np.quantile(phis, _QUANTILES)
    return replace(fit, low=float(low), high=float(high))


def repetitions(model: ModelSettings) -> float:
    """Return how often each layer of a model is applied; raise `InputError` if it is not one number."""
    if model.share not in ("all", "none"):
        raise InputError(
            f"model.share = {model.share}: the recurrence exponent needs layers that are shared whole; "
            "use all with model.groups, or none"
        )
    return model.layers / model.groups if model.share == "all" else 1.0


def can_fit(observations: Sequence[Observation]) -> bool:
    """Return whether there are enough different runs for all forms."""
    most = max((one.repetitions for one in observations), default=0)
    fewer = [one for one in observations if one.repetitions < most]
    return len(fewer) >= MIN_OBSERVATIONS and _are_different(fewer)


def _are_different(observations: Sequence[Observation]) -> bool:
    return all(
        len({getattr(one, name) for one in observations}) > 1 for name in ("parameters", "repetitions")
    )


def fit_recurrence(
    observations: Sequence[Observation], form: Form = "sum", near: RecurrenceFit | None = None
) -> RecurrenceFit:
    """Return the least-squares fit.

    For fixed exponents the other values are linear, so that only three exponents are searched: on a grid
    that gets finer around its best point.

    Args:
        observations: the runs.
        form: what is fitted.
        near: a fit at whose exponents the search starts, with a smaller grid.
    """
    problem = _Problem(observations, form)
    bounds = np.array([_PHI, _ALPHA, _BETA if problem.has_data_term else (0.0, 0.0)])
    center, extent = bounds.mean(1), bounds[:, 1] - bounds[:, 0]
    if near is not None:
        center = np.array([near.phi, near.alpha, near.beta])
    best_error = np.inf
    best = np.zeros(6)
    for number in _ROUNDS if near is None else _ROUNDS_NEAR:
        widths = extent * _SHRINKING**number
        axes = [
            np.clip(np.linspace(middle - width / 2, middle + width / 2, _POINTS), low, high)
            for middle, width, (low, high) in zip(center, widths, bounds, strict=True)
        ]
        exponents = np.stack(np.meshgrid(*map(np.unique, axes), indexing="ij"), -1).reshape(-1, 3)
        coefficients, errors = problem.solve(exponents)
        index = int(np.argmin(errors))
        if errors[index] < best_error:
            best_error, best = errors[index], np.concatenate([exponents[index], coefficients[index]])
        center = best[:3]
    phi, alpha, beta, floor, size_term, data_term = map(float, best)
    fit = RecurrenceFit(phi, alpha, beta, floor, size_term, data_term, 0.0)
    residuals = [one.loss - fit.predict(one.parameters, one.repetitions, one.tokens) for one in observations]
    return replace(fit, error=float(np.sqrt(np.mean(np.square(residuals)))))


class _Problem:
    """Least squares over E, A and B, none of them negative, for many exponents at once."""

    def __init__(self, observations: Sequence[Observation], form: Form):
        columns = [[one.parameters, one.repetitions, one.tokens, one.loss] for one in observations]
        parameters, repetitions, tokens, self._loss = np.array(columns, np.float64).T
        self._log_size, self._log_repetitions = np.log(parameters / 1e6), np.log(repetitions)
        self._log_tokens = np.log(tokens / 1e6)
        # A relative error is, to first order, one of the logarithm.
        self._weight = 1 / self._loss if form == "relative" else np.ones(len(self._loss))
        self.has_data_term = len(set(tokens)) > 1
        floors = (False,) if form == "no floor" else (True, False)
        data_terms = (True, False) if self.has_data_term else (False,)
        # A bound that holds is an active set; there are so few that all are tried.
        self._active = [(floor, True, data) for floor in floors for data in data_terms]

    def solve(self, exponents: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the best coefficients [points, 3] and their errors [points] for exponents [points, 3]."""
        phi, alpha, beta = exponents.T[:, :, None]
        size = np.exp(-alpha * (self._log_size + phi * self._log_repetitions))
        data = np.exp(-beta * self._log_tokens)
        terms = np.stack([np.ones_like(size), size, data], -1) * self._weight[:, None]
        target = self._loss * self._weight
        best = np.zeros((len(exponents), 3))
        best_errors = np.full(len(exponents), np.inf)
        for active in self._active:
            coefficients = _least_squares(terms * np.array(active, np.float64), target)
            errors = np.square(target - np.einsum("pnk,pk->pn", terms, coefficients)).sum(1)
            errors[(coefficients < 0).any(1)] = np.inf
            is_better = errors < best_errors
            best[is_better], best_errors[is_better] = coefficients[is_better], errors[is_better]
        return best, best_errors


def _least_squares(terms: NDArray[np.float64], target: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the coefficients [points, terms] of least squares; those of a term of zeros are 0."""
    norms = np.sqrt(np.square(terms).sum(1))
    scale = np.where(norms > 0, norms, 1.0)
    scaled = terms / scale[:, None, :]
    products = np.einsum("pnk,pnl->pkl", scaled, scaled)
    # A tiny ridge keeps terms apart that are nearly the same, such as a constant one.
    products += 1e-10 * np.eye(products.shape[-1]) + np.einsum("pk,kl->pkl", norms == 0, np.eye(3))
    right = np.einsum("pnk,n->pk", scaled, target)
    return np.linalg.solve(products, right[..., None])[..., 0] / scale

"""How much is a repetition of a layer worth, compared with new layers? The recurrence exponent.

The loss of many runs is fitted by

    loss = E + A / (N r^phi)^alpha + B / D^beta

with N parameters in the layers, each applied r times, and D training tokens. With phi = 0 repetitions
are worth nothing; with phi = 1 they are worth as much as layers with weights of their own.

This form takes a wider layer and one more layer for the same if they have as many parameters. Where that
is wrong, so is its phi. The form "separate" has an exponent for each, and compares repetitions with new
layers alone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from albertine.study.recurrence import Observation, without_most_repetitions

Form = Literal["sum", "separate", "relative", "no_irreducible_loss", "fewer_repetitions"]
FORMS: dict[Form, str] = {
    "sum": "one exponent",
    "separate": "separate exponents",
    "relative": "relative errors",
    "no_irreducible_loss": "E = 0",
    "fewer_repetitions": "fewer repetitions",
}
PHI_BOUNDS = (-0.5, 2.0)
_EXPONENT_BOUNDS = (0.01, 3.0)
_START_PHI, _START_EXPONENTS = (0.0, 0.5, 1.0), (0.1, 0.3, 0.9)  # the best of these combinations is refined
_MAX_ITERATIONS, _DIFFERENCE = 400, 1e-4  # most searches converge in 10 to 30 iterations
_DAMPINGS = np.array([0.0, 1e-4, 1e-2, 1.0, 100.0])
_QUANTILES = (0.025, 0.975)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class RecurrenceFit:
    """Fitted values.

    Attributes:
        phi: the recurrence exponent.
        alpha: exponent of the parameters; in the form "separate", of those of a layer.
        gamma: exponent of the number of layers; that of the parameters in the other forms.
        beta: exponent of the tokens; 0 if all runs have the same number.
        irreducible_loss: E, the loss that remains with infinite parameters and tokens.
        size_term: A, with parameters in millions.
        data_term: B, with tokens in millions.
        error: root mean square of loss minus fit.
        low: lower end of the 95% interval of phi.
        high: upper end of the 95% interval of phi.
    """

    phi: float
    alpha: float
    gamma: float
    beta: float
    irreducible_loss: float
    size_term: float
    data_term: float
    error: float
    low: float = PHI_BOUNDS[0]
    high: float = PHI_BOUNDS[1]

    @property
    def has_effect(self) -> bool:
        """Whether the loss depends on phi."""
        return self.size_term > 0

    @property
    def is_at_bound(self) -> bool:
        """Whether the interval of phi ends where the search does, or phi has no effect."""
        low, high = PHI_BOUNDS
        return self.low < low + 1e-3 or self.high > high - 1e-3 or not self.has_effect

    @property
    def interval(self) -> str:
        """The interval of phi as text."""
        return f"{self.low:.2f} to {self.high:.2f}{', at the bound of the search' * self.is_at_bound}"

    def data_loss(self, tokens: float) -> float:
        """Return the part of the loss that more tokens would remove."""
        return float(self.data_term * (tokens / 1e6) ** -self.beta)

    def predict(self, observation: Observation) -> float:
        """Return the fitted loss of a run."""
        one = observation
        width = (one.layer_parameters / 1e6) ** -self.alpha
        depth = (one.layers * one.repetitions**self.phi) ** -self.gamma
        return float(self.irreducible_loss + self.size_term * width * depth + self.data_loss(one.tokens))


def possible_forms(observations: Sequence[Observation]) -> list[Form]:
    """Return the forms that runs can be fitted by."""
    widths, layers = ({getattr(one, name) for one in observations} for name in ("layer_parameters", "layers"))
    return [form for form in FORMS if form != "separate" or (len(widths) > 1 and len(layers) > 1)]


def fit_with_interval(
    observations: Sequence[Observation], form: Form = "sum", samples: int = 400, seed: int = 0
) -> RecurrenceFit:
    """Return a fit whose interval of phi is that of a bootstrap over the arms.

    Args:
        observations: runs that `check_sizes` accepts.
        form: what is fitted.
        samples: fits to arms that are drawn with replacement.
        seed: seed of the draws.
    """
    if form == "fewer_repetitions":
        observations = without_most_repetitions(observations)
    fit = fit_recurrence(observations, form)
    by_arm: dict[str, list[Observation]] = {}
    for one in observations:
        by_arm.setdefault(one.arm, []).append(one)
    arms, rng = list(by_arm.values()), np.random.default_rng(seed)
    phis: list[float] = []
    while len(phis) < samples:
        drawn = [one for index in rng.integers(len(arms), size=len(arms)) for one in arms[index]]
        if len({one.repetitions for one in drawn}) > 1 and len({one.parameters for one in drawn}) > 1:
            phis.append(fit_recurrence(drawn, form, near=fit).phi)
    low, high = np.quantile(phis, _QUANTILES)
    return replace(fit, low=float(low), high=float(high))


def fit_recurrence(
    observations: Sequence[Observation], form: Form = "sum", near: RecurrenceFit | None = None
) -> RecurrenceFit:
    """Return the least-squares fit.

    For fixed exponents the other values are linear, so that only the exponents are searched.

    Args:
        observations: the runs.
        form: what is fitted.
        near: a fit at whose exponents the search starts.
    """
    problem = _Problem(observations, form)
    starts = problem.starts() if near is None else problem.exponents_of(near)[None]
    errors = np.square(problem.residuals(starts)[1]).sum(1)
    # The best starts are refined: the lowest one may lead to a minimum that is not the lowest.
    best = starts[np.argsort(errors)[: 1 if near is not None else 4]]
    refined = np.array([problem.refine(start) for start in best])
    errors = np.square(problem.residuals(refined)[1]).sum(1)
    return problem.fit(refined[np.argmin(errors)])


class _Problem:
    """Least squares over E, A and B, none of them negative, for many exponents at once.

    Exponents are phi, alpha, gamma and beta; those that a form does not have are tied or fixed.
    """

    def __init__(self, observations: Sequence[Observation], form: Form):
        self._observations, self._form = observations, form
        names = ("layer_parameters", "layers", "repetitions", "tokens", "loss")
        columns = np.array([[getattr(one, name) for name in names] for one in observations], np.float64).T
        width, layers, repeated, tokens, self._loss = columns
        self._logs = np.log(np.stack([width / 1e6, layers, repeated, tokens / 1e6]))
        # A relative error is, to first order, one of the logarithm.
        self._weight = 1 / self._loss if form == "relative" else np.ones(len(self._loss))
        self._has_data_term = len(set(tokens)) > 1
        self._has_gamma = form == "separate"
        free = np.array([True, True, self._has_gamma, self._has_data_term])
        self._bounds = np.array([PHI_BOUNDS, *[_EXPONENT_BOUNDS] * 3])[free].T
        floors = (False,) if form == "no_irreducible_loss" else (True, False)
        data_terms = (True, False) if self._has_data_term else (False,)
        # A bound that holds removes its term; there are so few combinations that all are tried.
        self._active = [
            np.array(terms, np.float64)
            for terms in [(floor, size, data) for floor in floors for size in (1, 0) for data in data_terms]
            if any(terms)
        ]

    def starts(self) -> Floats:
        """Return the exponents where the search begins [points, exponents]."""
        axes = [_START_PHI, *[_START_EXPONENTS] * (self._bounds.shape[1] - 1)]
        return np.stack(np.meshgrid(*axes, indexing="ij"), -1).reshape(-1, len(axes))

    def exponents_of(self, fit: RecurrenceFit) -> Floats:
        """Return the exponents of a fit, as a point of the search."""
        gamma = [fit.gamma] if self._has_gamma else []
        beta = [fit.beta or _START_EXPONENTS[1]] if self._has_data_term else []
        return np.array([fit.phi, fit.alpha, *gamma, *beta])

    def _complete(self, points: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Return phi, alpha, gamma and beta of points, each [points, 1]."""
        columns = list(points.T[:, :, None])
        phi, alpha = columns[:2]
        gamma = columns[2] if self._has_gamma else alpha
        return phi, alpha, gamma, columns[-1] if self._has_data_term else 0 * alpha

    def residuals(self, points: Floats) -> tuple[Floats, Floats]:
        """Return the best E, A and B [points, 3], and fit minus loss [points, runs], weighted."""
        phi, alpha, gamma, beta = self._complete(points)
        width, layers, repeated, tokens = self._logs
        size = np.exp(-alpha * width - gamma * (layers + phi * repeated))
        terms = np.stack([np.ones_like(size), size, np.exp(-beta * tokens)], -1) * self._weight[:, None]
        target = self._loss * self._weight
        best, best_errors = np.zeros((len(points), 3)), np.full(len(points), np.inf)
        for active in self._active:
            coefficients = _least_squares(terms * active, target)
            errors = np.square(np.einsum("pnk,pk->pn", terms, coefficients) - target).sum(1)
            errors[(coefficients < 0).any(1)] = np.inf
            is_better = errors < best_errors
            best[is_better], best_errors[is_better] = coefficients[is_better], errors[is_better]
        return best, np.einsum("pnk,pk->pn", terms, best) - target

    def refine(self, point: Floats) -> Floats:
        """Return the exponents of the minimum near a point: damped Gauss-Newton steps until none is better.

        An exponent at its bound stays there while the error falls beyond it: the steps of the others would
        be wrong if they counted on its step, which the bound removes.
        """
        low, high = self._bounds
        point = np.clip(point, low, high)
        for _ in range(_MAX_ITERATIONS):
            error, residuals, slopes = self._linearized(point)
            uphill = slopes @ residuals
            is_held = ((point <= low) & (uphill > 0)) | ((point >= high) & (uphill < 0))
            free = np.flatnonzero(~is_held)
            steps = np.zeros((len(_DAMPINGS), len(point)))
            steps[:, free] = _damped_steps(slopes[free], uphill[free])
            candidates = np.clip(point - steps, low, high)
            errors = np.square(self.residuals(candidates)[1]).sum(1)
            index = int(np.argmin(errors))
            if errors[index] >= error * (1 - 1e-10):
                break
            point = candidates[index]
        return point

    def _linearized(self, point: Floats) -> tuple[float, Floats, Floats]:
        """Return the squared error at a point, its residuals [runs], and their slopes [exponents, runs]."""
        shifts = _DIFFERENCE * np.eye(len(point))
        _, (residuals, *shifted) = self.residuals(
            np.concatenate([point[None], point + shifts, point - shifts])
        )
        above, below = np.split(np.array(shifted), 2)
        return float(np.square(residuals).sum()), residuals, (above - below) / (2 * _DIFFERENCE)

    def fit(self, point: Floats) -> RecurrenceFit:
        """Return the fit with the exponents of a point; its error is not weighted."""
        (coefficients,), _ = self.residuals(point[None])
        phi, alpha, gamma, beta = (float(one[0, 0]) for one in self._complete(point[None]))
        floor, size_term, data_term = map(float, coefficients)
        fit = RecurrenceFit(phi, alpha, gamma, beta, floor, size_term, data_term, error=0.0)
        differences = [fit.predict(one) - one.loss for one in self._observations]
        return replace(fit, error=float(np.sqrt(np.mean(np.square(differences)))))


def _damped_steps(slopes: Floats, uphill: Floats) -> Floats:
    """Return the step of each damping [dampings, exponents]."""
    products = slopes @ slopes.T + 1e-12 * np.eye(len(slopes))
    scale = np.diag(products.diagonal())
    return np.array([np.linalg.solve(products + damping * scale, uphill) for damping in _DAMPINGS])


def _least_squares(terms: Floats, target: Floats) -> Floats:
    """Return the coefficients [points, terms] of least squares; those of a term of zeros are 0."""
    norms = np.sqrt(np.square(terms).sum(1))
    scaled = terms / np.where(norms > 0, norms, 1.0)[:, None, :]
    products = np.einsum("pnk,pnl->pkl", scaled, scaled)
    # A tiny ridge keeps terms apart that are nearly the same, such as a constant one.
    products += 1e-10 * np.eye(3) + np.einsum("pk,kl->pkl", norms == 0, np.eye(3))
    right = np.einsum("pnk,n->pk", scaled, target)
    return np.asarray(np.linalg.solve(products, right[..., None])[..., 0] / np.where(norms > 0, norms, 1.0))

"""What the runs of a claim say about the recurrence exponent, and where repeated layers win."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from albertine import progress
from albertine.errors import InputError
from albertine.study.arm_report import ArmReport
from albertine.study.claim import ExponentRange
from albertine.study.recurrence import Observation, check_sizes, repetitions, run_observation
from albertine.study.recurrence_fit import Form, RecurrenceFit, fit_with_interval, possible_forms
from albertine.study.verdicts import Outcome

RECURRENCE_MEASURES = ("mask_loss", "tokens", "megabytes", "flops", "seconds")
_DECIDING_FORMS: tuple[Form, ...] = ("sum", "separate")


@dataclass(frozen=True)
class FrontierPoint:
    """An arm that is better than all cheaper ones.

    Attributes:
        arm: its name.
        repetitions: how often each of its layers is applied.
        cost: its cost, in the unit of pages.
        loss: its loss.
    """

    arm: str
    repetitions: float
    cost: float
    loss: float


@dataclass(frozen=True)
class RecurrenceReport:
    """The fits of the recurrence exponent.

    Attributes:
        expected: where the claim expects it.
        observations: the runs.
        fits: the fit of each form.
        frontiers: by cost, the arms that are better than all cheaper ones, the cheapest first.
    """

    expected: ExponentRange
    observations: tuple[Observation, ...]
    fits: dict[Form, RecurrenceFit]
    frontiers: dict[str, tuple[FrontierPoint, ...]]

    @property
    def fit(self) -> RecurrenceFit:
        """The fit of the first form."""
        return self.fits["sum"]

    @property
    def outcome(self) -> Outcome:
        """What the deciding forms say about the claim; undecided unless they agree."""
        outcomes = {self._outcome(self.fits[form]) for form in _DECIDING_FORMS if form in self.fits}
        return outcomes.pop() if len(outcomes) == 1 else "undecided"

    def _outcome(self, fit: RecurrenceFit) -> Outcome:
        if not fit.has_effect:
            return "undecided"
        # Beyond the bound of a search an interval extends only further outward, so it may still contradict.
        if fit.high < self.expected.above or fit.low > self.expected.below:
            return "contradicted"
        is_inside = self.expected.above < fit.low and fit.high < self.expected.below
        return "confirmed" if is_inside and not fit.is_at_bound else "undecided"

    @property
    def text(self) -> str:
        """Exponents and verdict in a sentence."""
        deciding = [fit for form, fit in self.fits.items() if form in _DECIDING_FORMS]
        fits = [f"{fit.phi:.2f} (95%: {fit.interval})" for fit in deciding]
        separate = "; with separate exponents of width and number of layers, "
        expected = f"expected between {self.expected.above:g} and {self.expected.below:g}: {self.outcome}"
        return f"recurrence exponent {separate.join(fits)}; {expected}"

    def to_json(self) -> dict[str, Any]:
        """Return the report under stable keys."""
        return {
            "outcome": self.outcome,
            "expected": asdict(self.expected),
            "fits": {form: asdict(fit) for form, fit in self.fits.items()},
            "frontiers": {
                cost: [asdict(point) for point in points] for cost, points in self.frontiers.items()
            },
            "observations": [asdict(one) for one in self.observations],
        }


def make_recurrence_report(expected: ExponentRange, arms: Sequence[ArmReport]) -> RecurrenceReport | None:
    """Return the fits to all finished runs; None if they are too few or too similar."""
    observations = tuple(one for arm in arms for one in _observations(arm))
    try:
        check_sizes(observations)
    except InputError:  # runs have failed, or are not finished
        return None
    forms = possible_forms(observations)
    fits = {
        form: fit_with_interval(observations, form)
        for form in progress.track(forms, "Fitting the recurrence exponent", unit="forms")
    }
    tokens = Counter(one.tokens for one in observations).most_common(1)[0][0]
    alike = {one.arm for one in observations if one.tokens == tokens}
    frontiers = {
        # Size does not depend on the length of the training, so only arms of the same length are compared.
        "megabytes": _frontier([arm for arm in arms if arm.name in alike], "megabytes"),
        "flops": _frontier(arms, "flops"),
        "seconds": _frontier(arms, "seconds"),
    }
    return RecurrenceReport(expected, observations, fits, frontiers)


def _observations(arm: ArmReport) -> list[Observation]:
    settings = arm.runs[0].settings
    return [run_observation(arm.name, settings, loss) for loss in arm.values["mask_loss"] if loss is not None]


def _frontier(arms: Sequence[ArmReport], measure: str) -> tuple[FrontierPoint, ...]:
    """Return the arms that are better than all cheaper ones, the cheapest first."""
    points = []
    for arm in arms:
        cost, loss = arm.mean(measure), arm.mean("mask_loss")
        if cost is not None and loss is not None:
            points.append(FrontierPoint(arm.name, repetitions(arm.runs[0].settings.model), cost, loss))
    frontier: list[FrontierPoint] = []
    for point in sorted(points, key=lambda point: (point.cost, point.loss)):
        if not frontier or point.loss < frontier[-1].loss:
            frontier.append(point)
    return tuple(frontier)

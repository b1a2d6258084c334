"""What the runs of a claim say about the recurrence exponent, and where repeated layers win."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from albertine.model.parameter_counts import count_parameters
from albertine.study.arm_report import ArmReport
from albertine.study.claim import ExponentRange
from albertine.study.recurrence import (
    FORMS,
    Form,
    Observation,
    RecurrenceFit,
    can_fit,
    fit_with_interval,
    repetitions,
)
from albertine.study.verdicts import Outcome

RECURRENCE_MEASURES = ("mask_loss", "tokens", "megabytes", "flops", "seconds")
FRONTIER_COSTS = ("megabytes", "flops", "seconds")
_MAIN_FORM: Form = "sum"


@dataclass(frozen=True)
class FrontierPoint:
    """An arm that no other arm beats in both loss and cost.

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
        frontiers: by cost, the arms that no other beats, the cheapest first.
    """

    expected: ExponentRange
    observations: tuple[Observation, ...]
    fits: dict[Form, RecurrenceFit]
    frontiers: dict[str, tuple[FrontierPoint, ...]]

    @property
    def fit(self) -> RecurrenceFit:
        """The fit that decides."""
        return self.fits[_MAIN_FORM]

    @property
    def outcome(self) -> Outcome:
        """What the interval of the exponent says about the claim."""
        low, high = self.fit.low, self.fit.high
        if self.expected.above < low and high < self.expected.below:
            return "confirmed"
        if high < self.expected.above or low > self.expected.below:
            return "contradicted"
        return "undecided"

    @property
    def text(self) -> str:
        """Exponent and verdict in a sentence."""
        fit, expected = self.fit, self.expected
        return (
            f"recurrence exponent {fit.phi:.2f} (95%: {fit.low:.2f} to {fit.high:.2f}), expected between "
            f"{expected.above:g} and {expected.below:g}: {self.outcome}"
        )

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
    if not can_fit(observations):
        return None
    fits: dict[Form, RecurrenceFit] = {form: fit_with_interval(observations, form) for form in FORMS}
    frontiers = {cost: _frontier(arms, cost) for cost in FRONTIER_COSTS}
    return RecurrenceReport(expected, observations, fits, frontiers)


def _observations(arm: ArmReport) -> list[Observation]:
    model = arm.runs[0].settings.model
    counts = count_parameters(model)
    runs = zip(arm.values["tokens"], arm.values["mask_loss"], strict=True)
    return [
        Observation(arm.name, counts.attention + counts.ffn, repetitions(model), 1e6 * tokens, loss)
        for tokens, loss in runs
        if tokens is not None and loss is not None
    ]


def _frontier(arms: Sequence[ArmReport], measure: str) -> tuple[FrontierPoint, ...]:
    """Return the arms that no other beats in both loss and a cost, the cheapest first."""
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

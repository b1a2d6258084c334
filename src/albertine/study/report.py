"""The report of a claim at a scale: the numbers of all arms, and the verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, stdev
from typing import Any

from albertine.study.claim import Claim
from albertine.study.measures import MEASURES, find_measure
from albertine.study.paired_statistics import half_width
from albertine.study.protocol import Protocol
from albertine.study.study_run import StudyRun
from albertine.study.verdicts import Outcome, Verdict, combined_outcome, judge

COSTS = ("parameters", "flops", "seconds")  # measures that every table shows


@dataclass(frozen=True)
class ArmReport:
    """The numbers of an arm.

    Attributes:
        name: name of the arm.
        runs: its runs, one for each seed.
        values: numbers of each run by measure, in the unit of pages; None where the run failed.
        failures: seeds whose run failed, with the reason.
    """

    name: str
    runs: tuple[StudyRun, ...]
    values: Mapping[str, Sequence[float | None]]
    failures: Mapping[int, str]

    def cell(self, measure: str) -> str:
        """Return mean and half the 95% interval of a measure, as text."""
        values = [value for value in self.values[measure] if value is not None]
        if not values:
            return "failed" if self.failures else "\N{EN DASH}"
        text = find_measure(measure).text
        if len(values) < 2 or stdev(values) == 0:
            return text(fmean(values))
        half = half_width(stdev(values), len(values))
        return f"{text(fmean(values))} \N{PLUS-MINUS SIGN}{text(half)}"


@dataclass(frozen=True)
class ClaimReport:
    """The report of a claim.

    Attributes:
        claim: the claim.
        scale: name of the scale.
        protocol: what the runs had in common.
        arms: the arms.
        verdicts: the verdict on each expectation.
    """

    claim: Claim
    scale: str
    protocol: Protocol
    arms: tuple[ArmReport, ...]
    verdicts: tuple[Verdict, ...]

    @property
    def outcome(self) -> Outcome:
        """The verdict on the claim."""
        return combined_outcome(self.verdicts)

    @property
    def seeds_needed(self) -> int | None:
        """Number of seeds that would decide all expectations; None if unknown or decided."""
        needed = [verdict.seeds_needed for verdict in self.verdicts if verdict.outcome == "undecided"]
        numbers = [number for number in needed if number is not None]
        return max(numbers) if numbers and len(numbers) == len(needed) else None

    def to_json(self) -> dict[str, Any]:
        """Return the report under stable keys."""
        return {
            "claim": self.claim.name,
            "sentence": self.claim.claim,
            "source": self.claim.source,
            "scale": self.scale,
            "outcome": self.outcome,
            "seeds": self.protocol.seeds,
            "seeds_needed": self.seeds_needed,
            "arms": [
                {
                    "name": arm.name,
                    "runs": [run.folder.name for run in arm.runs],
                    "values": {name: list(values) for name, values in arm.values.items()},
                    "failures": {str(seed): reason for seed, reason in arm.failures.items()},
                }
                for arm in self.arms
            ],
            "verdicts": [
                {
                    **asdict(verdict),
                    "difference": verdict.difference and verdict.difference.to_json(),
                    "text": verdict.expectation.text,
                }
                for verdict in self.verdicts
            ],
        }


def measures_of(claim: Claim) -> tuple[str, ...]:
    """Return the measures of a claim, those of its table first, and then the costs."""
    wanted = (*claim.columns, *(one.measure for one in claim.expectations), *COSTS)
    return tuple(dict.fromkeys(wanted))


def make_report(
    claim: Claim, scale: str, protocol: Protocol, runs: Mapping[str, Sequence[StudyRun]]
) -> ClaimReport:
    """Return the report of a claim from the stored results of its runs, by arm."""
    measures = measures_of(claim)
    arms = []
    for name, arm_runs in runs.items():
        measured = [run.measured(measures) for run in arm_runs]
        values = {
            measure: [one[measure] * MEASURES[measure].factor if measure in one else None for one in measured]
            for measure in measures
        }
        failures = {run.seed: run.failure for run in arm_runs if run.failure is not None}
        arms.append(ArmReport(name, tuple(arm_runs), values, failures))
    by_name = {arm.name: arm for arm in arms}

    def values_of(arm: str | float, measure: str) -> Sequence[float | None]:
        return by_name[arm].values[measure] if isinstance(arm, str) else [arm] * protocol.seeds

    verdicts = tuple(
        judge(one, values_of(one.arm, one.measure), values_of(one.than, one.measure))
        for one in claim.expectations
    )
    return ClaimReport(claim, scale, protocol, tuple(arms), verdicts)

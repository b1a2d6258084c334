"""The report of a claim at a scale: the numbers of all arms, and the verdicts."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from typing import Any

from albertine.display import counted
from albertine.study.arm_report import ArmReport
from albertine.study.claim import Claim, Expectation
from albertine.study.measures import MEASURES
from albertine.study.protocol import Protocol
from albertine.study.recurrence_report import (
    RECURRENCE_MEASURES,
    RecurrenceReport,
    make_recurrence_report,
)
from albertine.study.study_run import StudyRun
from albertine.study.verdicts import (
    UNKNOWN_MACHINE,
    Outcome,
    Verdict,
    across_machines,
    combined_outcome,
    judge,
)

COSTS = ("parameters", "megabytes", "flops", "seconds")  # measures that every table shows


@dataclass(frozen=True)
class ClaimReport:
    """The report of a claim.

    Attributes:
        claim: the claim.
        scale: name of the scale.
        protocol: what the runs had in common.
        arms: the arms.
        verdicts: the verdict on each expectation.
        recurrence: the fit of the recurrence exponent; None without one, or with too few finished runs.
        timed_on: with equal time, the machine on which the steps were timed; None if it is unknown.
    """

    claim: Claim
    scale: str
    protocol: Protocol
    arms: tuple[ArmReport, ...]
    verdicts: tuple[Verdict, ...]
    recurrence: RecurrenceReport | None = None
    timed_on: str | None = None

    @property
    def outcome(self) -> Outcome:
        """The verdict on the claim."""
        outcomes = [verdict.outcome for verdict in self.verdicts]
        if self.claim.recurrence is not None:
            outcomes.append("undecided" if self.recurrence is None else self.recurrence.outcome)
        return combined_outcome(outcomes)

    @property
    def seeds_needed(self) -> int | None:
        """Number of seeds that would decide all expectations; None if unknown, or if the claim is decided."""
        if self.outcome != "undecided":
            return None
        needed = [verdict.seeds_needed for verdict in self.verdicts if verdict.outcome == "undecided"]
        numbers = [number for number in needed if number is not None]
        return max(numbers) if numbers and len(numbers) == len(needed) else None

    @property
    def vocab_size(self) -> int:
        """Tokens of the vocabulary; a short text gives fewer than the protocol asks for."""
        runs = [run for arm in self.arms for run in arm.runs]
        return runs[0].data.vocab_size if runs else self.protocol.vocab_size

    @property
    def diverged_arms(self) -> list[str]:
        """Names of the arms that predict worse than a guess among all tokens."""
        limit = math.log(self.vocab_size)
        means = {arm.name: arm.mean("mask_loss") for arm in self.arms if "mask_loss" in arm.values}
        return [name for name, mean in means.items() if mean is not None and mean > limit]

    @property
    def divergence_note(self) -> str:
        """A sentence on arms that have diverged; empty if there are none."""
        names, limit = self.diverged_arms, math.log(self.vocab_size)
        if not names:
            return ""
        return (
            f"Diverged: {', '.join(names)}. The [MASK] loss is above {limit:.2f}, that of a guess among all "
            "tokens, so the numbers say nothing about the model; lower train.lr."
        )

    @property
    def machine_note(self) -> str:
        """What was trained on which machine, if not all on one; empty as well if all are unknown."""
        runs: dict[str, Counter[str]] = {}
        for arm in self.arms:
            for machines, seconds in zip(arm.machines, arm.values.get("seconds", ()), strict=False):
                if seconds is not None:
                    runs.setdefault(" and ".join(machines) or UNKNOWN_MACHINE, Counter())[arm.name] += 1
        if len(runs) <= 1 and not any(len(machines) > 1 for arm in self.arms for machines in arm.machines):
            return ""
        parts = []
        for machine, counts in runs.items():
            arms = ", ".join(f"{counted(count, 'run')} of {arm}" for arm, count in counts.items())
            parts.append(f"{machine}: {arms}")
        return f"Not trained on one known machine, so times do not compare. {'; '.join(parts)}."

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
            "measures": {name: MEASURES[name].title for arm in self.arms for name in arm.values},
            "diverged_arms": self.diverged_arms,
            "timed_on": self.timed_on,
            "arms": [
                {
                    "name": arm.name,
                    "steps": arm.steps,
                    "runs": [run.folder.name for run in arm.runs],
                    "values": {name: list(values) for name, values in arm.values.items()},
                    "machines": [list(machines) for machines in arm.machines],
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
            "recurrence": self.recurrence and self.recurrence.to_json(),
        }


def claim_measures(claim: Claim) -> tuple[str, ...]:
    """Return the measures of a claim, those of its table first, and then the costs."""
    fitted = RECURRENCE_MEASURES if claim.recurrence is not None else ()
    wanted = (*claim.columns, *(one.measure for one in claim.expectations), *fitted, *COSTS)
    return tuple(dict.fromkeys(wanted))


def make_report(
    claim: Claim,
    scale: str,
    protocol: Protocol,
    runs: Mapping[str, Sequence[StudyRun]],
    *,
    with_fits: bool = True,
    timed_on: str | None = None,
) -> ClaimReport:
    """Return the report of a claim from the stored results of its runs.

    Args:
        claim: the claim.
        scale: name of the scale.
        protocol: what the runs have in common.
        runs: the runs of each arm.
        with_fits: whether to fit the recurrence exponent, which takes up to a minute.
        timed_on: with equal time, the machine on which the steps were timed.
    """
    measures = claim_measures(claim)
    arms = []
    for name, arm_runs in runs.items():
        measured = [run.stored_measures(measures) for run in arm_runs]
        values = {
            measure: [one[measure] * MEASURES[measure].factor if measure in one else None for one in measured]
            for measure in measures
        }
        failures = {run.seed: reason for run in arm_runs if (reason := run.failure(measures)) is not None}
        machines = [run.machines for run in arm_runs]
        arms.append(ArmReport(name, tuple(arm_runs), values, failures, machines))
    by_name = {arm.name: arm for arm in arms}

    def values_of(arm: str | float, measure: str) -> Sequence[float | None]:
        return by_name[arm].values[measure] if isinstance(arm, str) else [arm] * protocol.seeds

    def verdict_on(one: Expectation) -> Verdict:
        values, others = values_of(one.arm, one.measure), values_of(one.than, one.measure)
        verdict = judge(one, values, others)
        if not (MEASURES[one.measure].is_time and isinstance(one.than, str)):
            return verdict
        machines = zip(by_name[one.arm].machines, by_name[one.than].machines, strict=True)
        is_compared = (None not in pair for pair in zip(values, others, strict=True))
        return across_machines(verdict, compress(machines, is_compared))

    verdicts = tuple(map(verdict_on, claim.expectations))
    expected = claim.recurrence
    recurrence = make_recurrence_report(expected, arms) if expected is not None and with_fits else None
    return ClaimReport(claim, scale, protocol, tuple(arms), verdicts, recurrence, timed_on)

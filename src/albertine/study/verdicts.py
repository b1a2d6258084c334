"""What the differences over seeds say about an expectation, and the expectations about a claim."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from albertine.paired_statistics import (
    MAX_SEEDS,
    PairedDifference,
    paired_difference,
    seeds_to_confirm_equality,
    seeds_to_detect,
)
from albertine.study.claim import Expectation
from albertine.study.measures import find_measure

MIN_SEEDS_FOR_VERDICT = 5
UNKNOWN_MACHINE = "an unknown machine"
Outcome = Literal["confirmed", "contradicted", "undecided"]


@dataclass(frozen=True)
class Verdict:
    """The verdict on one expectation.

    Attributes:
        expectation: the expectation.
        outcome: the verdict.
        difference: by how much `arm` is better than `than`, in the unit of pages; None without seeds that
            both arms have finished.
        reason: why, in a few words.
        seeds_needed: number of seeds that would decide in four of five studies, at most `MAX_SEEDS + 1`;
            None if the outcome is decided, or if there is no deviation to estimate it from.
    """

    expectation: Expectation
    outcome: Outcome
    difference: PairedDifference | None
    reason: str
    seeds_needed: int | None = None


def judge(expectation: Expectation, arm: Sequence[float | None], than: Sequence[float | None]) -> Verdict:
    """Return the verdict on an expectation.

    Args:
        expectation: the expectation.
        arm: the measure of each seed of `expectation.arm`, in the unit of pages; None where it failed.
        than: the same of `expectation.than`.
    """
    pairs = [(a, b) for a, b in zip(arm, than, strict=True) if a is not None and b is not None]
    if not pairs:
        return Verdict(expectation, "undecided", None, "no seed has this measure in both arms")
    sign = 1 if find_measure(expectation.measure).is_higher_better else -1
    difference = paired_difference([sign * a for a, _ in pairs], [sign * b for _, b in pairs])
    outcome, reason = _decide(expectation, difference)
    if difference.seeds < MIN_SEEDS_FOR_VERDICT:
        outcome = "undecided"
        reason = f"{difference.seeds} of at least {MIN_SEEDS_FOR_VERDICT} seeds"
    if len(pairs) < len(arm):
        missing = len(arm) - len(pairs)
        reason += f"; {missing} of {len(arm)} seeds left out (failed, missing, or without this measure)"
    needed = _seeds_needed(expectation, difference) if outcome == "undecided" else None
    return Verdict(expectation, outcome, difference, reason, needed)


def across_machines(verdict: Verdict, pairs: Iterable[tuple[tuple[str, ...], tuple[str, ...]]]) -> Verdict:
    """Return a verdict on times: undecided if the runs of a pair were trained on different machines.

    Args:
        verdict: the verdict without regard to the machines.
        pairs: the machines of both runs of each pair that is compared; none where they are unknown.
    """
    different = next((pair for pair in pairs if not _is_same_machine(*pair)), None)
    if different is None or verdict.difference is None:
        return verdict
    names = dict.fromkeys(name for one in different for name in (one or (UNKNOWN_MACHINE,)))
    reason = (
        f"not trained on one known machine, so times do not compare ({'; '.join(names)}); apart from that, "
        f"{verdict.reason}"
    )
    return replace(verdict, outcome="undecided", reason=reason, seeds_needed=None)


def _is_same_machine(arm: tuple[str, ...], than: tuple[str, ...]) -> bool:
    """Return whether two runs were trained on one machine, or both by a version that stored none."""
    return arm == than and len(arm) <= 1


def _decide(expectation: Expectation, difference: PairedDifference) -> tuple[Outcome, str]:
    """Return what an interval says, and why."""
    margin, low, high = expectation.margin, difference.low, difference.high
    if expectation.relation == "equal":
        if -margin <= low and high <= margin:
            return "confirmed", "the interval is within the margin"
        if low > margin or high < -margin:
            return "contradicted", "the interval is outside of the margin"
        return "undecided", "the interval crosses the margin"
    if expectation.relation == "not worse":
        if -margin <= low:
            return "confirmed", "the interval is above the margin of being worse"
        if high < -margin:
            return "contradicted", "the interval is below the margin of being worse"
        return "undecided", "the interval crosses the margin of being worse"
    if low > 0 and difference.mean >= margin:
        return "confirmed", "the interval excludes 0, and the mean reaches the margin"
    if high < margin:
        return "contradicted", "the interval is below the margin" + (" and below 0" if high < 0 else "")
    if low == high == 0:
        return "undecided", "both arms are equal with every seed"
    return "undecided", "the interval is too wide"


def _seeds_needed(expectation: Expectation, difference: PairedDifference) -> int | None:
    """Return how many seeds would decide in four of five studies; None if unknown.

    The mean and the deviation so far are taken for the true ones.
    """
    if math.isnan(difference.deviation):
        return None
    if difference.deviation == 0:  # further seeds are expected to give the same
        return MIN_SEEDS_FOR_VERDICT if _decide(expectation, difference)[0] != "undecided" else None
    mean, margin, deviation = difference.mean, expectation.margin, difference.deviation
    at_least = max(MIN_SEEDS_FOR_VERDICT, difference.seeds + 1)
    if expectation.relation == "equal":
        if abs(mean) < margin:
            return seeds_to_confirm_equality(deviation, mean, at_least, margin)
        return seeds_to_detect(deviation, abs(mean) - margin, at_least)
    if expectation.relation == "not worse":
        return seeds_to_detect(deviation, abs(mean + margin), at_least)
    if mean >= margin:  # the mean of another study must reach the margin, too
        return seeds_to_detect(deviation, mean, at_least, margin)
    return seeds_to_detect(deviation, margin - mean, at_least)


def seeds_needed_text(seeds: int) -> str:
    """Return the number of seeds that would decide, in words."""
    number = f"more than {MAX_SEEDS:,}" if seeds > MAX_SEEDS else f"about {seeds:,}"
    return f"{number} seeds would decide"


def outcomes_text(outcomes: Sequence[Outcome]) -> str:
    """Return how many expectations got which verdict, in words; empty if all got the same."""
    counts = Counter(outcomes)
    if len(counts) < 2:
        return ""
    parts = [f"{counts[one]} {one}" for one in ("confirmed", "contradicted", "undecided") if counts[one]]
    return f"of {len(outcomes)} expectations, {', '.join(parts)}"


def combined_outcome(outcomes: Collection[Outcome]) -> Outcome:
    """Return the verdict on a claim: contradicted by one expectation, or confirmed by all."""
    if "contradicted" in outcomes:
        return "contradicted"
    return "confirmed" if set(outcomes) == {"confirmed"} else "undecided"

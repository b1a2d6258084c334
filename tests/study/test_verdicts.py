"""What intervals say about expectations."""

import math

import numpy as np
import pytest

from albertine.paired_statistics import PairedDifference, half_width
from albertine.study import verdicts
from albertine.study.catalog import find_claim
from albertine.study.claim import Expectation, Relation
from albertine.study.protocol import find_protocol
from albertine.study.report import ClaimReport
from albertine.study.verdicts import (
    Outcome,
    across_machines,
    combined_outcome,
    judge,
    outcomes_text,
    seeds_needed_text,
)

_ZEROS = [0.0] * 5
_NARROW, _WIDE = [-0.1, 0.1, 0.0, -0.1, 0.1], [-4.0, 4.0, 0.0, -4.0, 4.0]


def _judged(relation: str, differences: list[float], measure: str = "sop_accuracy") -> Outcome:
    expectation = Expectation(measure, "a", "b", 1.0, relation)  # type: ignore[arg-type]
    return judge(expectation, differences, _ZEROS).outcome


@pytest.mark.parametrize(
    ("relation", "mean", "spread", "outcome"),
    [
        ("better", 2.0, _NARROW, "confirmed"),
        ("better", 0.5, _NARROW, "contradicted"),  # above 0, and too small to matter
        ("better", -2.0, _NARROW, "contradicted"),
        ("better", 2.0, _WIDE, "undecided"),
        ("better", 0.0, _WIDE, "undecided"),
        ("equal", 0.5, _NARROW, "confirmed"),
        ("equal", 2.0, _NARROW, "contradicted"),
        ("equal", -2.0, _NARROW, "contradicted"),
        ("equal", 1.0, _NARROW, "undecided"),
        ("not worse", 5.0, _NARROW, "confirmed"),
        ("not worse", -0.5, _NARROW, "confirmed"),
        ("not worse", -2.0, _NARROW, "contradicted"),
        ("not worse", -1.0, _NARROW, "undecided"),
        ("equal", 0.0, _WIDE, "undecided"),
    ],
)
def test_verdict(relation: str, mean: float, spread: list[float], outcome: Outcome) -> None:
    assert _judged(relation, [mean + one for one in spread]) == outcome


def test_lower_losses_are_better() -> None:
    assert _judged("better", [-2.0 + one for one in _NARROW], "mask_loss") == "confirmed"
    assert _judged("better", [2.0 + one for one in _NARROW], "mask_loss") == "contradicted"


def test_too_few_seeds_decide_nothing() -> None:
    expectation = Expectation("sop_accuracy", "a", "b", 1.0)
    verdict = judge(expectation, [2.0, 2.1, 1.9, 2.0, None], _ZEROS)
    assert verdict.outcome == "undecided"
    assert (
        verdict.reason
        == "4 of at least 5 seeds; 1 of 5 seeds left out (failed, missing, or without this measure)"
    )
    assert verdict.seeds_needed == 5


def test_number_of_seeds_that_would_decide() -> None:
    expectation = Expectation("sop_accuracy", "a", "b", 1.0)
    values = [2.0 + one for one in _WIDE]
    needed = judge(expectation, values, _ZEROS).seeds_needed
    assert needed is not None
    repeated = (values * needed)[:needed]
    assert needed > 5
    assert judge(expectation, repeated, [0.0] * needed).outcome == "confirmed"
    assert seeds_needed_text(needed) == f"about {needed} seeds would decide"


@pytest.mark.parametrize(("decided", "is_known"), [(2.0, True), (-2.0, False)])
def test_a_contradicted_claim_needs_no_more_seeds(decided: float, is_known: bool) -> None:
    claim = find_claim("table-5")
    expectation = Expectation("sop_accuracy", "a", "b", 1.0)
    verdicts = tuple(
        judge(expectation, [mean + one for one in spread], _ZEROS)
        for mean, spread in ((decided, _NARROW), (2.0, _WIDE))
    )
    report = ClaimReport(claim, "smoke", find_protocol(claim, "smoke"), (), verdicts)
    assert report.outcome == ("undecided" if is_known else "contradicted")
    assert (report.seeds_needed is not None) == is_known


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("relation", "mean", "largest"),
    [
        ("better", 3.0, 20),
        ("better", 0.5, 60),
        ("equal", 0.0, 30),
        ("equal", 0.5, 60),
        ("not worse", 0.0, 20),
    ],
)
def test_the_named_number_of_seeds_decides_in_four_of_five_studies(
    relation: Relation, mean: float, largest: int
) -> None:
    expectation = Expectation("sop_accuracy", "a", "b", 1.0, relation)
    wanted = PairedDifference(mean, -math.inf, math.inf, 1.0, 2)
    seeds = verdicts._seeds_needed(expectation, wanted)
    assert seeds is not None
    assert 5 <= seeds <= largest
    rng = np.random.default_rng(0)
    studies = [judge(expectation, rng.normal(mean, 1.0, seeds).tolist(), [0.0] * seeds) for _ in range(1_500)]
    assert sum(study.outcome != "undecided" for study in studies) / len(studies) > 0.77


def test_equality_needs_no_more_seeds_than_decide_in_four_of_five_studies() -> None:
    expectation = Expectation("sop_accuracy", "a", "b", 5.0, "equal")
    seeds = verdicts._seeds_needed(expectation, PairedDifference(4.01, -math.inf, math.inf, 1.65, 2))
    assert seeds == 24
    samples = np.random.default_rng(0).normal(4.01, 1.65, size=(5_000, seeds))
    halves = np.array([half_width(one, seeds) for one in samples.std(1, ddof=1)])
    assert np.mean(abs(samples.mean(1)) + halves <= 5.0) == pytest.approx(0.8, abs=0.03)


@pytest.mark.parametrize(
    ("relation", "mean", "needed"),
    [("better", 2.0, 5), ("better", -2.0, 5), ("equal", 0.0, 5), ("not worse", -3.0, 5), ("better", 0.0, 5)],
)
def test_seeds_that_do_not_vary_decide_once_there_are_five(
    relation: Relation, mean: float, needed: int
) -> None:
    verdict = judge(Expectation("sop_accuracy", "a", "b", 1.0, relation), [mean] * 3, [0.0] * 3)
    assert (verdict.outcome, verdict.seeds_needed) == ("undecided", needed)
    without_margin = Expectation("sop_accuracy", "a", "b", 0.0)
    assert judge(without_margin, [0.0] * 3, [0.0] * 3).seeds_needed is None  # more would be equal, too


def test_a_mean_at_the_margin_is_never_decided() -> None:
    expectation = Expectation("sop_accuracy", "a", "b", 1.0)
    assert verdicts._seeds_needed(expectation, PairedDifference(1.0, -math.inf, math.inf, 1.0, 2)) == 1_001


def test_more_seeds_than_can_be_run() -> None:
    needed = judge(
        Expectation("sop_accuracy", "a", "b", 1.0), [0.99 + one for one in _WIDE], _ZEROS
    ).seeds_needed
    assert needed == 1_001
    assert seeds_needed_text(needed) == "more than 1,000 seeds would decide"


def test_arms_that_failed() -> None:
    verdict = judge(Expectation("sop_accuracy", "a", "b", 1.0), [None] * 5, _ZEROS)
    assert (verdict.outcome, verdict.difference) == ("undecided", None)


def test_verdict_on_a_claim() -> None:
    assert combined_outcome(["confirmed", "confirmed"]) == "confirmed"
    assert combined_outcome(["confirmed", "undecided"]) == "undecided"
    assert combined_outcome(["confirmed", "undecided", "contradicted"]) == "contradicted"
    assert combined_outcome([]) == "undecided"


def test_mixed_outcomes_are_counted() -> None:
    mixed: list[Outcome] = ["undecided", "confirmed", "undecided"]
    assert outcomes_text(mixed) == "of 3 expectations, 1 confirmed, 2 undecided"
    assert outcomes_text(["confirmed", "confirmed"]) == outcomes_text([]) == ""


def test_times_of_different_machines_are_not_compared() -> None:
    verdict = judge(Expectation("seconds", "a", "b", 1.0), [1.0] * 5, [3.0 + one for one in _NARROW])
    assert verdict.outcome == "confirmed"
    one, other, unknown, both = ("X",), ("Y",), (), ("X", "Y")
    for known in (one, unknown):  # all runs of an earlier version have unknown machines
        assert across_machines(verdict, [(known, known)] * 5) == verdict
    assert across_machines(verdict, [(one, one), (other, other)]) == verdict  # differences within a machine
    for arm, than, names in (
        (one, other, "X; Y"),
        (both, both, "X; Y"),  # resumed on the other machine
        (one, unknown, "X; an unknown machine"),
    ):
        undecided = across_machines(verdict, [(one, one)] * 4 + [(arm, than)])
        assert undecided.outcome == "undecided"
        assert undecided.reason.startswith(
            f"not trained on one known machine, so times do not compare ({names}); apart from that, "
        )
        assert undecided.seeds_needed is None
        assert undecided.difference == verdict.difference

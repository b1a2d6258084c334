"""Tests of the page of a claim that need no runs."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from albertine.study.arm_report import ArmReport
from albertine.study.catalog import find_claim
from albertine.study.page import _key_figures
from albertine.study.report import ClaimReport


def arm(*folders: str) -> Any:
    """An arm whose runs took a minute and 2 TFLOP each, half of it for the run that they start from."""

    def run(folder: str) -> Any:
        half = {"flops": 1e12, "seconds": 30.0}
        return SimpleNamespace(folder=Path(folder), training_failure=None, cost_of_start=half.__getitem__)

    values = {"flops": [2.0] * len(folders), "seconds": [60.0] * len(folders)}
    return SimpleNamespace(runs=tuple(map(run, folders)), values=values)


def test_a_run_that_arms_share_is_counted_once() -> None:
    protocol = SimpleNamespace(seeds=2)
    for arms, flops, duration in (
        ([arm("a", "b")], "2 TFLOP", "1 min 00 s"),
        ([arm("a", "b"), arm("a", "b")], "2 TFLOP", "1 min 00 s"),
        ([arm("a", "b"), arm("c", "d")], "4 TFLOP", "2 min 00 s"),
    ):
        report: Any = SimpleNamespace(outcome="undecided", protocol=protocol, arms=arms)
        figures = dict(_key_figures(report))
        assert figures["FLOPs of pre-training"] == flops
        assert figures["pre-training, summed over the runs"] == duration


def test_arms_that_predict_worse_than_a_guess_are_named() -> None:
    arms = tuple(
        ArmReport(name, (), {"mask_loss": losses}, {})
        for name, losses in (("good", [5.9, 5.9]), ("bad", [5.0, None, 7.1]), ("failed", [None]))
    )
    protocol: Any = SimpleNamespace(vocab_size=400)  # a guess among all has a loss of 5.99
    report = ClaimReport(find_claim("optimizers"), "smoke", protocol, arms, ())
    assert report.divergence_note.startswith("Diverged: bad. The [MASK] loss is above 5.99")
    assert report.diverged_arms == ["bad"]
    run: Any = SimpleNamespace(data=SimpleNamespace(vocab_size=300))  # all tokens that a short text gives
    small = replace(report, arms=tuple(replace(arm, runs=(run,)) for arm in arms))
    assert "is above 5.70, that of a guess" in small.divergence_note
    assert not replace(report, arms=arms[:1]).divergence_note
    assert not replace(report, arms=(ArmReport("no loss", (), {}, {}),)).divergence_note


def test_machines_are_named_if_runs_are_of_several() -> None:
    def report(*machines: tuple[str, ...]) -> ClaimReport:
        arms = tuple(
            ArmReport(name, (), {"seconds": [1.0] * len(machines)}, {}, machines) for name in ("a", "b")
        )
        return ClaimReport(find_claim("optimizers"), "smoke", SimpleNamespace(), arms, ())  # type: ignore[arg-type]

    assert not report((), ()).machine_note  # of an earlier version
    assert not report(("X",), ("X",)).machine_note
    assert report(("X",), ("Y",), ("Y",), ()).machine_note == (
        "Not trained on one known machine, so times do not compare. X: 1 run of a, 1 run of b; "
        "Y: 2 runs of a, 2 runs of b; an unknown machine: 1 run of a, 1 run of b."
    )
    assert "X and Y: 1 run of a" in report(("X", "Y")).machine_note

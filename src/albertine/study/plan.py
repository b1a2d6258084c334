"""What a study will take: its runs, FLOPs and time, and what its number of seeds can detect."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from albertine.study.claim import Claim, Expectation
from albertine.study.paired_statistics import detectable_difference
from albertine.study.report import ClaimReport, measures_of
from albertine.study.study_run import StudyRun, flops_per_token

# Without a finished run to go by: the share of the speed of large products that training reaches.
_EFFICIENCY = 0.4
_PRODUCT_SIZE, _PRODUCTS = 512, 8


@dataclass(frozen=True)
class StudyPlan:
    """The plan of a claim at a scale.

    Attributes:
        claim: the claim.
        runs: number of all runs.
        finished: number of runs that need nothing more.
        flops: FLOPs of pre-training in the other runs.
        seconds: expected time of pre-training, on all cores.
        is_measured: whether the time follows from the speed of finished runs.
        detectable: for each expectation, the difference that the seeds detect in 80% of all studies; None
            if no runs have shown yet how much the difference varies.
    """

    claim: Claim
    runs: int
    finished: int
    flops: float
    seconds: float
    is_measured: bool
    detectable: Sequence[tuple[Expectation, float | None]]


def make_plan(claim: Claim, runs: Mapping[str, Sequence[StudyRun]], report: ClaimReport) -> StudyPlan:
    """Return the plan of a claim.

    Args:
        claim: the claim.
        runs: the runs of each arm.
        report: the report of the runs that are finished.
    """
    measures = measures_of(claim)
    every = [run for arm in runs.values() for run in arm]
    remaining = [run for run in every if not run.is_finished(measures)]
    flops = sum(map(planned_flops, remaining))
    rates = [rate for arm in report.arms for rate in _rates(arm.values)]
    rate = median(rates) if rates else _product_rate() * _EFFICIENCY
    detectable = [
        (
            verdict.expectation,
            detectable_difference(verdict.difference.deviation, report.protocol.seeds)
            if verdict.difference is not None and verdict.difference.seeds > 1
            else None,
        )
        for verdict in report.verdicts
    ]
    workers = max(1, min(os.cpu_count() or 1, len(remaining)))
    return StudyPlan(
        claim, len(every), len(every) - len(remaining), flops, flops / rate / workers, bool(rates), detectable
    )


def planned_flops(run: StudyRun) -> float:
    """Return the FLOPs of the pre-training of a run."""
    train = run.settings.train
    return flops_per_token(run.settings) * train.steps * train.batch_tokens


def _rates(values: Mapping[str, Sequence[float | None]]) -> list[float]:
    """Return the FLOPs per second of finished runs; the values are in the units of pages."""
    return [
        1e12 * flops / seconds
        for flops, seconds in zip(values["flops"], values["seconds"], strict=True)
        if flops and seconds
    ]


def _product_rate() -> float:
    """Return the FLOPs per second of matrix products on one core in fp32."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        matrix = torch.ones(_PRODUCT_SIZE, _PRODUCT_SIZE)
        matrix @ matrix
        started = time.perf_counter()
        for _ in range(_PRODUCTS):
            matrix @ matrix
        return 2.0 * _PRODUCT_SIZE**3 * _PRODUCTS / (time.perf_counter() - started)
    finally:
        torch.set_num_threads(threads)

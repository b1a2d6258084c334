"""What a study will take: its runs, FLOPs and time, and which differences it can detect."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from albertine.device import choose_device, choose_precision, peak_flops
from albertine.paired_statistics import detectable_difference
from albertine.study.claim import Claim, Expectation
from albertine.study.execution import are_parallel
from albertine.study.report import ClaimReport, measures_of
from albertine.study.run_progress import remaining_finetuning_steps
from albertine.study.study_run import StudyRun
from albertine.study.verdicts import MIN_SEEDS_FOR_VERDICT, Verdict
from albertine.train.parallel_runs import worker_count

# Fraction of the throughput of matrix products that training reaches; used before any run has finished.
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
        finetuning_steps: remaining steps of fine-tuning, whose time is not estimated.
        is_measured: whether the time follows from the speed of finished runs.
        seeds: number of seeds.
        detectable: for each expectation, the difference that the seeds can detect, in the unit of pages, if
            they vary as the finished ones; None with fewer than two of these, or fewer than five seeds.
    """

    claim: Claim
    runs: int
    finished: int
    flops: float
    seconds: float
    finetuning_steps: int
    is_measured: bool
    seeds: int
    detectable: Sequence[tuple[Expectation, float | None]]


def make_plan(claim: Claim, runs: Mapping[str, Sequence[StudyRun]], report: ClaimReport) -> StudyPlan:
    """Return the plan of a claim.

    Args:
        claim: the claim.
        runs: the runs of each arm.
        report: the report of the runs that are finished.
    """
    measures = measures_of(claim)
    all_runs = [run for arm in runs.values() for run in arm]
    remaining = [run for run in all_runs if not run.is_finished(measures)]
    flops = sum(run.flops for run in remaining)
    rates = [rate for arm in report.arms for rate in _rates(arm.values)]
    is_parallel = are_parallel(max(run.settings.model.hidden_size for run in all_runs))
    device = choose_device("auto")
    # Runs that share a GPU slow each other down, so the measured rates are those of a full GPU.
    side_by_side = len(remaining) if device.type == "cpu" else len(all_runs)
    workers = worker_count(side_by_side, device) if is_parallel else 1
    if rates:
        rate = median(rates) * workers
    elif is_parallel and device.type == "cpu":
        rate = _core_rate() * workers * _EFFICIENCY
    else:
        rate = peak_flops(choose_precision("auto", device), device) * _EFFICIENCY
    seeds = report.protocol.seeds
    return StudyPlan(
        claim,
        runs=len(all_runs),
        finished=len(all_runs) - len(remaining),
        flops=flops,
        seconds=flops / rate if remaining else 0.0,
        finetuning_steps=sum(remaining_finetuning_steps(run, measures) for run in remaining),
        is_measured=bool(rates),
        seeds=seeds,
        detectable=[(one.expectation, _detectable(one, seeds)) for one in report.verdicts],
    )


def _detectable(verdict: Verdict, seeds: int) -> float | None:
    """Return the true difference that a study with this many seeds detects with a probability of 80%.

    Of an expectation of equality, or of being not worse, it is the distance from the margin.
    """
    difference, expectation = verdict.difference, verdict.expectation
    if difference is None or difference.seeds < 2 or seeds < MIN_SEEDS_FOR_VERDICT:
        return None
    margin = expectation.margin if expectation.relation == "better" else 0.0
    return detectable_difference(difference.deviation, seeds, margin)


def _rates(values: Mapping[str, Sequence[float | None]]) -> list[float]:
    """Return the FLOPs per second of finished runs; the values are in the units of pages."""
    return [
        1e12 * flops / seconds
        for flops, seconds in zip(values["flops"], values["seconds"], strict=True)
        if flops and seconds
    ]


def _core_rate() -> float:
    """Return the FLOPs per second of matrix products in fp32 on one core."""
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

"""What a study will take: its runs, FLOPs and time, and which differences it can detect."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import torch

from albertine.device import choose_device, choose_precision, peak_flops
from albertine.paired_statistics import detectable_difference, detectable_distance
from albertine.study.claim import Claim, Expectation
from albertine.study.execution import are_parallel
from albertine.study.protocol import Protocol
from albertine.study.report import ClaimReport, claim_measures
from albertine.study.run_progress import remaining_steps_together
from albertine.study.study_run import StudyRun
from albertine.study.verdicts import MIN_SEEDS_FOR_VERDICT, Verdict
from albertine.train.parallel_runs import worker_count

# Fraction of the throughput of matrix products that training reaches; used before any run has finished.
_EFFICIENCY = 0.4
_PRODUCT_SIZE, _PRODUCTS = 512, 8


@dataclass(frozen=True)
class DetectableDifference:
    """The smallest true difference that a study finds with a probability of 80%.

    Attributes:
        expectation: the expectation.
        difference: the difference, in the unit of pages. For `equal` and `not worse` it is the distance from
            the margin. None with fewer than five seeds, or if no deviation is known.
        is_measured: whether the deviation over seeds is that of finished runs; otherwise it is the one that
            is typical of the scale.
    """

    expectation: Expectation
    difference: float | None
    is_measured: bool


@dataclass(frozen=True)
class StudyPlan:
    """The plan of a claim at a scale.

    Attributes:
        claim: the claim.
        runs: number of all runs.
        finished: number of runs that need nothing more.
        flops: FLOPs of the pre-training that is left.
        seconds: expected time of pre-training, on all cores.
        finetuning_steps: remaining steps of fine-tuning, whose time is not estimated.
        is_measured: whether the time follows from the speed of finished runs.
        seeds: number of seeds.
        detectable: for each expectation, the difference that the seeds can detect.
    """

    claim: Claim
    runs: int
    finished: int
    flops: float
    seconds: float
    finetuning_steps: int
    is_measured: bool
    seeds: int
    detectable: Sequence[DetectableDifference]


def make_plan(claim: Claim, runs: Mapping[str, Sequence[StudyRun]], report: ClaimReport) -> StudyPlan:
    """Return the plan of a claim.

    Args:
        claim: the claim.
        runs: the runs of each arm.
        report: the report of the runs that are finished.
    """
    measures = claim_measures(claim)
    all_runs = [run for arm in runs.values() for run in arm]
    remaining = [run for run in all_runs if not run.is_finished(measures)]
    # Arms that differ in their fine-tuning share a pre-training run.
    to_train = {run.folder: run for run in remaining if not run.is_training_done}
    flops = sum(run.flops for run in to_train.values())
    rates = [rate for arm in report.arms for rate in _rates(arm.values)]
    is_parallel = are_parallel(max(run.settings.model.hidden_size for run in all_runs))
    device = choose_device("auto")
    # Runs that share a GPU slow each other down, so the measured rates are those of a full GPU.
    num_parallel = len(remaining) if device.type == "cpu" else len(all_runs)
    workers = worker_count(num_parallel, device) if is_parallel else 1
    if rates:
        rate = median(rates) * workers
    elif is_parallel and device.type == "cpu":
        rate = _core_rate() * workers * _EFFICIENCY
    else:
        rate = peak_flops(choose_precision("auto", device), device) * _EFFICIENCY
    seeds = report.protocol.seeds
    return StudyPlan(
        claim,
        runs=len({run.folder for run in all_runs}),
        finished=len({run.folder for run in all_runs} - {run.folder for run in remaining}),
        flops=flops,
        seconds=flops / rate if remaining else 0.0,
        finetuning_steps=remaining_steps_together(remaining, measures),
        is_measured=bool(rates),
        seeds=seeds,
        detectable=[_detectable(one, report.protocol) for one in report.verdicts],
    )


def _detectable(verdict: Verdict, protocol: Protocol) -> DetectableDifference:
    """Return the difference that the seeds of a protocol detect, from finished seeds or from typical ones."""
    found, expectation = verdict.difference, verdict.expectation
    is_measured = found is not None and found.seeds >= 2
    deviation = (
        found.deviation if found is not None and is_measured else protocol.deviations.get(expectation.measure)
    )
    if deviation is None or protocol.seeds < MIN_SEEDS_FOR_VERDICT:
        return DetectableDifference(expectation, None, is_measured)
    if expectation.relation == "equal":
        difference = detectable_distance(deviation, protocol.seeds, expectation.margin)
    else:
        margin = expectation.margin if expectation.relation == "better" else 0.0
        difference = detectable_difference(deviation, protocol.seeds, margin)
    return DetectableDifference(expectation, difference, is_measured)


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

"""Training runs in parallel, one process each, because models this small are no faster on two cores.

The processes print nothing; their combined progress is read from their metrics logs.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from albertine import progress
from albertine.processes import run_in_processes
from albertine.train.metrics_log import METRICS_FILE, read_last_metrics

RunFunction = Callable[[], object]
_MIN_WIDTH_FOR_ALL_CORES = 768  # narrower models are no faster on several cores
_MAX_WORKERS = 8  # each takes half a gigabyte of memory in addition to its model


def is_faster_in_parallel(device: torch.device, hidden_size: int) -> bool:
    """Return whether runs of models of a width are faster side by side than one after another."""
    return device.type == "cpu" and hidden_size < _MIN_WIDTH_FOR_ALL_CORES


def worker_count(runs: int) -> int:
    """Return how many of some runs are side by side at a time."""
    return min(runs, os.cpu_count() or 1, _MAX_WORKERS)


def run_in_parallel(activity: str, runs: Mapping[Path, RunFunction], total_steps: int | None) -> None:
    """Run all functions in parallel; if there are more runs than cores, start them in order.

    Args:
        activity: The activity named in the progress line, such as "Training".
        runs: The function of each run, by the run's folder.
        total_steps: Number of steps of all runs together; None if it is not known.
    """
    if not runs:
        return
    cores = os.cpu_count() or 1
    # The same for any number of runs: sums, and so the weights, depend on the number of threads.
    threads = max(1, cores // _MAX_WORKERS)
    workers = worker_count(len(runs))
    steps_before = sum(map(_last_step, runs))
    remaining_steps = None if total_steps is None else total_steps - steps_before
    with progress.progress_counter(activity, total=remaining_steps, unit="steps") as advance:
        reported_steps = steps_before

        def update_progress() -> None:
            nonlocal reported_steps
            steps_now = max(reported_steps, sum(map(_last_step, runs)))
            advance(steps_now - reported_steps)
            reported_steps = steps_now

        advice = "run the same command again to resume"
        finished = run_in_processes(
            _call,
            runs.values(),
            workers,
            initializer=torch.set_num_threads,
            initargs=(threads,),
            on_poll=update_progress,
            advice=advice,
        )
        for _ in finished:
            update_progress()


def _call(run: RunFunction) -> None:
    run()


def _last_step(run: Path) -> int:
    """Return the last step in the metrics log of a run, or 0."""
    if not (run / METRICS_FILE).exists():
        return 0
    return int(next((line["step"] for line in reversed(read_last_metrics(run)) if "step" in line), 0))

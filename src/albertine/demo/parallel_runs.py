"""Runs beside each other, a process each: a network this small is no faster on two cores than on one.

What they say stays with them; how far they are together is read from their journals.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import torch

from albertine import progress
from albertine.processes import run_in_processes
from albertine.train.metrics_log import METRICS_FILE, read_last_metrics

RunFunction = Callable[[], object]


def run_in_parallel(activity: str, runs: Mapping[Path, RunFunction], steps: int) -> None:
    """Make all runs, those named first beginning first.

    Args:
        activity: the activity, as in "Training".
        runs: what makes each, by its folder.
        steps: how many each takes.
    """
    if not runs:
        return
    cores = os.cpu_count() or 1
    workers = min(len(runs), cores)
    steps_before = sum(map(_last_step, runs))
    with progress.progress_counter(activity, total=steps * len(runs) - steps_before, unit="steps") as advance:
        reported_steps = steps_before

        def update_progress() -> None:
            nonlocal reported_steps
            now = max(reported_steps, sum(map(_last_step, runs)))
            advance(now - reported_steps)
            reported_steps = now

        advice = "it goes on where it was with the same command"
        finished = run_in_processes(
            _call,
            runs.values(),
            workers,
            initializer=torch.set_num_threads,
            initargs=(cores // workers,),
            on_poll=update_progress,
            advice=advice,
        )
        for _ in finished:
            update_progress()


def _call(run: RunFunction) -> None:
    run()


def _last_step(run: Path) -> int:
    """Return how far a run is, as far as it has been written down."""
    if not (run / METRICS_FILE).exists():
        return 0
    return int(next((line["step"] for line in reversed(read_last_metrics(run)) if "step" in line), 0))

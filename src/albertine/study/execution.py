"""Runs the jobs of a study: side by side where that is faster, otherwise one after another."""

from collections.abc import Callable, Mapping
from pathlib import Path

from albertine import progress
from albertine.device import choose_device
from albertine.train.parallel_runs import is_faster_in_parallel, run_in_parallel


def execute(activity: str, jobs: Mapping[Path, Callable[[], object]], steps: int, widest: int) -> None:
    """Run jobs.

    Args:
        activity: what the jobs do, for the progress line.
        jobs: functions by the folder of the run whose progress is shown.
        steps: steps of all jobs together.
        widest: hidden size of the widest model.
    """
    if are_parallel(widest):
        run_in_parallel(activity, jobs, steps)
        return
    for number, job in enumerate(jobs.values(), start=1):
        progress.print_message(f"{activity}: {number} of {len(jobs)}")
        job()


def are_parallel(widest: int) -> bool:
    """Return whether jobs run side by side."""
    return is_faster_in_parallel(choose_device("auto"), widest)

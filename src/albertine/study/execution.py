"""Runs the jobs of a study: in parallel on this machine, on a cluster, or one after another."""

from collections.abc import Callable, Mapping
from pathlib import Path

from albertine import progress
from albertine.device import choose_device
from albertine.executors.executor import Executor
from albertine.train.parallel_runs import (
    StepCounter,
    is_faster_in_parallel,
    run_in_parallel,
    run_on_cluster,
)

Job = Callable[[], object]


def execute(
    activity: str,
    jobs: Mapping[Path, Job],
    steps: int,
    widest: int,
    executor: Executor | None = None,
    steps_of: StepCounter | None = None,
    *,
    are_timed: bool = False,
) -> None:
    """Run jobs.

    Args:
        activity: what the jobs do, for the progress line.
        jobs: functions by the folder of the run whose progress is shown.
        steps: steps of all jobs together.
        widest: hidden size of the widest model.
        executor: a cluster; None for this machine.
        steps_of: returns the finished steps of the job of a folder; None to read the metrics log there.
        are_timed: whether their times count, so that they do not share a GPU; on a CPU each has its own core.
    """
    device = choose_device("auto")
    has_own_cores = device.type == "cpu"
    if are_parallel(widest) and (has_own_cores or (executor is None and not are_timed)):
        run_in_parallel(activity, jobs, steps, device, executor, steps_of)
        return
    if executor is not None:
        run_on_cluster(activity, _call, jobs, steps, executor, device, steps_of)
        return
    for number, job in enumerate(jobs.values(), start=1):
        progress.print_message(f"{activity}: {number} of {len(jobs)}")
        job()


def _call(job: Job) -> None:
    job()


def are_parallel(widest: int) -> bool:
    """Return whether jobs run in parallel on this machine."""
    return is_faster_in_parallel(choose_device("auto"), widest)

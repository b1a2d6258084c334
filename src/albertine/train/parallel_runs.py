"""Training runs in parallel worker processes.

Narrow models are no faster on several cores, and on a GPU one run waits for Python most of the time.

The processes print nothing. The progress line counts finished steps, by default from the metrics logs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch

from albertine import progress
from albertine.executors.executor import Executor, JobT, ResultT
from albertine.executors.process_pool import ProcessPool
from albertine.processes import num_cores
from albertine.train.metrics_log import METRICS_FILE, read_last_metrics

_MIN_WIDTH_FOR_WHOLE_DEVICE = 768  # narrower models leave cores, or a GPU, idle
_MAX_WORKERS = 8  # each takes half a gigabyte of memory in addition to its model
_GPU_BYTES_PER_WORKER = 6 * 2**30
_GPU_FRACTION = 0.75  # of the memory, for tensors; the rest is for the libraries of each process

StepCounter = Callable[[Path], int]


def is_faster_in_parallel(device: torch.device, hidden_size: int) -> bool:
    """Return whether runs of models of a width are faster in parallel than one after another."""
    return device.type in ("cpu", "cuda") and hidden_size < _MIN_WIDTH_FOR_WHOLE_DEVICE


def worker_count(runs: int, device: torch.device) -> int:
    """Return the number of worker processes for a number of runs."""
    workers = min(runs, num_cores(), _MAX_WORKERS)
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(device).total_memory
        workers = min(workers, max(1, memory // _GPU_BYTES_PER_WORKER))
    return workers


def run_in_parallel(
    activity: str,
    runs: Mapping[Path, Callable[[], ResultT]],
    total_steps: int | None,
    device: torch.device,
    executor: Executor | None = None,
    steps_of: StepCounter | None = None,
) -> list[ResultT]:
    """Return the results of all functions, called in parallel; they start in order.

    Args:
        activity: The activity named in the progress line, such as "Training".
        runs: The function of each run, by the run's folder.
        total_steps: Number of steps of all runs together; None if it is not known.
        device: Device of all runs.
        executor: Where they run; None for processes of this machine.
        steps_of: Returns the finished steps of the run in a folder; None to read its metrics log.
    """
    if not runs:
        return []
    assert executor is None or device.type == "cpu"  # a cluster assigns whole GPUs: see `run_on_cluster`
    # The threads and the memory of a worker must not depend on the number of runs: the weights depend on the
    # number of threads, and on the size of micro-batches, which follows from the memory.
    threads = max(1, num_cores() // _MAX_WORKERS)
    most_workers = worker_count(_MAX_WORKERS, device)
    is_gpu_shared = device.type == "cuda" and most_workers > 1
    gpu_fraction = _GPU_FRACTION / most_workers if is_gpu_shared else None
    workers = _Workers(executor or ProcessPool(worker_count(len(runs), device)), threads, gpu_fraction)
    return _run(activity, _call, runs, total_steps, workers, steps_of)


def run_on_cluster(
    activity: str,
    function: Callable[[JobT], ResultT],
    jobs: Mapping[Path, JobT],
    total_steps: int,
    executor: Executor,
    device: torch.device,
    steps_of: StepCounter | None = None,
) -> list[ResultT]:
    """Return the results of runs on a cluster, each with as many threads as in this process.

    Args:
        activity: The activity named in the progress line.
        function: Called with the job of each run.
        jobs: The job of each run, by the run's folder.
        total_steps: Number of steps of all runs together.
        executor: The cluster.
        device: Device of a run.
        steps_of: Returns the finished steps of the run in a folder; None to read its metrics log.
    """
    workers = _Workers(executor, torch.get_num_threads(), gpus=int(device.type == "cuda"))
    return _run(activity, function, jobs, total_steps, workers, steps_of)


@dataclass(frozen=True)
class _Workers:
    """The processes that run the jobs.

    Attributes:
        executor: starts them.
        threads: threads of each.
        gpu_fraction: fraction of the GPU's memory that each may use; None for no limit.
        gpus: number of GPUs that a cluster assigns to each.
    """

    executor: Executor
    threads: int
    gpu_fraction: float | None = None
    gpus: int = 0


def _initialize(threads: int, gpu_fraction: float | None) -> None:
    """Set the number of threads of a process, and the fraction of the GPU's memory that it may use."""
    torch.set_num_threads(threads)
    if gpu_fraction is not None:
        torch.cuda.set_per_process_memory_fraction(gpu_fraction)


def _run(
    activity: str,
    function: Callable[[JobT], ResultT],
    jobs: Mapping[Path, JobT],
    total_steps: int | None,
    workers: _Workers,
    steps_of: StepCounter | None,
) -> list[ResultT]:
    """Return the results of runs, in the order of their jobs; show their progress."""
    if not jobs:
        return []
    steps_of = steps_of or last_step
    steps_before = sum(map(steps_of, jobs))
    remaining_steps = None if total_steps is None else total_steps - steps_before
    with progress.progress_counter(activity, total=remaining_steps, unit="steps") as advance:
        reported_steps = steps_before

        def update_progress() -> None:
            nonlocal reported_steps
            steps_now = max(reported_steps, sum(map(steps_of, jobs)))
            advance(steps_now - reported_steps)
            reported_steps = steps_now

        finished = workers.executor.run(
            partial(_run_one, function),
            jobs.items(),
            initializer=partial(_initialize, workers.threads, workers.gpu_fraction),
            on_poll=update_progress,
            cores=workers.threads,
            gpus=workers.gpus,
            advice="run the same command again to resume",
        )
        results = {}
        for (run, _), result in finished:
            results[run] = result
            update_progress()
    return [results[run] for run in jobs]


def _run_one(function: Callable[[JobT], ResultT], job: tuple[Path, JobT]) -> ResultT:
    return function(job[1])


def _call(run: Callable[[], ResultT]) -> ResultT:
    return run()


def last_step(run: Path) -> int:
    """Return the last step in the metrics log of a run, or 0."""
    if not (run / METRICS_FILE).exists():
        return 0
    return int(next((line["step"] for line in reversed(read_last_metrics(run)) if "step" in line), 0))

"""A pool of worker processes that never outlives the process that started it.

A worker exits when its parent does, even if the parent was killed.
"""

import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Callable, Collection, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.synchronize import Event
from typing import Any

from albertine import progress
from albertine.errors import WorkError
from albertine.executors.executor import POLL_SECONDS, JobT, ResultT, run_window
from albertine.processes import block_signals

# In a worker: whether its pool is stopping, and what to call before the first job.
_stop_requested: Event | None = None
_initializer: Callable[[], None] | None = None


class ProcessPool:
    """Runs jobs in processes of this machine; see `Executor`."""

    def __init__(self, workers: int):
        self._workers = workers

    def run(
        self,
        function: Callable[[JobT], ResultT],
        jobs: Iterable[JobT],
        *,
        initializer: Callable[..., None] | None = None,
        initargs: tuple[Any, ...] = (),
        on_poll: Callable[[], None] | None = None,
        in_order: bool = False,
        cores: int = 1,  # noqa: ARG002  # the caller chooses the number of workers
        gpus: int = 0,  # noqa: ARG002  # all workers see all GPUs
        advice: str,
    ) -> Generator[tuple[JobT, ResultT], None, None]:
        """Yield each job with its result; see `Executor.run`."""
        context = multiprocessing.get_context("spawn")
        stop_requested = context.Event()
        worker_arguments = (stop_requested, initializer, initargs)
        pool = ProcessPoolExecutor(self._workers, context, _initialize_worker, worker_arguments)

        def submit(job: JobT) -> Future[ResultT]:
            with block_signals(signal.SIGINT):  # `submit` starts workers, which must not get Ctrl-C
                return pool.submit(_run_job, function, job)

        def wait_for(futures: Collection[Future[ResultT]]) -> Collection[Future[ResultT]]:
            done, _ = wait(futures, POLL_SECONDS if on_poll else None, FIRST_COMPLETED)
            if on_poll:
                on_poll()
            return done

        try:
            finished = run_window(jobs, submit, wait_for, lambda: 2 * self._workers, in_order=in_order)
            for job, future in finished:
                yield job, future.result()
            pool.shutdown()
        except BaseException as error:
            stop_requested.set()
            for process in list((pool._processes or {}).values()):  # other children may not be ours
                process.terminate()
            # Waits for the pool's thread, which would otherwise race with the cleanup at Python's exit.
            pool.shutdown(cancel_futures=True)
            if isinstance(error, BrokenProcessPool):
                raise WorkError(f"a worker process died, probably for lack of memory; {advice}") from None
            raise


def _initialize_worker(
    stop_requested: Event, initializer: Callable[..., None] | None, initargs: tuple[Any, ...]
) -> None:
    global _stop_requested, _initializer
    _stop_requested = stop_requested
    # A job calls it, because an error in a worker's start would break the pool without its message.
    _initializer = None if initializer is None else partial(initializer, *initargs)
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    progress.set_quiet(True)


def _run_job(function: Callable[[JobT], ResultT], job: JobT) -> ResultT:
    """Run a job in a worker, unless its pool is stopping; a worker outlives a job that handles SIGTERM."""
    global _initializer
    if _stop_requested is not None and _stop_requested.is_set():
        raise WorkError("the command was stopped before this job")
    try:
        if _initializer is not None:
            _initializer()
            _initializer = None
        return function(job)
    except Exception as error:
        if not _can_be_pickled(error):  # the pool would break when it reads the error
            raise RuntimeError(f"{type(error).__name__}: {error}") from error
        raise


def _can_be_pickled(error: Exception) -> bool:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True


def _exit_with_parent() -> None:
    """Wait for the parent process to end, then exit."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

"""A pool of worker processes that never outlives the process that started it.

Jobs are submitted a few at a time, so their iterable may be of any length. A worker
exits when its parent does, even if the parent was killed.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from typing import Any, TypeVar

from albertine import progress
from albertine.errors import WorkError

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

_POLL_SECONDS = 0.5  # between two calls of `on_poll`
_stop_requested: Event | None = None  # in a worker: whether its pool is stopping


def run_in_processes(
    function: Callable[[JobT], ResultT],
    jobs: Iterable[JobT],
    workers: int,
    *,
    initializer: Callable[..., None] | None = None,
    initargs: tuple[Any, ...] = (),
    on_poll: Callable[[], None] | None = None,
    advice: str,
) -> Iterator[tuple[JobT, ResultT]]:
    """Yield each job with its result, in order of completion.

    Args:
        function: called in a worker with one job.
        jobs: arguments of `function`, one for each call.
        workers: number of processes.
        initializer: called once in each worker before its first job.
        initargs: arguments of `initializer`.
        on_poll: called in this process about twice a second while workers run.
        advice: what the user can try if a worker dies; the end of the error message.
    """
    context = multiprocessing.get_context("spawn")
    stop_requested = context.Event()
    worker_arguments = (stop_requested, initializer, initargs)
    pool = ProcessPoolExecutor(workers, context, _initialize_worker, worker_arguments)
    remaining_jobs = iter(jobs)
    running: dict[Future[ResultT], JobT] = {}
    try:
        while True:
            for job in remaining_jobs:
                with block_signals(signal.SIGINT):  # `submit` starts workers, which must not get Ctrl-C
                    running[pool.submit(_run_job, function, job)] = job
                if len(running) >= 2 * workers:
                    break
            if not running:
                break
            done, _ = wait(running, _POLL_SECONDS if on_poll else None, FIRST_COMPLETED)
            if on_poll:
                on_poll()
            for future in done:
                yield running.pop(future), future.result()
        pool.shutdown()
    except BaseException as error:
        stop_requested.set()
        for process in multiprocessing.active_children():
            process.terminate()
        # Waits for the pool's thread, which would otherwise race with the cleanup at Python's exit.
        pool.shutdown(cancel_futures=True)
        if isinstance(error, BrokenProcessPool):
            raise WorkError(f"a worker process died, probably for lack of memory; {advice}") from None
        raise


@contextmanager
def block_signals(*signals: signal.Signals) -> Iterator[None]:
    """Delay signals while the `with` block runs; processes that are started in it never receive them.

    In the main thread, SIGINT and SIGTERM are always delayed, because a worker whose start is interrupted
    would print a traceback. Another thread may receive them, but Python handles them in the main thread.
    """
    received: list[int] = []
    handlers = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            if callable(signal.getsignal(number)):
                handlers[number] = signal.signal(number, lambda number, _: received.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)  # new processes inherit the mask
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # signals that the caller blocked stay blocked
        for number, handler in handlers.items():
            signal.signal(number, handler)
        for received_number in dict.fromkeys(received):
            signal.raise_signal(received_number)


def _initialize_worker(
    stop_requested: Event, initializer: Callable[..., None] | None, initargs: tuple[Any, ...]
) -> None:
    global _stop_requested
    _stop_requested = stop_requested
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    progress.set_quiet(True)
    if initializer is not None:
        initializer(*initargs)


def _run_job(function: Callable[[JobT], ResultT], job: JobT) -> ResultT:
    """Run a job in a worker, unless its pool is stopping; a worker outlives a job that handles SIGTERM."""
    if _stop_requested is not None and _stop_requested.is_set():
        raise WorkError("the command was stopped before this job")
    return function(job)


def _exit_with_parent() -> None:
    """Wait for the parent process to end, then exit."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

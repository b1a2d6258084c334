"""Work shared out among processes that end when it does, however it ends.

Jobs go out a few at a time, so a list of them may be as long as it likes. A worker
ends with the process that started it, even if that one was killed.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

from albertine import progress
from albertine.errors import WorkError

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")

_POLL_SECONDS = 0.5  # seconds between two looks at what is under way


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
    """Yield jobs and their results as they get done, in no order.

    Args:
        function: does a job, in a worker.
        jobs: what there is to do.
        workers: how many processes.
        initializer: what a worker begins with.
        initargs: what `initializer` is called with.
        on_poll: what to call now and then while they work.
        advice: what a person may do if a process dies.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _initialize_worker, (initializer, initargs))
    remaining_jobs = iter(jobs)
    running: dict[Future[ResultT], JobT] = {}
    try:
        while True:
            for job in remaining_jobs:
                with block_signals(signal.SIGINT):
                    running[pool.submit(function, job)] = job
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
        pool.shutdown(wait=False, cancel_futures=True)
        for process in multiprocessing.active_children():
            process.terminate()
        pool.shutdown()
        if isinstance(error, BrokenProcessPool):
            raise WorkError(f"a process died; was there memory enough? {advice}") from None
        raise


@contextmanager
def block_signals(*signals: signal.Signals) -> Iterator[None]:
    """Put off signals; a process started meanwhile never gets any: they are the parent's to handle."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # it may itself be a process that gets none


def _initialize_worker(initializer: Callable[..., None] | None, initargs: tuple[Any, ...]) -> None:
    threading.Thread(target=_exit_with_parent, daemon=True).start()
    progress.set_quiet(True)
    if initializer is not None:
        initializer(*initargs)


def _exit_with_parent() -> None:
    """End this process when the one that started it is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

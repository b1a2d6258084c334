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

Job = TypeVar("Job")
Result = TypeVar("Result")

_GLANCE = 0.5  # seconds between two looks at what is under way


def in_processes(
    work: Callable[[Job], Result],
    jobs: Iterable[Job],
    workers: int,
    *,
    start: Callable[..., None] | None = None,
    given: tuple[Any, ...] = (),
    watch: Callable[[], None] | None = None,
    advice: str,
) -> Iterator[tuple[Job, Result]]:
    """Yield jobs and their results as they get done, in no order.

    Args:
        work: does a job, in a worker.
        jobs: what there is to do.
        workers: how many processes.
        start: what a worker begins with.
        given: what `start` is called with.
        watch: what to call now and then while they work.
        advice: what a person may do if a process dies.
    """
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(workers, context, _start, (start, given))
    waiting = iter(jobs)
    running: dict[Future[Result], Job] = {}
    try:
        while True:
            for job in waiting:
                with holding(signal.SIGINT):
                    running[pool.submit(work, job)] = job
                if len(running) >= 2 * workers:
                    break
            if not running:
                break
            done, _ = wait(running, _GLANCE if watch else None, FIRST_COMPLETED)
            if watch:
                watch()
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
def holding(*signals: signal.Signals) -> Iterator[None]:
    """Put off signals; a process started meanwhile never gets any: they are the parent's to handle."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)  # it may itself be a process that gets none


def _start(start: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    threading.Thread(target=_end_with_parent, daemon=True).start()
    progress.be_quiet(True)
    if start is not None:
        start(*given)


def _end_with_parent() -> None:
    """End this process when the one that started it is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)

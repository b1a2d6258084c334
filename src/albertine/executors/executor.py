"""The interface of executors, and the order in which they submit jobs and yield results."""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from itertools import islice, takewhile
from typing import Any, Protocol, TypeVar

JobT = TypeVar("JobT")
ResultT = TypeVar("ResultT")
HandleT = TypeVar("HandleT", bound=Hashable)

POLL_SECONDS = 0.5  # between two calls of `on_poll`


class Executor(Protocol):
    """Runs the jobs of a command in other processes."""

    def run(
        self,
        function: Callable[[JobT], ResultT],
        jobs: Iterable[JobT],
        *,
        initializer: Callable[..., None] | None = None,
        initargs: tuple[Any, ...] = (),
        on_poll: Callable[[], None] | None = None,
        in_order: bool = False,
        cores: int = 1,
        gpus: int = 0,
        advice: str,
    ) -> Iterator[tuple[JobT, ResultT]]:
        """Yield each job with its result.

        The jobs may be any number, because few of them are submitted at a time. If the caller stops early,
        the jobs that run are stopped too.

        Args:
            function: called in a worker with one job.
            jobs: arguments of `function`, one for each call.
            initializer: called once in each worker before its first job.
            initargs: arguments of `initializer`.
            on_poll: called in this process about twice a second while workers run.
            in_order: yield the results in the order of the jobs; by default, in that in which they finish.
            cores: threads of a job.
            gpus: GPUs of a job.
            advice: what the user can try if a worker dies; the end of the error message.
        """


def run_window(
    jobs: Iterable[JobT],
    submit: Callable[[JobT], HandleT],
    wait: Callable[[Collection[HandleT]], Collection[HandleT]],
    max_pending: Callable[[], int],
    *,
    in_order: bool,
) -> Iterator[tuple[JobT, HandleT]]:
    """Yield each job with the handle of its finished work.

    Args:
        jobs: the jobs.
        submit: starts the work on a job and returns its handle.
        wait: returns those of some handles whose work is finished; it may return none.
        max_pending: returns how many jobs may be submitted and not yielded yet; one always may.
        in_order: yield in the order of the jobs; else, in that in which they finish.
    """
    remaining = iter(jobs)
    pending: dict[HandleT, JobT] = {}  # in the order of the jobs
    finished: set[HandleT] = set()
    while True:
        limit = max(1, max_pending())  # else no job would be pending, as if all had finished
        for job in islice(remaining, max(0, limit - len(pending))):
            pending[submit(job)] = job
        if not pending:
            return
        finished.update(wait([handle for handle in pending if handle not in finished]))
        ready = list(takewhile(finished.__contains__, pending)) if in_order else list(finished)
        for handle in ready:
            finished.remove(handle)
            yield pending.pop(handle), handle

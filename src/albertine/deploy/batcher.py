"""The desk: questions of many callers, answered together.

While the network computes, questions gather; when it is free it takes those that wait,
as many as make a good pass. So nobody waits for a batch to fill, a single caller is
answered at once, and the more ask at a time the more each pass of the network does. Who
has left is not answered.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeAlias

from albertine.errors import AlbertineError

BatchInput: TypeAlias = Any
BatchOutput: TypeAlias = Any

# Of one pass: few enough that nobody waits for long behind others, enough for its strips to be full.
MAX_BATCH_ITEMS, MAX_BATCH_CHARACTERS = 1_024, 64_000
# That may wait.
MAX_QUEUED_ITEMS, MAX_QUEUED_CHARACTERS = 8_192, 16_000_000


class ServerBusy(AlbertineError):  # noqa: N818  # it is no error of anybody's
    """So much waits that another question could not be answered in good time."""


@dataclass(frozen=True)
class _QueuedItem:
    """A question that waits."""

    item: BatchInput
    size: int
    future: asyncio.Future[BatchOutput]


@dataclass(frozen=True)
class _FailedItem:
    """What came in place of an answer."""

    error: Exception


class RequestBatcher:
    """Takes questions from any number of callers of one loop.

    Attributes:
        num_answered: how many answers were given.
    """

    def __init__(
        self, process_batch: Callable[[Sequence[BatchInput]], Sequence[BatchOutput]], executor: Executor
    ):
        """Open a desk.

        Args:
            process_batch: answers questions in order, several at a time.
            executor: does the work, one pass at a time.
        """
        self.num_answered = 0
        self._process_batch, self._executor = process_batch, executor
        self._queue: deque[_QueuedItem] = deque()
        self._queued_characters = 0
        self._has_items = asyncio.Event()

    async def submit(self, items: Sequence[tuple[BatchInput, int]]) -> list[BatchOutput]:
        """Return the answers to questions, each with its size, in order; a failure among them is raised."""
        size = sum(size for _, size in items)
        if (
            len(self._queue) + len(items) > MAX_QUEUED_ITEMS
            or self._queued_characters + size > MAX_QUEUED_CHARACTERS
        ):
            raise ServerBusy(f"{len(self._queue):,} questions wait already; ask again later")
        loop = asyncio.get_running_loop()
        queued = [_QueuedItem(one, its_size, loop.create_future()) for one, its_size in items]
        self._queue.extend(queued)
        self._queued_characters += size
        self._has_items.set()
        results = await asyncio.gather(*(one.future for one in queued), return_exceptions=True)
        for one in results:
            if isinstance(one, BaseException):
                raise one
        return results

    async def run(self) -> None:
        """Answer what comes, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._has_items.wait()
            self._has_items.clear()
            while batch := self._next_batch():
                items = [queued.item for queued in batch]
                results = await loop.run_in_executor(self._executor, self._process_isolated, items)
                for queued, answer in zip(batch, results, strict=True):
                    self._deliver(queued, answer)

    def _next_batch(self) -> list[_QueuedItem]:
        """Take what makes a good pass; those whose callers have left fall away."""
        batch: list[_QueuedItem] = []
        size = 0
        while self._queue and len(batch) < MAX_BATCH_ITEMS and (not batch or size < MAX_BATCH_CHARACTERS):
            queued = self._queue.popleft()
            self._queued_characters -= queued.size
            if not queued.future.done():
                batch.append(queued)
                size += queued.size
        return batch

    def _deliver(self, queued: _QueuedItem, result: BatchOutput | _FailedItem) -> None:
        if queued.future.done():  # the caller has left
            return
        if isinstance(result, _FailedItem):
            queued.future.set_exception(result.error)
        else:
            self.num_answered += 1
            queued.future.set_result(result)

    def _process_isolated(self, items: Sequence[BatchInput]) -> Sequence[BatchOutput | _FailedItem]:
        """Answer questions together; where that fails, one by one, so that one spoils no other."""
        try:
            results = list(self._process_batch(items))
            if len(results) != len(items):
                raise RuntimeError(f"{len(results)} answers to {len(items)} questions")
            return results
        # A panic of a library in Rust is no Exception, and must not end the work either.
        except BaseException as error:
            if len(items) == 1:
                return [_FailedItem(_as_exception(error))]
        return [self._process_isolated([one])[0] for one in items]


def _as_exception(error: BaseException) -> Exception:
    """Return an exception that may stand for an answer."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")

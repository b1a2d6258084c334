"""Dynamic batching: the items of several clients are computed together.

While the model computes a batch, new items are queued. When it is free, it takes the queued
items, up to a maximum batch size. No item waits for a batch to fill, so a single client is
answered at once; under load batches grow. Items of disconnected clients are dropped.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

from albertine.errors import AlbertineError

BatchInput: TypeAlias = Any
BatchOutput: TypeAlias = Any
BatchFunction: TypeAlias = Callable[[Sequence[BatchInput]], Sequence[BatchOutput]]

# Limits of a batch: large enough to use the hardware, small enough for short waiting times.
MAX_BATCH_ITEMS, MAX_BATCH_CHARACTERS = 1_024, 64_000
# Limits of the queue.
MAX_QUEUED_ITEMS, MAX_QUEUED_CHARACTERS = 8_192, 16_000_000


class ServerBusy(AlbertineError):  # noqa: N818  # not an error of the client or the server
    """The queue is full; a new item would wait too long."""


class ItemResult(NamedTuple):
    """What the batch functions of a server return for each item.

    Attributes:
        output: what the client gets, before it becomes JSON.
        num_tokens: number of tokens that the model read.
        depth: mean number of steps of depth that it took; None without an exit rule.
    """

    output: Any
    num_tokens: int
    depth: float | None = None


class BatchMetrics(Protocol):
    """What a batcher reports."""

    def queue_changed(self, num_items: int) -> None:
        """Note the length of the queue."""

    def batch_done(self, results: Sequence[Any], num_answered: int) -> None:
        """Note a batch and how many of its items got a result."""


@dataclass(frozen=True)
class _QueuedItem:
    """An item in the queue, with its size in characters and the future that gets its result."""

    item: BatchInput
    size: int
    future: asyncio.Future[BatchOutput]


@dataclass(frozen=True)
class _FailedItem:
    """The error of an item, in place of a result."""

    error: Exception


class RequestBatcher:
    """Collects the items of all clients of an event loop into batches.

    Attributes:
        num_answered: number of items that got a result.
    """

    def __init__(self, process_batch: BatchFunction, executor: Executor, metrics: BatchMetrics | None = None):
        """Store the function that computes batches, and the executor that runs it.

        Args:
            process_batch: returns one result per item, in order.
            executor: runs one batch at a time.
            metrics: gets the sizes of queue and batches; None for nothing.
        """
        self.num_answered = 0
        self._metrics = metrics
        self._process_batch, self._executor = process_batch, executor
        self._queue: deque[_QueuedItem] = deque()
        self._queued_characters = 0
        self._has_items = asyncio.Event()

    async def submit(self, items: Sequence[tuple[BatchInput, int]]) -> list[BatchOutput]:
        """Return the results of (item, size in characters) pairs; raise the first error among them."""
        total_size = sum(size for _, size in items)
        if (
            len(self._queue) + len(items) > MAX_QUEUED_ITEMS
            or self._queued_characters + total_size > MAX_QUEUED_CHARACTERS
        ):
            raise ServerBusy(f"the queue is full with {len(self._queue):,} items; retry later")
        loop = asyncio.get_running_loop()
        queued_items = [_QueuedItem(item, size, loop.create_future()) for item, size in items]
        self._queue.extend(queued_items)
        self._queued_characters += total_size
        self._has_items.set()
        self._report_queue()
        results = await asyncio.gather(*(queued.future for queued in queued_items), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results

    async def run(self) -> None:
        """Process queued items until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._has_items.wait()
            self._has_items.clear()
            while batch := self._next_batch():
                items = [queued.item for queued in batch]
                results = await loop.run_in_executor(self._executor, self._process_isolated, items)
                answered_before = self.num_answered
                for queued, result in zip(batch, results, strict=True):
                    self._deliver(queued, result)
                if self._metrics is not None:
                    self._metrics.batch_done(results, self.num_answered - answered_before)

    def _report_queue(self) -> None:
        if self._metrics is not None:
            self._metrics.queue_changed(len(self._queue))

    def _next_batch(self) -> list[_QueuedItem]:
        """Take the next batch from the queue; drop items of disconnected clients."""
        batch: list[_QueuedItem] = []
        batch_characters = 0
        while (
            self._queue
            and len(batch) < MAX_BATCH_ITEMS
            and (not batch or batch_characters < MAX_BATCH_CHARACTERS)
        ):
            queued = self._queue.popleft()
            self._queued_characters -= queued.size
            if not queued.future.done():
                batch.append(queued)
                batch_characters += queued.size
        self._report_queue()
        return batch

    def _deliver(self, queued: _QueuedItem, result: BatchOutput | _FailedItem) -> None:
        """Set the result or the error of an item."""
        if queued.future.done():  # the client has disconnected
            return
        if isinstance(result, _FailedItem):
            queued.future.set_exception(result.error)
        else:
            self.num_answered += 1
            queued.future.set_result(result)

    def _process_isolated(self, items: Sequence[BatchInput]) -> Sequence[BatchOutput | _FailedItem]:
        """Compute a batch; if it fails, compute its items one by one to isolate the failure."""
        try:
            results = list(self._process_batch(items))
            if len(results) != len(items):
                raise RuntimeError(f"{len(results)} results for {len(items)} items")
            return results
        # BaseException, because a panic in a Rust library is one, and must not stop the batcher either.
        except BaseException as error:
            if len(items) == 1:
                return [_FailedItem(_as_exception(error))]
        return [self._process_isolated([item])[0] for item in items]


def _as_exception(error: BaseException) -> Exception:
    """Return an error as an exception that a future accepts."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")

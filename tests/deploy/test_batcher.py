"""Tests of batching: queued items form batches, limits hold, and failures stay isolated."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from albertine.deploy import batcher
from albertine.deploy.batcher import RequestBatcher, ServerBusy
from albertine.errors import InputError


def run_with_batcher(
    process_batch: Callable[[Sequence[Any]], Sequence[Any]],
    scenario: Callable[[RequestBatcher], Awaitable[Any]],
) -> Any:
    """Return the result of a scenario, which is called with a running batcher."""

    async def run_scenario() -> Any:
        with ThreadPoolExecutor(1) as executor:
            request_batcher = RequestBatcher(process_batch, executor)
            task = asyncio.create_task(request_batcher.run())
            result = await scenario(request_batcher)
            task.cancel()
            return result

    return asyncio.run(asyncio.wait_for(run_scenario(), 60))


def test_items_queued_during_a_batch_form_the_next_batch() -> None:
    batches: list[list[int]] = []
    release = threading.Event()

    def doubled(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        assert release.wait(30)
        return [2 * item for item in items]

    async def scenario(request_batcher: RequestBatcher) -> list[list[int]]:
        first = asyncio.create_task(request_batcher.submit([(0, 1)]))
        while not batches:
            await asyncio.sleep(0.001)
        rest = [
            asyncio.create_task(request_batcher.submit([(number, 1), (-number, 1)]))
            for number in range(1, 40)
        ]
        await asyncio.sleep(0)
        release.set()
        return await asyncio.gather(first, *rest)

    results = run_with_batcher(doubled, scenario)
    assert results == [[0], *([2 * number, -2 * number] for number in range(1, 40))]
    assert [len(batch) for batch in batches] == [1, 78]


def test_a_batch_has_a_maximum_number_of_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "MAX_BATCH_ITEMS", 10)
    sizes: list[int] = []

    def recording(items: Sequence[int]) -> Sequence[int]:
        sizes.append(len(items))
        return items

    items = [(number, 1) for number in range(25)]
    assert run_with_batcher(recording, lambda request_batcher: request_batcher.submit(items)) == list(
        range(25)
    )
    assert sizes == [10, 10, 5]


def test_a_failing_item_does_not_affect_others() -> None:
    def failing(items: Sequence[int]) -> list[int]:
        if 3 in items:
            raise InputError("three")
        return list(items)

    async def scenario(request_batcher: RequestBatcher) -> list[Any]:
        return await asyncio.gather(
            *(request_batcher.submit([(number, 1)]) for number in range(6)), return_exceptions=True
        )

    results = run_with_batcher(failing, scenario)
    assert [result for result in results if not isinstance(result, Exception)] == [[0], [1], [2], [4], [5]]
    assert isinstance(results[3], InputError)


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(), MemoryError("much")])
def test_the_batcher_survives_any_error(error: BaseException) -> None:
    def failing(items: Sequence[int]) -> list[int]:
        if 1 in items:
            raise error
        return list(items[1:]) if 2 in items else list(items)  # one result is missing

    async def scenario(request_batcher: RequestBatcher) -> list[Any]:
        concurrent = (
            request_batcher.submit([(0, 1)]),
            request_batcher.submit([(1, 1)]),
            request_batcher.submit([(2, 1)]),
        )
        return [
            *await asyncio.gather(*concurrent, return_exceptions=True),
            await request_batcher.submit([(3, 1)]),
        ]

    first, raised, wrong_count, last = run_with_batcher(failing, scenario)
    assert (first, last) == ([0], [3])
    assert type(error).__name__ in repr(raised)
    assert "0 results for 1 items" in str(wrong_count)


def test_cancelled_items_are_not_processed() -> None:
    processed: list[int] = []
    release = threading.Event()

    def recording(items: Sequence[int]) -> Sequence[int]:
        processed.extend(items)
        assert release.wait(30)
        return items

    async def scenario(request_batcher: RequestBatcher) -> list[int]:
        tasks = [asyncio.create_task(request_batcher.submit([(number, 1)])) for number in range(3)]
        while not processed:
            await asyncio.sleep(0.001)
        tasks[0].cancel()  # in the current batch
        later = [asyncio.create_task(request_batcher.submit([(number, 1)])) for number in range(3, 6)]
        await asyncio.sleep(0)
        later[1].cancel()  # in the queue
        await asyncio.sleep(0)
        release.set()
        results = await asyncio.gather(*tasks, *later, return_exceptions=True)
        assert request_batcher.num_answered == 4
        return [value for values in results if isinstance(values, list) for value in values]

    assert run_with_batcher(recording, scenario) == [1, 2, 3, 5]
    assert processed == [0, 1, 2, 3, 5]


def test_a_batch_has_a_maximum_number_of_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "MAX_BATCH_CHARACTERS", 100)
    batches: list[list[int]] = []

    def recording(items: Sequence[int]) -> Sequence[int]:
        batches.append(list(items))
        return items

    async def scenario(request_batcher: RequestBatcher) -> Sequence[list[int]]:
        return await asyncio.gather(
            request_batcher.submit([(1, 500)]),
            request_batcher.submit([(2, 40), (3, 40)]),
            request_batcher.submit([(4, 40), (5, 40)]),
        )

    assert list(run_with_batcher(recording, scenario)) == [[1], [2, 3], [4, 5]]
    assert batches == [[1], [2, 3, 4], [5]]


def test_a_full_queue_refuses_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "MAX_QUEUED_ITEMS", 3)

    async def scenario(request_batcher: RequestBatcher) -> Sequence[Any]:
        return await asyncio.gather(
            request_batcher.submit([(1, 1), (2, 1)]),
            request_batcher.submit([(3, 1), (4, 1)]),
            request_batcher.submit([(5, 1)]),
            return_exceptions=True,
        )

    first, second, third = run_with_batcher(list, scenario)
    assert (first, third) == ([1, 2], [5])
    assert isinstance(second, ServerBusy)


def test_queued_characters_are_limited_and_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "MAX_QUEUED_CHARACTERS", 100)

    async def scenario(request_batcher: RequestBatcher) -> list[Any]:
        before = await asyncio.gather(
            request_batcher.submit([(1, 60)]), request_batcher.submit([(2, 60)]), return_exceptions=True
        )
        return [*before, await request_batcher.submit([(3, 60)])]

    first, second, third = run_with_batcher(list, scenario)
    assert (first, third) == ([1], [3])
    assert isinstance(second, ServerBusy)

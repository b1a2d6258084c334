"""Tests of batching: items form batches while others are computed, and failures stay isolated."""

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
    """Run a scenario with a running batcher."""

    async def run_scenario() -> Any:
        with ThreadPoolExecutor(1) as executor:
            one = RequestBatcher(process_batch, executor)
            work = asyncio.create_task(one.run())
            found = await scenario(one)
            work.cancel()
            return found

    return asyncio.run(asyncio.wait_for(run_scenario(), 60))


def test_items_queued_during_a_batch_form_the_next_batch() -> None:
    batches: list[list[int]] = []
    release = threading.Event()

    def doubled(items: Sequence[int]) -> list[int]:
        batches.append(list(items))
        assert release.wait(30)
        return [2 * one for one in items]

    async def scenario(one: RequestBatcher) -> list[list[int]]:
        first = asyncio.create_task(one.submit([(0, 1)]))
        while not batches:
            await asyncio.sleep(0.001)
        rest = [asyncio.create_task(one.submit([(number, 1), (-number, 1)])) for number in range(1, 40)]
        await asyncio.sleep(0)
        release.set()
        return await asyncio.gather(first, *rest)

    found = run_with_batcher(doubled, scenario)
    assert found == [[0], *([2 * number, -2 * number] for number in range(1, 40))]
    assert [len(one) for one in batches] == [1, 78]


def test_a_batch_has_a_maximum_number_of_items(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "MAX_BATCH_ITEMS", 10)
    sizes: list[int] = []

    def same(items: Sequence[int]) -> Sequence[int]:
        sizes.append(len(items))
        return items

    assert run_with_batcher(same, lambda one: one.submit([(number, 1) for number in range(25)])) == list(
        range(25)
    )
    assert sizes == [10, 10, 5]


def test_a_failing_item_does_not_affect_others() -> None:
    def failing(items: Sequence[int]) -> list[int]:
        if 3 in items:
            raise InputError("three")
        return list(items)

    async def scenario(one: RequestBatcher) -> list[Any]:
        return await asyncio.gather(
            *(one.submit([(number, 1)]) for number in range(6)), return_exceptions=True
        )

    found = run_with_batcher(failing, scenario)
    assert [one for one in found if not isinstance(one, Exception)] == [[0], [1], [2], [4], [5]]
    assert isinstance(found[3], InputError)


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(), MemoryError("much")])
def test_the_batcher_survives_any_error(error: BaseException) -> None:
    def failing(items: Sequence[int]) -> list[int]:
        if 1 in items:
            raise error
        return list(items[1:]) if 2 in items else list(items)

    async def scenario(one: RequestBatcher) -> list[Any]:
        together = (one.submit([(0, 1)]), one.submit([(1, 1)]), one.submit([(2, 1)]))
        return [*await asyncio.gather(*together, return_exceptions=True), await one.submit([(3, 1)])]

    first, failed, short, last = run_with_batcher(failing, scenario)
    assert (first, last) == ([0], [3])
    assert type(error).__name__ in repr(failed)
    assert "0 results for 1 items" in str(short)


def test_cancelled_items_are_not_processed() -> None:
    processed: list[int] = []
    release = threading.Event()

    def recording(items: Sequence[int]) -> Sequence[int]:
        processed.extend(items)
        assert release.wait(30)
        return items

    async def scenario(one: RequestBatcher) -> list[int]:
        tasks = [asyncio.create_task(one.submit([(number, 1)])) for number in range(3)]
        while not processed:
            await asyncio.sleep(0.001)
        tasks[0].cancel()  # in the current batch
        later = [asyncio.create_task(one.submit([(number, 1)])) for number in range(3, 6)]
        await asyncio.sleep(0)
        later[1].cancel()  # in the queue
        await asyncio.sleep(0)
        release.set()
        found = await asyncio.gather(*tasks, *later, return_exceptions=True)
        assert one.num_answered == 4
        return [answer for answers in found if isinstance(answers, list) for answer in answers]

    assert run_with_batcher(recording, scenario) == [1, 2, 3, 5]
    assert processed == [0, 1, 2, 3, 5]


def test_a_batch_has_a_maximum_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "MAX_BATCH_CHARACTERS", 100)
    batches: list[list[int]] = []

    def recording(items: Sequence[int]) -> Sequence[int]:
        batches.append(list(items))
        return items

    async def scenario(one: RequestBatcher) -> Sequence[list[int]]:
        return await asyncio.gather(
            one.submit([(1, 500)]), one.submit([(2, 40), (3, 40)]), one.submit([(4, 40), (5, 40)])
        )

    assert list(run_with_batcher(recording, scenario)) == [[1], [2, 3], [4, 5]]
    assert batches == [[1], [2, 3, 4], [5]]


def test_a_full_queue_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "MAX_QUEUED_ITEMS", 3)

    async def scenario(one: RequestBatcher) -> Sequence[Any]:
        return await asyncio.gather(
            one.submit([(1, 1), (2, 1)]),
            one.submit([(3, 1), (4, 1)]),
            one.submit([(5, 1)]),
            return_exceptions=True,
        )

    first, second, third = run_with_batcher(list, scenario)
    assert (first, third) == ([1, 2], [5])
    assert isinstance(second, ServerBusy)


def test_queued_size_is_limited_and_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batcher, "MAX_QUEUED_CHARACTERS", 100)

    async def scenario(one: RequestBatcher) -> list[Any]:
        before = await asyncio.gather(one.submit([(1, 60)]), one.submit([(2, 60)]), return_exceptions=True)
        return [*before, await one.submit([(3, 60)])]

    first, second, third = run_with_batcher(list, scenario)
    assert (first, third) == ([1], [3])
    assert isinstance(second, ServerBusy)

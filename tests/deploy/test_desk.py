"""Questions gather while others are answered; one spoils no other."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from albertine.deploy import desk
from albertine.deploy.desk import Busy, Desk
from albertine.errors import InputError


def at_a_desk(
    answered: Callable[[Sequence[Any]], Sequence[Any]], scene: Callable[[Desk], Awaitable[Any]]
) -> Any:
    """Play a scene at a desk that works."""

    async def played() -> Any:
        with ThreadPoolExecutor(1) as hand:
            one = Desk(answered, hand)
            work = asyncio.create_task(one.work())
            found = await scene(one)
            work.cancel()
            return found

    return asyncio.run(played())


def test_what_comes_while_others_are_answered_is_answered_together() -> None:
    passes: list[list[int]] = []
    go_on = threading.Event()

    def doubled(questions: Sequence[int]) -> list[int]:
        passes.append(list(questions))
        assert go_on.wait(30)
        return [2 * one for one in questions]

    async def scene(one: Desk) -> list[list[int]]:
        first = asyncio.create_task(one.ask([0]))
        while not passes:
            await asyncio.sleep(0.001)
        rest = [asyncio.create_task(one.ask([number, -number])) for number in range(1, 40)]
        await asyncio.sleep(0)
        go_on.set()
        return await asyncio.gather(first, *rest)

    found = at_a_desk(doubled, scene)
    assert found == [[0], *([2 * number, -2 * number] for number in range(1, 40))]
    assert [len(one) for one in passes] == [1, 78]


def test_a_pass_takes_no_more_than_it_should(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "TOGETHER", 10)
    sizes: list[int] = []

    def same(questions: Sequence[int]) -> Sequence[int]:
        sizes.append(len(questions))
        return questions

    assert at_a_desk(same, lambda one: one.ask(range(25))) == list(range(25))
    assert sizes == [10, 10, 5]


def test_one_that_fails_spoils_no_other() -> None:
    def careful(questions: Sequence[int]) -> list[int]:
        if 3 in questions:
            raise InputError("three")
        return list(questions)

    async def scene(one: Desk) -> list[Any]:
        return await asyncio.gather(*(one.ask([number]) for number in range(6)), return_exceptions=True)

    found = at_a_desk(careful, scene)
    assert [one for one in found if not isinstance(one, Exception)] == [[0], [1], [2], [4], [5]]
    assert isinstance(found[3], InputError)


def test_who_gave_up_holds_nobody_up() -> None:
    async def scene(one: Desk) -> list[int]:
        left = asyncio.create_task(one.ask([1]))
        await asyncio.sleep(0)
        left.cancel()
        return await one.ask([2])

    assert at_a_desk(list, scene) == [2]


def test_a_queue_that_is_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "WAITING", 3)

    async def scene(one: Desk) -> Sequence[Any]:
        return await asyncio.gather(one.ask([1, 2]), one.ask([3, 4]), one.ask([5]), return_exceptions=True)

    first, second, third = at_a_desk(list, scene)
    assert (first, third) == ([1, 2], [5])
    assert isinstance(second, Busy)

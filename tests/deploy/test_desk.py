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

    return asyncio.run(asyncio.wait_for(played(), 60))


def test_what_comes_while_others_are_answered_is_answered_together() -> None:
    passes: list[list[int]] = []
    go_on = threading.Event()

    def doubled(questions: Sequence[int]) -> list[int]:
        passes.append(list(questions))
        assert go_on.wait(30)
        return [2 * one for one in questions]

    async def scene(one: Desk) -> list[list[int]]:
        first = asyncio.create_task(one.ask([(0, 1)]))
        while not passes:
            await asyncio.sleep(0.001)
        rest = [asyncio.create_task(one.ask([(number, 1), (-number, 1)])) for number in range(1, 40)]
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

    assert at_a_desk(same, lambda one: one.ask([(number, 1) for number in range(25)])) == list(range(25))
    assert sizes == [10, 10, 5]


def test_one_that_fails_spoils_no_other() -> None:
    def careful(questions: Sequence[int]) -> list[int]:
        if 3 in questions:
            raise InputError("three")
        return list(questions)

    async def scene(one: Desk) -> list[Any]:
        return await asyncio.gather(*(one.ask([(number, 1)]) for number in range(6)), return_exceptions=True)

    found = at_a_desk(careful, scene)
    assert [one for one in found if not isinstance(one, Exception)] == [[0], [1], [2], [4], [5]]
    assert isinstance(found[3], InputError)


@pytest.mark.parametrize("error", [SystemExit(3), StopIteration(), MemoryError("much")])
def test_whatever_fails_the_desk_goes_on(error: BaseException) -> None:
    def careful(questions: Sequence[int]) -> list[int]:
        if 1 in questions:
            raise error
        return list(questions[1:]) if 2 in questions else list(questions)

    async def scene(one: Desk) -> list[Any]:
        together = (one.ask([(0, 1)]), one.ask([(1, 1)]), one.ask([(2, 1)]))
        return [*await asyncio.gather(*together, return_exceptions=True), await one.ask([(3, 1)])]

    first, failed, short, last = at_a_desk(careful, scene)
    assert (first, last) == ([0], [3])
    assert type(error).__name__ in repr(failed)
    assert "0 answers to 1 questions" in str(short)


def test_who_has_left_is_not_answered() -> None:
    asked: list[int] = []
    go_on = threading.Event()

    def watched(questions: Sequence[int]) -> Sequence[int]:
        asked.extend(questions)
        assert go_on.wait(30)
        return questions

    async def scene(one: Desk) -> list[int]:
        tasks = [asyncio.create_task(one.ask([(number, 1)])) for number in range(3)]
        while not asked:
            await asyncio.sleep(0.001)
        tasks[0].cancel()  # is being answered
        later = [asyncio.create_task(one.ask([(number, 1)])) for number in range(3, 6)]
        await asyncio.sleep(0)
        later[1].cancel()  # waits
        await asyncio.sleep(0)
        go_on.set()
        found = await asyncio.gather(*tasks, *later, return_exceptions=True)
        assert one.done == 4
        return [answer for answers in found if isinstance(answers, list) for answer in answers]

    assert at_a_desk(watched, scene) == [1, 2, 3, 5]
    assert asked == [0, 1, 2, 3, 5]


def test_a_pass_is_no_longer_than_it_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "TOGETHER_SIZE", 100)
    passes: list[list[int]] = []

    def watched(questions: Sequence[int]) -> Sequence[int]:
        passes.append(list(questions))
        return questions

    async def scene(one: Desk) -> Sequence[list[int]]:
        return await asyncio.gather(
            one.ask([(1, 500)]), one.ask([(2, 40), (3, 40)]), one.ask([(4, 40), (5, 40)])
        )

    assert list(at_a_desk(watched, scene)) == [[1], [2, 3], [4, 5]]
    assert passes == [[1], [2, 3, 4], [5]]


def test_a_queue_that_is_too_long_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "WAITING", 3)

    async def scene(one: Desk) -> Sequence[Any]:
        return await asyncio.gather(
            one.ask([(1, 1), (2, 1)]), one.ask([(3, 1), (4, 1)]), one.ask([(5, 1)]), return_exceptions=True
        )

    first, second, third = at_a_desk(list, scene)
    assert (first, third) == ([1, 2], [5])
    assert isinstance(second, Busy)


def test_too_much_that_waits_is_told_and_forgotten_when_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk, "WAITING_SIZE", 100)

    async def scene(one: Desk) -> list[Any]:
        before = await asyncio.gather(one.ask([(1, 60)]), one.ask([(2, 60)]), return_exceptions=True)
        return [*before, await one.ask([(3, 60)])]

    first, second, third = at_a_desk(list, scene)
    assert (first, third) == ([1], [3])
    assert isinstance(second, Busy)

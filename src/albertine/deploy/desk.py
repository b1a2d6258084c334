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

Question: TypeAlias = Any
Answer: TypeAlias = Any

# Of one pass: few enough that nobody waits for long behind others, enough for its strips to be full.
TOGETHER, TOGETHER_SIZE = 1_024, 64_000
# That may wait.
WAITING, WAITING_SIZE = 8_192, 16_000_000


class Busy(AlbertineError):  # noqa: N818  # it is no error of anybody's
    """So much waits that another question could not be answered in good time."""


@dataclass(frozen=True)
class _Asked:
    """A question that waits."""

    question: Question
    size: int
    coming: asyncio.Future[Answer]


@dataclass(frozen=True)
class _Failure:
    """What came in place of an answer."""

    error: Exception


class Desk:
    """Takes questions from any number of callers of one loop.

    Attributes:
        done: how many answers were given.
    """

    def __init__(self, answered: Callable[[Sequence[Question]], Sequence[Answer]], hand: Executor):
        """Open a desk.

        Args:
            answered: answers questions in order, several at a time.
            hand: does the work, one pass at a time.
        """
        self.done = 0
        self._answered, self._hand = answered, hand
        self._waiting: deque[_Asked] = deque()
        self._size = 0
        self._bell = asyncio.Event()

    async def ask(self, questions: Sequence[tuple[Question, int]]) -> list[Answer]:
        """Return the answers to questions, each with its size, in order; a failure among them is raised."""
        size = sum(size for _, size in questions)
        if len(self._waiting) + len(questions) > WAITING or self._size + size > WAITING_SIZE:
            raise Busy(f"{len(self._waiting):,} questions wait already; ask again later")
        loop = asyncio.get_running_loop()
        asked = [_Asked(one, its_size, loop.create_future()) for one, its_size in questions]
        self._waiting.extend(asked)
        self._size += size
        self._bell.set()
        found = await asyncio.gather(*(one.coming for one in asked), return_exceptions=True)
        for one in found:
            if isinstance(one, BaseException):
                raise one
        return found

    async def work(self) -> None:
        """Answer what comes, until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            await self._bell.wait()
            self._bell.clear()
            while batch := self._batch():
                questions = [one.question for one in batch]
                found = await loop.run_in_executor(self._hand, self._each, questions)
                for one, answer in zip(batch, found, strict=True):
                    self._hand_over(one, answer)

    def _batch(self) -> list[_Asked]:
        """Take what makes a good pass; those whose callers have left fall away."""
        batch: list[_Asked] = []
        size = 0
        while self._waiting and len(batch) < TOGETHER and (not batch or size < TOGETHER_SIZE):
            one = self._waiting.popleft()
            self._size -= one.size
            if not one.coming.done():
                batch.append(one)
                size += one.size
        return batch

    def _hand_over(self, one: _Asked, answer: Answer | _Failure) -> None:
        if one.coming.done():  # the caller has left
            return
        if isinstance(answer, _Failure):
            one.coming.set_exception(answer.error)
        else:
            self.done += 1
            one.coming.set_result(answer)

    def _each(self, questions: Sequence[Question]) -> Sequence[Answer | _Failure]:
        """Answer questions together; where that fails, one by one, so that one spoils no other."""
        try:
            found = list(self._answered(questions))
            if len(found) != len(questions):
                raise RuntimeError(f"{len(found)} answers to {len(questions)} questions")
            return found
        # A panic of a library in Rust is no Exception, and must not end the work either.
        except BaseException as error:
            if len(questions) == 1:
                return [_Failure(_plain(error))]
        return [self._each([one])[0] for one in questions]


def _plain(error: BaseException) -> Exception:
    """Return an exception that may stand for an answer."""
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    return RuntimeError(f"{type(error).__name__}: {error}")

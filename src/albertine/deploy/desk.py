"""The desk: questions of many callers, answered together.

While the network computes, questions gather; when it is free it takes all that wait, as
one strip. So nobody waits for a batch to fill, a single caller is answered at once, and
the more ask at a time the more each pass of the network does.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any, TypeAlias

from albertine.errors import AlbertineError

Question: TypeAlias = Any
Answer: TypeAlias = Any

TOGETHER = 1_024  # questions of one pass
WAITING = 8_192  # questions that may wait


class Busy(AlbertineError):  # noqa: N818  # it is no error of anybody's
    """So many questions wait that another could not be answered in good time."""


class Desk:
    """Takes questions from any number of callers; one loop, one hand.

    Args:
        answered: answers questions in order, and may be asked about several at a time.
        hand: does the work, one piece at a time.
    """

    def __init__(self, answered: Callable[[Sequence[Question]], Sequence[Answer]], hand: Executor):
        self._answered, self._hand = answered, hand
        self._waiting: deque[tuple[Question, asyncio.Future[Answer]]] = deque()
        self._bell = asyncio.Event()

    async def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """Return the answers, in order; the first failure among them is raised."""
        if len(self._waiting) + len(questions) > WAITING:
            raise Busy(f"{len(self._waiting):,} questions wait already; ask again later")
        loop = asyncio.get_running_loop()
        coming = [loop.create_future() for _ in questions]
        self._waiting.extend(zip(questions, coming, strict=True))
        self._bell.set()
        found = await asyncio.gather(*coming, return_exceptions=True)
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
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(len(self._waiting), TOGETHER))]
                questions = [question for question, _ in batch]
                found = await loop.run_in_executor(self._hand, self._each, questions)
                for (_, coming), answer in zip(batch, found, strict=True):
                    if coming.cancelled():
                        continue
                    if isinstance(answer, Exception):
                        coming.set_exception(answer)
                    else:
                        coming.set_result(answer)

    def _each(self, questions: Sequence[Question]) -> Sequence[Answer | Exception]:
        """Answer questions together; where that fails, one by one, so that one spoils no other."""
        try:
            return self._answered(questions)
        except Exception as error:
            if len(questions) == 1:
                return [error]
        return [self._each([one])[0] for one in questions]

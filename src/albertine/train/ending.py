"""Being asked to end: by Ctrl-C, or by a machine that is taken away (SIGTERM).

A run then keeps what it has and says where. Alone, a process drops the step it is in,
whose gradient nobody has used yet, so that it ends within moments however long steps
take; of several, all end after the same step.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from albertine.errors import ONE_REQUEST


class Asked(BaseException):
    """Raised inside a step that may be dropped."""


class Ending:
    """Listens for both signals while a run is under way.

    Attributes:
        signal: the one that came; 0 before.
    """

    def __init__(self) -> None:
        self.signal = 0
        self._when = 0.0  # it came first
        self._may_drop = False

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Listen; a second Ctrl-C ends at once, but for one that comes with the first."""
        before = {one: signal.signal(one, self._heard) for one in (signal.SIGTERM, signal.SIGINT)}
        try:
            yield
        finally:
            for one, handler in before.items():
                signal.signal(one, handler)

    @contextmanager
    def may_drop(self, allowed: bool) -> Iterator[None]:
        """Mark what may be dropped half done."""
        self._may_drop = allowed
        try:
            if allowed and self.signal:
                raise Asked
            yield
        finally:
            self._may_drop = False

    def _heard(self, number: int, frame: FrameType | None) -> Any:  # noqa: ARG002  # as signals are handed over
        now = time.monotonic()
        if self.signal == number == signal.SIGINT and now - self._when > ONE_REQUEST:
            raise KeyboardInterrupt
        if not self.signal:
            self._when = now
        self.signal = number
        if self._may_drop:
            self._may_drop = False
            raise Asked

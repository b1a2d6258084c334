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

from albertine.errors import SAME_REQUEST_SECONDS


class ShutdownRequested(BaseException):
    """Raised inside a step that may be dropped."""


class ShutdownSignal:
    """Listens for both signals while a run is under way.

    Attributes:
        received: the one that came; 0 before.
    """

    def __init__(self) -> None:
        self.received = 0
        self._received_at = 0.0  # it came first
        self._is_interruptible = False

    @contextmanager
    def handlers_installed(self) -> Iterator[None]:
        """Listen; a second Ctrl-C ends at once, but for one that comes with the first."""
        previous_handlers = {
            one: signal.signal(one, self._handle_signal) for one in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for one, handler in previous_handlers.items():
                signal.signal(one, handler)

    @contextmanager
    def interruptible(self, allowed: bool) -> Iterator[None]:
        """Mark what may be dropped half done."""
        self._is_interruptible = allowed
        try:
            if allowed and self.received:
                raise ShutdownRequested
            yield
        finally:
            self._is_interruptible = False

    def _handle_signal(self, number: int, frame: FrameType | None) -> Any:  # noqa: ARG002  # as signals are handed over
        now = time.monotonic()
        if self.received == number == signal.SIGINT and now - self._received_at > SAME_REQUEST_SECONDS:
            raise KeyboardInterrupt
        if not self.received:
            self._received_at = now
        self.received = number
        if self._is_interruptible:
            self._is_interruptible = False
            raise ShutdownRequested

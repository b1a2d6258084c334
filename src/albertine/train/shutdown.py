"""Stopping a run on request: by Ctrl-C (SIGINT), or by a job scheduler (SIGTERM).

The run writes a checkpoint and ends. A single process drops the current step, whose
gradient has not been used yet, so it ends at once however long a step takes. Several
processes all end after the same step.
"""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from albertine.errors import SAME_REQUEST_SECONDS, Interrupted


class ShutdownRequested(BaseException):
    """The run has to stop: the current step or evaluation is dropped."""


class ShutdownSignal:
    """Handles SIGTERM and SIGINT during a run.

    Attributes:
        received: number of the signal that arrived; 0 before.
    """

    def __init__(self) -> None:
        self.received = 0
        self._received_at = 0.0  # time of the first signal
        self._is_interruptible = False

    @contextmanager
    def handlers_installed(self) -> Iterator[None]:
        """Handle signals while the block runs.

        A second Ctrl-C, more than a second after the first signal, raises `KeyboardInterrupt`.
        """
        previous_handlers = {
            number: signal.signal(number, self._handle_signal) for number in (signal.SIGTERM, signal.SIGINT)
        }
        try:
            yield
        finally:
            for number, handler in previous_handlers.items():
                signal.signal(number, handler)

    @contextmanager
    def interruptible(self, *, when: bool) -> Iterator[None]:
        """If `when` is true, raise `ShutdownRequested` in the block once a signal arrives or has arrived."""
        self._is_interruptible = when
        try:
            if when and self.received:
                raise ShutdownRequested
            yield
        finally:
            self._is_interruptible = False

    def _handle_signal(self, number: int, frame: FrameType | None) -> Any:  # noqa: ARG002  # the signature of a signal handler
        now = time.monotonic()
        if self.received == number == signal.SIGINT and now - self._received_at > SAME_REQUEST_SECONDS:
            raise Interrupted
        if not self.received:
            self._received_at = now
        self.received = number
        if self._is_interruptible:
            self._is_interruptible = False
            raise ShutdownRequested

"""Ctrl-C and SIGTERM: what interrupts a command.

SIGTERM is handled like Ctrl-C, so that partial files are removed. A job scheduler that ends a process
group often sends a signal twice; a second one shortly after the first is ignored, because it would
interrupt the cleanup. The module imports little, because it is there before the command line is.
"""

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from types import FrameType

from albertine.errors import SAME_REQUEST_SECONDS, ExitStatus, Interrupted, Terminated


class InterruptHandler:
    """Signal handler that raises `Interrupted` for Ctrl-C and `Terminated` for SIGTERM.

    Attributes:
        is_finished: whether the command has ended. The handler then exits at once, because Python would only
            print an exception that is raised during its shutdown.
        leaves_calls: whether a signal has left a call of a library in another thread, for which Python's
            shutdown would wait.
    """

    def __init__(self) -> None:
        self.is_finished = self.leaves_calls = False
        self._last: tuple[float, KeyboardInterrupt] | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # the signature of a handler
        """Interrupt the main thread."""
        if self.recent_interruption is not None:
            return
        interruption = Terminated() if number == signal.SIGTERM else Interrupted()
        self._last = time.monotonic(), interruption
        if self.is_finished:
            os._exit(128 + number)
        raise interruption

    @property
    def recent_interruption(self) -> KeyboardInterrupt | None:
        """What was raised shortly before, if anything."""
        if self._last is None or time.monotonic() - self._last[0] >= SAME_REQUEST_SECONDS:
            return None
        return self._last[1]


def join_or_leave(thread: threading.Thread) -> None:
    """Wait for a daemon thread; after a signal, let the process end without it."""
    try:
        thread.join()
    except KeyboardInterrupt:
        if (handler := _handler()) is not None:
            handler.leaves_calls = True
        raise


def report_interruption(interruption: KeyboardInterrupt) -> ExitStatus:
    """Print that the command was interrupted, and return its exit status."""
    with suppress(OSError):  # standard error may be closed
        print("\nalbertine: interrupted", file=sys.stderr)
    return ExitStatus.TERMINATED if isinstance(interruption, Terminated) else ExitStatus.INTERRUPTED


def recent_interruption() -> KeyboardInterrupt | None:
    """Return what the handler of this process raised shortly before, if anything.

    Code in other languages may have replaced it by an error of its own.
    """
    handler = _handler()
    return None if handler is None else handler.recent_interruption


def _handler() -> InterruptHandler | None:
    handler = signal.getsignal(signal.SIGTERM)
    return handler if isinstance(handler, InterruptHandler) else None

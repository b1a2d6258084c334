"""The entry point of `albertine` and `python -m albertine`.

It handles Ctrl-C while modules are imported, and closed standard streams, before it imports
the command line. SIGTERM is handled like Ctrl-C, so that partial files are removed. A job
scheduler that ends a process group often sends a signal twice; a second one shortly after
the first is ignored, because it would interrupt the cleanup.
"""

import atexit
import math
import os
import signal
import sys
import time
from types import FrameType

from albertine.errors import SAME_REQUEST_SECONDS, ExitStatus, Terminated


def main() -> int:
    """Run the command of this process and return its exit status."""
    interrupt_handler = InterruptHandler()
    atexit.register(_ignore_signals)  # the first one is called last
    try:
        signal.signal(signal.SIGTERM, interrupt_handler)
        if (
            signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ):  # unless ignored, as in a background job
            signal.signal(signal.SIGINT, interrupt_handler)
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:
                setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  # open until the process ends
        from albertine.cli import app
        from albertine.command import run_command

        status = run_command(app)
    except KeyboardInterrupt as error:
        print("\nalbertine: interrupted", file=sys.stderr)
        status = ExitStatus.TERMINATED if isinstance(error, Terminated) else ExitStatus.INTERRUPTED
    interrupt_handler.is_finished = True
    return status


def _ignore_signals() -> None:
    """Let Python shut down: it would restore the default handlers, and a signal would set the status."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


class InterruptHandler:
    """Signal handler that raises `KeyboardInterrupt` for Ctrl-C and `Terminated` for SIGTERM.

    Attributes:
        is_finished: whether the command has ended. The handler then exits at once, because Python would only
            print an exception that is raised during its shutdown.
    """

    def __init__(self) -> None:
        self.is_finished = False
        self._last_signal_time = -math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # the signature of a handler
        """Interrupt the main thread."""
        if time.monotonic() - self._last_signal_time < SAME_REQUEST_SECONDS:
            return
        self._last_signal_time = time.monotonic()
        if self.is_finished:
            os._exit(128 + number)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

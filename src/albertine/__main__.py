"""The process: `albertine` and `python -m albertine`.

What can go wrong before the command line itself is there to handle it: a Ctrl-C
while modules are still loading, and standard streams that are closed. To be asked to
end (SIGTERM) is an interruption too, so nothing half-written stays behind. Who ends a
group of processes often asks twice; that is one request, or the second would
interrupt the tidying up.
"""

import math
import os
import signal
import sys
import time
from types import FrameType

from albertine.errors import SAME_REQUEST_SECONDS, ExitStatus, Terminated


def main() -> int:
    """Run the command that the process was started with and return the exit status."""
    interrupt_handler = InterruptHandler()
    try:
        signal.signal(signal.SIGTERM, interrupt_handler)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it may be ignored
            signal.signal(signal.SIGINT, interrupt_handler)
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:
                setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  # as long as the process
        from albertine.cli import app
        from albertine.command import run_command

        status = run_command(app)
    except KeyboardInterrupt as error:
        print("\nalbertine: interrupted", file=sys.stderr)
        status = ExitStatus.TERMINATED if isinstance(error, Terminated) else ExitStatus.INTERRUPTED
    interrupt_handler.is_finished = True
    return status


class InterruptHandler:
    """Ends the work when a signal asks for it; SIGTERM does as Ctrl-C, but for the status.

    Attributes:
        is_finished: whether all is put away, and Python takes itself apart: there an exception would only be shown.
    """

    def __init__(self) -> None:
        self.is_finished = False
        self._last_signal_time = -math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # as signals are handed over
        """Raise what ends it."""
        if time.monotonic() - self._last_signal_time < SAME_REQUEST_SECONDS:
            return
        self._last_signal_time = time.monotonic()
        if self.is_finished:
            os._exit(128 + number)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

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

from albertine.errors import ONE_REQUEST, Status, Terminated


def main() -> int:
    """Run the command that the process was started with and return the exit status."""
    ender = Ender()
    try:
        signal.signal(signal.SIGTERM, ender)
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it may be ignored
            signal.signal(signal.SIGINT, ender)
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:
                setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  # as long as the process
        from albertine.cli import app
        from albertine.command import run

        status = run(app)
    except KeyboardInterrupt as end:
        print("\nalbertine: interrupted", file=sys.stderr)
        status = Status.TERMINATED if isinstance(end, Terminated) else Status.INTERRUPTED
    ender.done = True
    return status


class Ender:
    """Ends the work when a signal asks for it; SIGTERM does as Ctrl-C, but for the status.

    Attributes:
        done: whether all is put away, and Python takes itself apart: there an exception would only be shown.
    """

    def __init__(self) -> None:
        self.done = False
        self._when = -math.inf

    def __call__(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002  # as signals are handed over
        """Raise what ends it."""
        if time.monotonic() - self._when < ONE_REQUEST:
            return
        self._when = time.monotonic()
        if self.done:
            os._exit(128 + number)
        raise Terminated if number == signal.SIGTERM else KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())

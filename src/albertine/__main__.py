"""The process: `albertine` and `python -m albertine`.

What can go wrong before the command line itself is there to handle it: a Ctrl-C
while modules are still loading, and standard streams that are closed. To be asked to
end (SIGTERM) is an interruption too, so nothing half-written stays behind.
"""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn

from albertine.errors import Status, Terminated


def main() -> int:
    """Run the command that the process was started with and return the exit status."""
    try:
        signal.signal(signal.SIGTERM, terminate)
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:
                setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  # as long as the process
        from albertine.cli import app
        from albertine.command import run

        return run(app)
    except KeyboardInterrupt as end:
        print("\nalbertine: interrupted", file=sys.stderr)
        return Status.TERMINATED if isinstance(end, Terminated) else Status.INTERRUPTED


def terminate(number: int, frame: FrameType | None) -> NoReturn:  # noqa: ARG001  # as signals are handed over
    """End as with Ctrl-C, but for the status."""
    raise Terminated


if __name__ == "__main__":
    sys.exit(main())

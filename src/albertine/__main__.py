"""The process: `albertine` and `python -m albertine`.

What can go wrong before the command line itself is there to handle it: a Ctrl-C
while modules are still loading, and standard streams that are closed. To be asked to
end (SIGTERM) is an interruption like any other, so nothing half-written stays behind.
"""

import os
import signal
import sys


def main() -> int:
    """Run the command that the process was started with and return the exit status."""
    try:
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        for name in ("stdout", "stderr"):
            if getattr(sys, name) is None:
                setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115  # as long as the process
        from albertine.cli import app
        from albertine.command import run

        return run(app)
    except KeyboardInterrupt:
        print("\nalbertine: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

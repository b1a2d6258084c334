"""The entry point of `albertine` and `python -m albertine`.

It handles Ctrl-C while modules are imported, and closed standard streams, before it imports
the command line.
"""

import atexit
import io
import os
import signal
import sys
from contextlib import suppress
from typing import TextIO

from albertine.interruptions import InterruptHandler, report_interruption


class ClosedOutput(io.TextIOWrapper):
    """Standard output of a process that has none: a result that is written to it would be lost."""

    def __init__(self) -> None:
        super().__init__(open(os.devnull, "wb"), encoding="utf-8")  # noqa: PTH123, SIM115  # takes the file descriptor of the output

    def write(self, text: str) -> int:  # noqa: ARG002
        """Raise `OSError`."""
        raise OSError("standard output is closed; redirect it to a file, or to /dev/null")


def main() -> int:
    """Run the command of this process and return its exit status."""
    interrupt_handler = InterruptHandler()
    atexit.register(_ignore_signals)  # the first one is called last
    try:
        signal.signal(signal.SIGTERM, interrupt_handler)
        # A background job ignores SIGINT, and this stays so.
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, interrupt_handler)
        if sys.stdout is None:
            sys.stdout = ClosedOutput()
        if sys.stderr is None:
            sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  # open until the process ends
        _write_utf_8(sys.stdout)
        from albertine.cli import app
        from albertine.command import run_command

        status = run_command(app)
    except KeyboardInterrupt as error:
        status = report_interruption(error)
    interrupt_handler.is_finished = True
    if interrupt_handler.leaves_calls:
        with suppress(OSError):  # closed streams
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)
    return status


def _write_utf_8(stream: TextIO) -> None:
    """Let results be UTF-8, as JSON is; a terminal shows escapes of characters that it lacks."""
    is_chosen = "PYTHONIOENCODING" in os.environ
    if isinstance(stream, io.TextIOWrapper) and stream.encoding.lower() != "utf-8" and not is_chosen:
        if stream.isatty():
            stream.reconfigure(errors="backslashreplace")
        else:
            stream.reconfigure(encoding="utf-8", errors=stream.errors)


def _ignore_signals() -> None:
    """Let Python shut down: it would restore the default handlers, and a signal would set the status."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


if __name__ == "__main__":
    sys.exit(main())

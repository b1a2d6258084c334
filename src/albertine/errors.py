"""How work fails, and what status the process ends with.

Three outcomes, told apart by who can mend them. `InputError`: the person, by
giving something else. `WorkError`: nobody from the command line (a full disk, a
run that diverged). Anything else is a defect of ours and is reported as one.
The command line turns each into one line and an exit status (`command.py`);
Python callers catch `AlbertineError`.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum


class ExitStatus(IntEnum):
    """The exit statuses of every command."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    INTERRUPTED = 130
    TERMINATED = 143


class AlbertineError(Exception):
    """What Albertine raises on purpose; its text is one line that says what, where and what to do.

    Attributes:
        status: of the process that ends with it.
        already_shown: whether the person knows already.
    """

    status = ExitStatus.FAILED
    already_shown = False


class WorkError(AlbertineError):
    """The input was fine and the work failed."""


class InputError(AlbertineError):
    """The input was wrong: an argument, a setting, a file's content."""

    status = ExitStatus.BAD_INPUT


class RunStopped(AlbertineError):  # noqa: N818  # it is no error: it was asked for
    """The work was asked to end, and kept what it had."""

    def __init__(self, message: str, status: ExitStatus):
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[type["RunStopped"], tuple[str, ExitStatus]]:  # from one process to another
        return type(self), (str(self), self.status)


# Seconds in which a signal that comes again is the same request: who ends a group of processes asks twice.
SAME_REQUEST_SECONDS = 1.0


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM): an interruption, with a status of its own."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean X?)" for the known name closest to a wrong one, or nothing if none is close."""
    matches = get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f" (did you mean {matches[0]}?)" if matches else ""

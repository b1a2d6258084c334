"""Error types and exit statuses.

An `InputError` can be fixed by other input. A `WorkError` means that the input was valid
but the work failed (a full disk, a diverged run). `NothingLearned` means that a run is
complete but its model is useless, `ProblemsFound` that a check has found errors in data.
Any other exception is a bug in Albertine and is reported as an internal error. `command.py`
prints an error as one line and exits with its status; Python callers catch `AlbertineError`.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from enum import IntEnum
from itertools import islice


class ExitStatus(IntEnum):
    """Exit statuses of all commands."""

    DONE = 0
    FAILED = 1
    BAD_INPUT = 2
    NOTHING_LEARNED = 3
    PROBLEMS_FOUND = 4
    INTERRUPTED = 130
    TERMINATED = 143


class AlbertineError(Exception):
    """Base class of Albertine's errors; the message is one line: what is wrong, where, and what to do.

    Attributes:
        status: exit status of a process that ends with this error.
        already_shown: whether another process has printed the message.
    """

    status = ExitStatus.FAILED
    already_shown = False


class WorkError(AlbertineError):
    """Failure of the work on valid input."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether memory is exhausted, that of torch included, whose errors are plain ones on a CPU."""
    # Without torch, which takes seconds to import.
    is_of_torch = type(error).__name__ == "OutOfMemoryError" or "DefaultCPUAllocator" in str(error)
    return isinstance(error, MemoryError) or is_of_torch


class Diverged(WorkError):  # noqa: N818  # what happened
    """The loss or the gradient of a run is not finite, again and again."""


class NothingLearned(WorkError):  # noqa: N818  # the run is complete
    """A fine-tuning run is complete, but its model has learned nothing."""

    status = ExitStatus.NOTHING_LEARNED


class ProblemsFound(WorkError):  # noqa: N818  # the check is complete
    """A check of data has found errors in them."""

    status = ExitStatus.PROBLEMS_FOUND


class InputError(AlbertineError):
    """Invalid input: an argument, a setting or the content of a file."""

    status = ExitStatus.BAD_INPUT


class RunStopped(AlbertineError):  # noqa: N818  # a requested stop is no error
    """The work ended early on request and saved its state."""

    def __init__(self, message: str, status: ExitStatus):
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> tuple[type["RunStopped"], tuple[str, ExitStatus]]:  # pickled between processes
        return type(self), (str(self), self.status)


# A signal repeated within this many seconds is the same request: job schedulers often send signals twice.
SAME_REQUEST_SECONDS = 1.0


class Interrupted(KeyboardInterrupt):
    """The process received SIGINT, as from Ctrl-C.

    A class of its own, because of how `python -m` ends: if a plain `KeyboardInterrupt` has passed through a
    call of `exec`, as in the import of a dataclass, Python kills itself with SIGINT even if the exception
    was handled, and the exit status is lost.
    """


class Terminated(KeyboardInterrupt):
    """The process received SIGTERM; handled as an interruption, with its own exit status."""


_MAX_FORMAT = 1000


def check_format(file: object, found: object, supported: int, advice: str) -> None:
    """Raise `InputError` if the format of a file is not the one that this version reads.

    Args:
        file: the file, for the message.
        found: format number in the file; None if it has none.
        supported: format number that this version writes and reads.
        advice: what to do about an older file.
    """
    if found == supported:
        return
    if not (isinstance(found, int) and 0 <= found <= _MAX_FORMAT):
        raise InputError(f"{file}: no valid format number; expected {supported}; {advice}")
    is_newer = found > supported
    raise InputError(
        f"{file}: format {found}, written by {'a newer' if is_newer else 'an older'} version of Albertine; "
        f"this one reads format {supported}; {'update Albertine' if is_newer else advice}"
    )


# Words whose closest spelling would be a wrong suggestion, each with the right one.
_SYNONYMS = {"gpu": "cuda"}


_MAX_KNOWN = 1000  # names to compare; the names of a table's columns can be millions


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean X?)" for the known name closest to `name`, or "" if none is close."""
    known = list(islice(known, _MAX_KNOWN))
    synonym = _SYNONYMS.get(name.lower())
    matches = [synonym] if synonym in known else get_close_matches(name, known, n=1, cutoff=0.6)
    return f" (did you mean {matches[0]}?)" if matches else ""

"""Counts the file operations of a command, and calls an action before a chosen one.

An audit hook of Python is called before each `open`, `mkdir`, `rename`, `remove` and `link`, so that
a fault comes at exactly that moment. The hook is installed in the fork that runs the command. It is
not called for files that libraries in other languages write; faults at random times cover these.
"""

import errno
import mmap
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_EVENTS = (
    "open",
    "os.mkdir",
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.link",
    "os.truncate",
    "shutil.rmtree",
)
_WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT

Action = Callable[[str, Path], None]


class OperationCounter:
    """A number of operations, in memory that a fork shares with this process."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8)

    @property
    def count(self) -> int:
        """Number of operations so far."""
        return int.from_bytes(self._memory[:8], "little")

    def increment(self) -> int:
        """Count an operation and return its number, from 0."""
        number = self.count
        self._memory[:8] = (number + 1).to_bytes(8, "little")
        return number


def install_hook(
    folder: Path, counter: OperationCounter, first: int = sys.maxsize, action: Action | None = None
) -> None:
    """Count the writing operations of this process under a folder; call an action before some of them.

    Args:
        folder: the folder.
        counter: is incremented at each operation.
        first: number of the first operation before which to act.
        action: called with the event and the path of this operation and all later ones.
    """
    is_acting = False  # the action's own operations are neither counted nor acted on

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal is_acting
        if event not in _EVENTS or is_acting or isinstance(arguments[0], int):
            return
        if event == "open" and not (arguments[2] or 0) & _WRITE_FLAGS:
            return
        path = Path(os.path.abspath(os.fsdecode(arguments[0])))  # noqa: PTH100  # `resolve` would raise events
        if not path.is_relative_to(folder):
            return
        if counter.increment() >= first and action is not None:
            is_acting = True
            try:
                action(event, path)
            finally:
                is_acting = False

    sys.addaudithook(hook)


def send_signal_once(number: signal.Signals) -> Action:
    """Return an action that sends a signal to the process group, the first time that it is called."""
    is_sent = False

    def action(event: str, path: Path) -> None:
        nonlocal is_sent
        if not is_sent:
            is_sent = True
            os.killpg(0, number)

    return action


def refuse_new_files(event: str, path: Path) -> None:
    """Raise the error of a file system without free inodes if an operation creates a file."""
    if event in ("open", "os.mkdir", "os.link") and (event == "os.link" or not os.path.lexists(path)):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

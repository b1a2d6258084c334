"""An exclusive file lock; the operating system releases it when the process ends, even if killed."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from albertine.errors import InputError, WorkError

_POLL_SECONDS = 0.1


@contextmanager
def file_lock(file: Path, busy_message: str, wait_seconds: float = 0) -> Iterator[None]:
    """Hold an exclusive lock on a file while the block runs.

    Args:
        file: the file to lock; it is created if missing.
        busy_message: text of the `InputError` that is raised if another process holds the lock.
        wait_seconds: how long to wait for the other process.
    """
    deadline = time.monotonic() + wait_seconds
    with file.open("ab") as opened:
        while True:
            try:
                fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise InputError(busy_message) from None
            except OSError as error:
                raise WorkError(
                    f"{file}: cannot be locked ({error.strerror}); use a folder on a file system with locks"
                ) from None
            time.sleep(_POLL_SECONDS)
        # A worker inherits the lock with the open file, and must not keep it if it outlives this process.
        os.register_at_fork(after_in_child=opened.close)
        yield

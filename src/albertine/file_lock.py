"""A file that one process at a time holds; the system lets go of it when that process ends, however."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from albertine.errors import InputError


@contextmanager
def file_lock(file: Path, busy_message: str) -> Iterator[None]:
    """Hold a file, made if it is not there; or refuse with `busy_message` if another process does."""
    with file.open("ab") as opened:
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(busy_message) from None
        os.register_at_fork(after_in_child=opened.close)  # a worker that outlives us shall not hold it
        yield

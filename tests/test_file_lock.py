"""Tests of the file lock, where the file system refuses it."""

import errno
import fcntl
from pathlib import Path
from typing import Any

import pytest

from albertine.errors import WorkError
from albertine.file_lock import file_lock


def test_a_file_system_without_locks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refused)
    message = r"run\.lock: cannot be locked \(No locks available\); use a folder on a file system with locks"
    with pytest.raises(WorkError, match=message), file_lock(tmp_path / "run.lock", "busy"):
        pass

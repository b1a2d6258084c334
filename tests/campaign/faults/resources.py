"""Faults: disks that are full or read-only, and limits of the size of files."""

import math
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from albertine.errors import ExitStatus
from tests.campaign.commands import Outcome
from tests.campaign.faults.operations import OperationCounter, install_hook, refuse_new_files
from tests.campaign.faults.promises import BrokenPromise, check_end, refusal
from tests.campaign.faults.trial import FaultTrial

_PAGE = 4096  # bytes; a tmpfs stores whole pages
_MIN_FILE_SIZE = 8192  # the limit also holds for the file with the messages of the command
_ENOUGH_SPACE = 1 << 30  # bytes


def can_mount(folder: Path) -> bool:
    """Return whether this process may mount a file system in memory."""
    if not shutil.which("mount"):
        return False
    folder.mkdir(exist_ok=True)
    if _call("mount", "-t", "tmpfs", "-o", "size=64k", "campaign", str(folder)):
        return False
    _call("umount", "-l", str(folder))
    return True


def full_disk(trial: FaultTrial) -> bool:
    """Run the command on a disk that becomes full, then with more space."""
    trial.folder.mkdir(exist_ok=True)
    with _mounted(trial.folder):
        trial.prepare()
        space = int(trial.rng.random() * 1.5 * trial.reference.growth) + _PAGE
        pages = math.ceil((_used_bytes(trial.folder) + space) / _PAGE)
        _remount(trial.folder, f"size={pages * _PAGE}")
        outcome = trial.run()
        _check_failure(trial, outcome, "No space left on device")
        _remount(trial.folder, f"size={_ENOUGH_SPACE}")
        trial.finish()
    return outcome.status == ExitStatus.FAILED


def no_more_files(trial: FaultTrial) -> bool:
    """Let no more files be created from some operation on, then run the command without this fault."""
    trial.prepare()
    first = trial.rng.randrange(trial.reference.operations)
    hook = partial(install_hook, trial.folder, OperationCounter(), first, refuse_new_files)
    outcome = trial.run(in_child=hook)
    _check_failure(trial, outcome, "No space left on device")
    trial.finish()
    return outcome.status == ExitStatus.FAILED


def file_size_limit(trial: FaultTrial) -> bool:
    """Run the command with a maximum file size, then without; return False if its files are too small."""
    largest = trial.reference.growth
    if largest < _MIN_FILE_SIZE:
        return False
    trial.prepare()
    size = int(_MIN_FILE_SIZE * (largest / _MIN_FILE_SIZE) ** trial.rng.random())
    outcome = trial.run(file_size=size)
    _check_failure(trial, outcome, "File too large")
    trial.finish()
    return outcome.status == ExitStatus.FAILED


def read_only(trial: FaultTrial) -> bool:
    """Run the command in a read-only folder: it must refuse, and change nothing."""
    trial.folder.mkdir(exist_ok=True)
    with _mounted(trial.folder):
        trial.prepare()
        _remount(trial.folder, "ro")
        outcome = trial.run()
        check_end(outcome, {ExitStatus.BAD_INPUT})
        if "Read-only file system" not in refusal(outcome):
            raise BrokenPromise(f"the message does not say that the folder is read-only: {refusal(outcome)}")
        _remount(trial.folder, "rw")
        trial.finish()
    return True


def _check_failure(trial: FaultTrial, outcome: Outcome, reason: str) -> None:
    """Raise `BrokenPromise` unless a command named the reason for which it failed, or wrote its result."""
    check_end(outcome, {ExitStatus.FAILED, trial.reference.status})
    if outcome.status == trial.reference.status:
        trial.check_result(f"status {outcome.status} despite {reason!r}, but")
    elif reason not in refusal(outcome):
        raise BrokenPromise(f"the message does not say {reason!r}: {refusal(outcome)}")


@contextmanager
def _mounted(folder: Path) -> Iterator[None]:
    """Mount an empty file system in memory on a folder while the block runs."""
    if message := _call("mount", "-t", "tmpfs", "-o", f"size={_ENOUGH_SPACE}", "campaign", str(folder)):
        raise OSError(message)
    try:
        yield
    finally:
        _call("umount", "-l", str(folder))


def _remount(folder: Path, option: str) -> None:
    if message := _call("mount", "-o", f"remount,{option}", str(folder)):
        raise OSError(message)


def _used_bytes(folder: Path) -> int:
    found = os.statvfs(folder)
    return (found.f_blocks - found.f_bfree) * found.f_frsize


def _call(*command: str) -> str:
    """Run a program; return its error message, or an empty text if it succeeded."""
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"

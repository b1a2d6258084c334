"""A file that a long command writes in steps: after an interruption, the same command resumes it.

    OUT.partial/lock              locked while a command writes the file
    OUT.partial/content           the file so far; what follows the last checkpoint is dropped
    OUT.partial/checkpoint.json   size and checksum of the content, and how far the command is

The file appears at OUT when it is complete, and the folder is removed. An interrupted command leaves the
folder, unless there is no checkpoint yet.
"""

import hashlib
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

from albertine import progress
from albertine.atomic import partial_paths, sync_to_disk
from albertine.corpus.checked_json import read_checked_json, write_checked_json
from albertine.display import display_value
from albertine.errors import InputError
from albertine.file_lock import file_lock
from albertine.storage.output_file import check_output_file
from albertine.text.read_errors import UnreadableData

_LOCK, _CONTENT, _CHECKPOINT = "lock", "content", "checkpoint.json"
_MIN_SECONDS = 1.0  # between checkpoints
_MAX_COST = 0.01  # share of the time that checkpoints may take
_BLOCK_BYTES = 4 << 20


class ResumableFile:
    """The content of an unfinished file, which grows.

    Attributes:
        state: what the command stored with the last checkpoint; None if it starts from the beginning.
        has_checkpoint: whether the same command can resume.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], stream: BinaryIO):
        self.state: dict[str, Any] | None = None
        self.has_checkpoint = False
        self._folder, self._identity, self._stream = folder, identity, stream
        self._digest, self._num_bytes = hashlib.sha256(), 0
        self._due = time.monotonic() + _MIN_SECONDS

    def resume(self) -> None:
        """Return to the last checkpoint, if there is one and the content is intact.

        Raises `InputError` if it is of a command with another identity.
        """
        file = self._folder / _CHECKPOINT
        if file.exists():
            try:
                checkpoint = read_checked_json(file)
                identity, num_bytes = checkpoint["identity"], checkpoint["bytes"]
                digest = _digest_of(self._folder / _CONTENT, num_bytes)
                if digest.hexdigest() != checkpoint["sha256"]:
                    raise ValueError("wrong checksum")
            except (ValueError, KeyError, TypeError):
                progress.print_message(f"{self._folder}: damaged; starting again")
                file.unlink()
            else:
                _check_identity(self._folder, identity, self._identity)
                self.state, self._digest, self._num_bytes = checkpoint["state"], digest, num_bytes
                self.has_checkpoint = True
        self._stream.truncate(self._num_bytes)

    def write(self, text: str) -> None:
        """Append text."""
        data = text.encode()
        self._stream.write(data)
        self._digest.update(data)
        self._num_bytes += len(data)

    def save(self, state: Callable[[], dict[str, Any]]) -> None:
        """Write a checkpoint if one is due; else do nothing.

        Args:
            state: returns what the command needs to continue after the content so far, as a JSON value.
        """
        started = time.monotonic()
        if started < self._due or not self._num_bytes:
            return
        self._stream.flush()
        os.fsync(self._stream.fileno())
        checkpoint = {
            "identity": self._identity,
            "bytes": self._num_bytes,
            "sha256": self._digest.hexdigest(),
            "state": state(),
        }
        write_checked_json(self._folder / _CHECKPOINT, checkpoint)
        self.has_checkpoint = True
        ended = time.monotonic()
        self._due = ended + max(_MIN_SECONDS, (ended - started) / _MAX_COST)


def _digest_of(content: Path, num_bytes: int) -> "hashlib._Hash":
    """Return the hash of the first bytes of a file; of all, if it has fewer."""
    digest = hashlib.sha256()
    with content.open("rb") as stream:
        while block := stream.read(min(num_bytes, _BLOCK_BYTES)):
            digest.update(block)
            num_bytes -= len(block)
    return digest


def _check_identity(folder: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """Raise `InputError` if the rows that are finished are of a command with another identity."""
    names = [name for name in {**wanted, **found} if found.get(name) != wanted.get(name)]
    if names:
        differences = ", ".join(_difference(name, found.get(name), wanted.get(name)) for name in names)
        raise InputError(
            f"{folder}: holds unfinished rows of a command that differs in {differences}; repeat that "
            "command, or remove the folder to start again"
        )


def _difference(name: str, found: Any, wanted: Any) -> str:
    """Return the name of a part of an identity, with both values if they say something."""
    if isinstance(found, list | dict) or isinstance(wanted, list | dict):  # such as checksums
        return name
    before, now = ("not set" if value is None else display_value(value) for value in (found, wanted))
    return f"{name} ({before}, now {now})"


@contextmanager
def resumable_file(out: Path, identity: Mapping[str, Any]) -> Iterator[ResumableFile]:
    """Yield a file to write, from its last checkpoint on; it appears at `out` when the block ends.

    Args:
        out: a local path.
        identity: all that the content depends on, by name, as a JSON value. If it differs from that of the
            last checkpoint, an `InputError` is raised.
    """
    folder = unfinished_folder(out)
    with _locked(folder, out):
        try:
            check_output_file(out)  # another process may have just written it
            with (folder / _CONTENT).open("ab") as stream:
                file = ResumableFile(folder, identity, stream)
                file.resume()
                with _named_if_interrupted(file, folder):
                    yield file
                    stream.flush()
                    os.fsync(stream.fileno())
            (folder / _CONTENT).replace(out)
            sync_to_disk(out.parent)
        except OSError as error:
            if error.errno is not None and error.filename is None:
                error.filename = str(out)
            raise
        finally:
            if not ((folder / _CONTENT).exists() and (folder / _CHECKPOINT).exists()):
                _remove(folder)


@contextmanager
def _named_if_interrupted(file: ResumableFile, folder: Path) -> Iterator[None]:
    """Print where the unfinished file is kept, if the block raises an error and there is a checkpoint."""
    try:
        yield
    except InputError as error:  # the same command would fail again
        if file.has_checkpoint:
            advice = "--on-error skip resumes; " if isinstance(error, UnreadableData) else ""
            progress.print_message(
                f"{folder}: holds what is finished; {advice}to start again with changed data, remove it"
            )
        raise
    except BaseException:
        if file.has_checkpoint:
            progress.print_message(f"{folder}: holds what is finished; run the same command again to resume")
        raise


def remove_leftovers(out: Path) -> None:
    """Remove the folder of a finished file whose command was killed before it could."""
    folder = unfinished_folder(out)
    if out.is_file() and (folder / _LOCK).exists() and not (folder / _CONTENT).exists():
        _remove(folder)


def unfinished_folder(out: Path) -> Path:
    """Return the folder of the unfinished file at a path."""
    return out.with_name(f"{out.name}.partial")


def check_unfinished_folder(out: Path) -> None:
    """Raise `InputError` if the path of the folder of an unfinished file holds something else."""
    folder = unfinished_folder(out)
    is_other = folder.exists() and not folder.is_dir()
    if is_other or (folder.is_dir() and any(folder.iterdir()) and not (folder / _LOCK).exists()):
        raise InputError(
            f"{folder}: exists, and is needed for unfinished rows; rename it, or name another file"
        )


@contextmanager
def _locked(folder: Path, out: Path) -> Iterator[None]:
    """Keep other processes from writing the file while the block runs."""
    busy = f"{out}: another process is writing it; wait for it, or name another file"
    check_unfinished_folder(out)
    folder.mkdir(parents=True, exist_ok=True)
    with file_lock(folder / _LOCK, busy):
        if not (folder / _LOCK).exists():  # the other process has just removed it
            raise InputError(busy)
        yield


def _remove(folder: Path) -> None:
    """Remove what a command has written into the folder, and the folder if nothing else is in it."""
    for path in (*partial_paths(folder), *(folder / name for name in (_CHECKPOINT, _CONTENT, _LOCK))):
        path.unlink(missing_ok=True)
    with suppress(OSError):
        folder.rmdir()

"""Atomic writes of files and folders.

Content is written under a temporary name, flushed to the disk, and then renamed, which is
one atomic operation. Readers never see a partial file, and a failed or killed attempt
leaves the previous content in place.

A killed process cannot remove its partial files. The next process that writes the same file or
folder removes them, unless another process is writing in the same parent folder: while a process
writes, it holds a shared lock on that folder (`folder_in_use`).
"""

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from albertine.errors import InputError

# Errors of writing to an open file, which do not name it.
_WRITE_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS}
_PARTIAL_NAME = re.compile(r"\.(.+)\.[0-9a-f]{8}\.partial", re.DOTALL)


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill; it is renamed to `folder` when the block ends without an error.

    `folder` must be empty or not exist.
    """
    folder = folder.resolve()
    refuse_existing_folder(folder)
    if folder.exists() and (folder.is_mount() or folder == Path.cwd()):  # a rename cannot replace it
        reason = "is a mount point" if folder.is_mount() else "is the working directory"
        raise InputError(f"{folder}: {reason}; name a folder inside it")
    with partial_folder(folder) as partial:
        try:
            yield partial
            for file in partial.rglob("*"):
                sync_to_disk(file)
            sync_to_disk(partial)
            refuse_existing_folder(folder)  # another process may have written it meanwhile
            partial.replace(folder)
            sync_to_disk(folder.parent)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):  # of the rename, just after the check
                refuse_existing_folder(folder)
            _name_final_path(error, partial, folder)
            raise


@contextmanager
def partial_folder(path: Path) -> Iterator[Path]:
    """Yield a new temporary folder beside a path; it is removed when the block ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with folder_in_use(path.parent, path.name):
        partial = _partial_path(path)
        try:  # an interruption may also come just after the folder is made
            _make_partial_folder(partial, path)
            yield partial
        finally:
            _remove_partial(partial)


def _remove_partial(partial: Path) -> None:
    """Remove a partial file or folder if it exists, also if an interruption comes meanwhile."""
    try:
        with suppress(OSError):
            remove_path(partial)
    except KeyboardInterrupt:
        with suppress(OSError):
            remove_path(partial)
        raise


def _make_partial_folder(partial: Path, path: Path) -> None:
    try:
        partial.mkdir()
    except OSError as error:
        _name_final_path(error, partial, path)
        raise


@contextmanager
def atomic_file(file: Path) -> Iterator[Path]:
    """Yield a temporary path to write; it is renamed to `file` when the block ends without an error."""
    with folder_in_use(file.parent, file.name):
        partial = _partial_path(file)
        try:
            yield partial
            sync_to_disk(partial)
            partial.replace(file)
            sync_to_disk(file.parent)
        except OSError as error:
            _name_final_path(error, partial, file)
            raise
        finally:
            _remove_partial(partial)


def _partial_path(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid4().hex[:8]}.partial")


def _name_final_path(error: OSError, partial: Path, path: Path) -> None:
    """Replace the partial path in an error by the final one, which users know."""
    if error.filename is None:
        if error.errno in _WRITE_ERRORS:
            error.filename = str(path)
    elif str(error.filename).startswith(str(partial)):
        error.filename = str(path) + str(error.filename).removeprefix(str(partial))


@contextmanager
def folder_in_use(folder: Path, remove_partials_of: str | None = None) -> Iterator[None]:
    """Hold a shared lock on a folder, so that writes in it do not remove old partial files.

    A process that writes many files into one folder holds it all the time, because otherwise each write
    reads the names of all files. Where folders cannot be locked, as on some network file systems, old
    partial files stay.

    Args:
        folder: the folder.
        remove_partials_of: name of a file whose old partial files are removed first, if the folder is free.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:  # the write that follows reports it, with the name of the file
        yield
        return
    try:
        if remove_partials_of is not None:
            with suppress(OSError):
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for leftover in partial_paths(folder, remove_partials_of):
                    remove_path(leftover)
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH)  # waits only while another process removes leftovers
        yield
    finally:
        os.close(descriptor)


def partial_paths(folder: Path, name: str | None = None) -> list[Path]:
    """Return the partial files and folders in a folder, or only those of one final name."""
    matches = [(path, _PARTIAL_NAME.fullmatch(path.name)) for path in folder.iterdir()]
    return [path for path, match in matches if match and name in (None, match[1])]


def is_unused(path: Path, *ignored: str) -> bool:
    """Return whether a path does not exist, or is a folder with nothing but partial files and folders.

    Args:
        path: the path.
        ignored: names that may be in the folder too, such as that of a lock.
    """
    if not path.exists():
        return True
    return path.is_dir() and {one.name for one in path.iterdir()} <= {
        *ignored,
        *(partial.name for partial in partial_paths(path)),
    }


def remove_path(path: Path) -> None:
    """Remove a file, a symbolic link, or a folder with its contents."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def refuse_existing_folder(folder: Path) -> None:
    """Raise `InputError` if the path exists and is not an empty folder."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: exists already; name another folder or remove it")


def sync_to_disk(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

"""Atomic writes of files and folders.

Content is written under a temporary name, flushed to the disk, and then renamed, which is
one atomic operation. Readers never see a partial file, and a failed or killed attempt
leaves the previous content in place.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from albertine.errors import InputError


@contextmanager
def atomic_folder(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill; it is renamed to `folder` when the block ends without an error.

    `folder` must not exist yet, or be empty.
    """
    folder = folder.resolve()
    refuse_existing_folder(folder)
    if folder.exists() and (folder.is_mount() or folder == Path.cwd()):  # cannot be replaced by a rename
        reason = "is a mount point" if folder.is_mount() else "is the working directory"
        raise InputError(f"{folder}: {reason}; name a folder inside it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.parent / f".{folder.name}.{uuid4().hex[:8]}.partial"
    partial.mkdir()
    try:
        yield partial
        for file in partial.rglob("*"):
            sync_to_disk(file)
        sync_to_disk(partial)
        refuse_existing_folder(folder)  # another process may have written it meanwhile
        partial.replace(folder)
        sync_to_disk(folder.parent)
    except OSError as error:
        if error.errno is not None and str(error.filename or partial).startswith(str(partial)):
            error.filename = str(folder)  # users do not know the temporary name
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def refuse_existing_folder(folder: Path) -> None:
    """Raise `InputError` if the path exists and is not an empty folder."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: exists already; name another folder or remove it")


def refuse_existing_file(file: Path) -> None:
    """Raise `InputError` if the file exists."""
    if file.is_file():
        raise InputError(f"{file}: exists already; name another file or remove it")


@contextmanager
def atomic_file(file: Path) -> Iterator[Path]:
    """Yield a temporary path to write; it is renamed to `file` when the block ends without an error."""
    partial = file.with_name(f".{file.name}.{uuid4().hex[:8]}.partial")
    try:
        yield partial
        sync_to_disk(partial)
        partial.replace(file)
        sync_to_disk(file.parent)
    except OSError as error:
        if error.errno is not None and str(error.filename or partial) == str(partial):
            error.filename = str(file)  # users do not know the temporary name
        raise
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def sync_to_disk(path: Path) -> None:
    """Flush a file, or the entries of a folder, to the disk (fsync)."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

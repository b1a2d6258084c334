"""Files and folders that appear whole or not at all.

What is being written has another name until it is finished and on the disk; then
it gets its own, which no crash can interrupt. A reader never sees half of one,
and a failed or killed attempt leaves what was there before.
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
    """Give a folder to fill; when the block ends well it becomes `folder`, not existing or empty before."""
    folder = folder.resolve()
    refuse_existing_folder(folder)
    if folder.exists() and (folder.is_mount() or folder == Path.cwd()):  # nothing can take its place
        what = "a disk is mounted here" if folder.is_mount() else "you are in this folder"
        raise InputError(f"{folder}: {what}; name a folder in it")
    folder.parent.mkdir(parents=True, exist_ok=True)
    partial = folder.parent / f".{folder.name}.{uuid4().hex[:8]}.partial"
    partial.mkdir()
    try:
        yield partial
        for file in partial.rglob("*"):
            sync_to_disk(file)
        refuse_existing_folder(folder)  # by someone else meanwhile
        partial.replace(folder)
        sync_to_disk(folder.parent)
    except OSError as error:
        if error.errno is not None and str(error.filename or partial).startswith(str(partial)):
            error.filename = str(folder)  # a write that fails says nothing, or names what nobody knows of
        raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def refuse_existing_folder(folder: Path) -> None:
    """Refuse to write where something lies already."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InputError(f"{folder}: exists already; name another folder or remove it")


def refuse_existing_file(file: Path) -> None:
    """Refuse to write over a file."""
    if file.is_file():
        raise InputError(f"{file}: exists already; name another file or remove it")


@contextmanager
def atomic_file(file: Path) -> Iterator[Path]:
    """Give a path to write to; when the block ends well, what is there takes the place of `file`."""
    partial = file.with_name(f".{file.name}.{uuid4().hex[:8]}.partial")
    try:
        yield partial
        sync_to_disk(partial)
        partial.replace(file)
        sync_to_disk(file.parent)
    except OSError as error:
        if error.errno is not None and str(error.filename or partial) == str(partial):
            error.filename = str(file)  # as above
        raise
    finally:
        with suppress(OSError):
            partial.unlink(missing_ok=True)


def sync_to_disk(path: Path) -> None:
    """Wait until a file or a folder's list of names is on the disk, not only on its way there."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)

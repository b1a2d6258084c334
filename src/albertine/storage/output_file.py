"""Single files that a command writes, at a local path or a URL: they appear when they are complete."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from albertine import progress
from albertine.atomic import atomic_file
from albertine.errors import InputError
from albertine.storage.cache import locked_path, output_path
from albertine.storage.objects import (
    check_can_write,
    display_path,
    find_object,
    is_stored_folder,
    object_writer,
    open_file,
    remove_object,
)
from albertine.storage.upload import report_local_result_on_failure
from albertine.storage.urls import storage_url

_BLOCK_BYTES = 4 << 20


def check_output_file(out: Path) -> None:
    """Raise `InputError` if a new file cannot be written to a path or URL."""
    check_output_path(out)
    if output_exists(out):
        raise InputError(f"{display_path(out)}: exists already; name another file or remove it")


def check_output_path(out: Path) -> None:
    """Raise `InputError` if a path or URL cannot be a file: it is a folder, or has no folder to be in."""
    url = storage_url(out)
    if url is not None:
        check_can_write(url)
    if out.is_dir() if url is None else is_stored_folder(url):
        raise InputError(f"{display_path(out)}: a folder; name a file")
    if url is None:
        if out.exists() and not out.is_file():
            raise InputError(
                f"{display_path(out)}: a pipe or a device, not a regular file; name another file"
            )
        parent = next(parent for parent in out.absolute().parents if parent.exists())
        if not parent.is_dir():
            raise InputError(f"{parent}: not a folder; name another path")
        if not os.access(parent, os.W_OK | os.X_OK):
            raise InputError(f"{parent}: no permission to write there; name another path")


def output_exists(out: Path) -> bool:
    """Return whether there is a file at a path or URL to write to."""
    url = storage_url(out)
    return out.is_file() if url is None else find_object(url) is not None


@contextmanager
def output_file(out: Path) -> Iterator[Path]:
    """Yield a temporary local path to write; the file appears at `out` when the block ends without an error.

    If the upload to a URL fails, the finished file stays on this machine, and the error names it.
    """
    url = storage_url(out)
    if url is None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_file(out) as partial:
            yield partial
        return
    file = output_path(url)
    with locked_path(file, url):
        with atomic_file(file) as partial:
            yield partial
        with report_local_result_on_failure(file, url):
            _upload_file(file, url)
        file.unlink()


def _upload_file(file: Path, url: str) -> None:
    """Upload a file to a URL at which there is none."""
    if output_exists(Path(url)):  # another machine may have written it meanwhile
        raise InputError(f"{url}: exists already; name another file or remove it")
    size, has_begun = file.stat().st_size, False
    try:
        with (
            progress.progress_counter("Uploading", total=size, unit="bytes") as advance,
            file.open("rb") as source,
            object_writer(url) as target,
        ):
            has_begun = True
            while block := _read_block(source, file):
                target.write(block)
                advance(len(block))
    except BaseException:
        if has_begun:
            _remove_incomplete(url)
        raise


def _remove_incomplete(url: str) -> None:
    """Remove the object of a failed upload, which the library has completed with what was sent so far."""
    try:
        remove_object(url)
    except InputError:
        progress.print_message(f"{url}: may be incomplete, and cannot be removed now; remove it")


def _read_block(source: BinaryIO, file: Path) -> bytes:
    try:
        return source.read(_BLOCK_BYTES)
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror})") from None


def write_one_of_several_files(out: Path, text: str) -> None:
    """Write a file that belongs to a set; if it exists, it must have the same content.

    After an interruption, the same calls complete the set. They never replace other files.
    """
    check_output_path(out)
    if output_exists(out):
        with open_file(out) as stream:
            if stream.read() == text.encode():
                return
        name = display_path(out)
        raise InputError(f"{name}: exists already with other content; name another path or remove it")
    with output_file(out) as partial:
        partial.write_text(text, encoding="utf-8")

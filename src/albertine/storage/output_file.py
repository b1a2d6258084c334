"""Single files that a command writes, at a local path or a URL: they appear when they are complete."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from albertine import progress
from albertine.atomic import atomic_file
from albertine.errors import InputError
from albertine.storage.cache import work_folder
from albertine.storage.objects import (
    display_path,
    find_object,
    object_writer,
    open_file,
    refuse_read_only,
    remove_object,
)
from albertine.storage.urls import storage_url

_BLOCK_BYTES = 4 << 20


def check_output_file(out: Path) -> None:
    """Raise `InputError` if a new file cannot be written to a path or URL."""
    if output_exists(out):
        raise InputError(f"{display_path(out)}: exists already; name another file or remove it")
    if storage_url(out) is None and out.is_dir():
        raise InputError(f"{out}: a folder; name a file")


def output_exists(out: Path) -> bool:
    """Return whether there is a file at a path or URL to write to."""
    url = storage_url(out)
    if url is None:
        return out.is_file()
    refuse_read_only(url)
    return find_object(url) is not None


@contextmanager
def output_file(out: Path) -> Iterator[Path]:
    """Yield a temporary local path to write; the file appears at `out` when the block ends without an error.

    If the upload to a URL fails, the finished file stays on this machine, and the error names it.
    """
    url = storage_url(out)
    file = out if url is None else work_folder(url)
    file.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(file) as partial:
        yield partial
    if url is not None:
        try:
            _upload_file(file, url)
        except InputError as error:
            raise InputError(f"{error}; the finished file is {file}") from None
        file.unlink()


def _upload_file(file: Path, url: str) -> None:
    """Upload a file to a URL at which there is none."""
    size = file.stat().st_size
    try:
        with (
            progress.progress_counter("Uploading", total=size, unit="bytes") as advance,
            file.open("rb") as source,
            object_writer(url) as target,
        ):
            while block := source.read(_BLOCK_BYTES):
                target.write(block)
                advance(len(block))
    except KeyboardInterrupt:
        progress.print_message(f"{url}: not uploaded; the finished file is {file}")
        remove_object(url)  # the library has completed it with what was sent so far
        raise


def write_one_of_several_files(out: Path, text: str) -> None:
    """Write a file that belongs to a set; if it exists, it must have the same content.

    After an interruption, the same calls complete the set. They never replace other files.
    """
    if output_exists(out):
        with open_file(out) as stream:
            if stream.read() == text.encode():
                return
    check_output_file(out)
    with output_file(out) as partial:
        partial.write_text(text, encoding="utf-8")

"""Uploads local folders, so that a reader sees the former version or the new one, whole.

    1. an object for each file whose content is not there yet, never in place of one in use
    2. the manifest
    3. removal of the objects that only the former version used

A killed upload leaves the former version as it was; the next upload completes it. Objects that the killed one
has written, and that no manifest names, stay: another program, or an upload that is still running, may need
them.
"""

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from albertine import progress
from albertine.atomic import refuse_existing_folder, remove_path
from albertine.errors import InputError, WorkError
from albertine.storage.cache import locked_path, output_path, work_folder
from albertine.storage.folder_manifest import (
    FOLDER_MANIFEST,
    UNFINISHED,
    FileEntry,
    FolderManifest,
    write_folder_manifest,
)
from albertine.storage.objects import (
    check_can_write,
    find_object,
    list_objects,
    object_writer,
    remove_object,
)
from albertine.storage.urls import join_url, storage_url

_BLOCK_BYTES = 4 << 20


def refuse_existing_url(url: str) -> None:
    """Raise `InputError` if a folder on object storage has files, unless they are of an unfinished upload."""
    check_can_write(url)
    objects = list_objects(url)
    is_folder = bool(objects) and (UNFINISHED not in objects or FOLDER_MANIFEST in objects)
    if is_folder or find_object(url) is not None:
        raise InputError(f"{url}: exists already; name another folder or remove it")


def upload_new_folder(folder: Path, url: str) -> None:
    """Upload a finished folder to a URL at which there is none."""
    refuse_existing_url(url)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    total = sum(path.stat().st_size for path in files)
    with progress.progress_counter("Uploading", total=total, unit="bytes") as advance:
        upload_files(
            {path.relative_to(folder).as_posix(): path for path in files}, url, None, advance=advance
        )


def upload_files(
    files: dict[str, Path],
    url: str,
    former: FolderManifest | None,
    *,
    writer: str = "",
    leftover: set[str] | None = None,
    advance: Callable[[int], None] = lambda _: None,
) -> FolderManifest:
    """Make a folder consist of some files, and return its manifest.

    Args:
        files: local file of each name. Bytes that a file gains meanwhile are not uploaded.
        url: URL of the folder.
        former: manifest of the version that is there; None if there is none.
        writer: identifier of this process, for the manifest.
        leftover: objects that failed calls have written and no manifest names; a call adds its own if it
            fails, and removes them otherwise.
        advance: called with the bytes that were uploaded or need no upload.
    """
    if former is None:
        with object_writer(join_url(url, UNFINISHED)) as stream:
            stream.write(f"This folder is complete when it has an {FOLDER_MANIFEST}.\n".encode())
        former, former_objects = FolderManifest({}), {UNFINISHED}
    else:
        former_objects = former.objects
    leftover = set() if leftover is None else leftover
    known = {(entry.sha256, entry.size): entry for entry in former.files.values()}
    used = {*former_objects, FOLDER_MANIFEST}
    entries: dict[str, FileEntry] = {}
    for name, path in files.items():
        entries[name] = _upload_unless_known(name, path, url, known, used, leftover)
        advance(entries[name].size)
    manifest = FolderManifest(entries, writer)
    if manifest != former:
        write_folder_manifest(url, manifest)
    for unused_object in sorted((former_objects | leftover) - manifest.objects):
        remove_object(join_url(url, unused_object))
    leftover.clear()
    return manifest


def _upload_unless_known(
    name: str,
    path: Path,
    url: str,
    known: dict[tuple[str, int], FileEntry],
    used: set[str],
    leftover: set[str],
) -> FileEntry:
    """Return the entry of a file; if no object has its content, upload it, and add it to the known ones."""
    with path.open("rb") as stream:
        size, checksum = _measure(stream)
        if (checksum, size) not in known:
            entry = FileEntry(name if name not in used else f"{name}.{checksum[:16]}", size, checksum)
            stream.seek(0)
            leftover.add(entry.object)
            _upload(stream, size, join_url(url, entry.object))
            known[checksum, size] = entry
            used.add(entry.object)
        return known[checksum, size]


def _measure(stream: BinaryIO) -> tuple[int, str]:
    """Return the number of bytes of a file and their checksum."""
    size, digest = 0, hashlib.sha256()
    while block := stream.read(_BLOCK_BYTES):
        size += len(block)
        digest.update(block)
    return size, digest.hexdigest()


def _upload(stream: BinaryIO, size: int, url: str) -> None:
    """Upload the first `size` bytes of a file."""
    with object_writer(url) as target:
        while size > 0 and (block := stream.read(min(size, _BLOCK_BYTES))):
            target.write(block)
            size -= len(block)


def check_output_folder(out: Path) -> None:
    """Raise `InputError` if a new folder cannot be written to a path or URL."""
    url = storage_url(out)
    if url is None:
        refuse_existing_folder(out)
    else:
        refuse_existing_url(url)


@contextmanager
def output_folder(out: Path) -> Iterator[Path]:
    """Yield the folder to write a result to: `out`, or if it is a URL, a folder that is then uploaded."""
    url = storage_url(out)
    if url is None:
        yield out
        return
    refuse_existing_url(url)
    folder = output_path(url)
    with locked_path(folder, url):
        if folder.exists():
            remove_path(folder)  # of a call whose upload failed
        yield folder
        _upload_and_remove(folder, url)


@contextmanager
def resumable_folder(url: str) -> Iterator[Path]:
    """Yield the local folder of a long work whose result is uploaded when the block ends without an error.

    The folder stays after an error or an interruption, so that the same command resumes there.
    """
    refuse_existing_url(url)
    folder = work_folder(url)
    with locked_path(folder, url):
        yield folder
        _upload_and_remove(folder, url)


def _upload_and_remove(folder: Path, url: str) -> None:
    with report_local_result_on_failure(folder, url):
        upload_new_folder(folder, url)
    remove_path(folder)


@contextmanager
def report_local_result_on_failure(path: Path, url: str) -> Iterator[None]:
    """Report the local path of a finished result if its upload fails or is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        progress.print_message(f"{url}: not uploaded; the finished result is {path}")
        raise
    except InputError as error:
        raise InputError(f"{error}; the finished result is {path}") from None
    except OSError as error:
        raise WorkError(f"{url}: not uploaded ({error.strerror}); the finished result is {path}") from None

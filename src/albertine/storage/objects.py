"""Single objects: listing, reading by ranges, and atomic writes.

An object appears when its upload ends, not before, because the stores publish it then.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from albertine.errors import InputError
from albertine.storage.file_systems import find_file_system
from albertine.storage.store_errors import described_errors
from albertine.storage.urls import join_url, storage_url

_READ_ATTEMPTS = 4  # of an object that is replaced while it is read


@dataclass(frozen=True)
class StoredObject:
    """An object that exists.

    Attributes:
        url: its URL.
        size: bytes.
        version: changes with its content: on the hub the id of the content, else the time of the last change;
            empty if unknown.
    """

    url: str
    size: int
    version: str


class ReplacedError(InputError):
    """An object was replaced while it was read."""


def find_object(url: str) -> StoredObject | None:
    """Return the object at a URL; None if there is none."""
    with described_errors(url):
        filesystem, path = find_file_system(url)
        info = filesystem.get_file_info(path)
        versions = _hub_versions(filesystem, path) if info.size is not None and url.startswith("hf:") else {}
        return _stored_object(url, info, versions.get(path, ""))


def is_stored_folder(url: str) -> bool:
    """Return whether there are objects below a URL."""
    from pyarrow.fs import FileType

    with described_errors(url):
        filesystem, path = find_file_system(url)
        return bool(filesystem.get_file_info(path).type == FileType.Directory)


def list_objects(url: str) -> dict[str, StoredObject]:
    """Return all objects below a folder, by their names relative to it; empty if there are none."""
    from pyarrow.fs import FileSelector

    objects = {}
    with described_errors(url):
        filesystem, path = find_file_system(url)
        # The option would hide a missing bucket on S3; on others, a missing folder raises without it.
        selector = FileSelector(path, allow_not_found=not url.startswith("s3:"), recursive=True)
        try:
            infos = filesystem.get_file_info(selector)
        except FileNotFoundError:
            return {}
        versions = _hub_versions(filesystem, path) if infos and url.startswith("hf:") else {}
        for info in infos:
            name = info.path.strip("/")[len(path) :].strip("/")
            if found := _stored_object(join_url(url, name), info, versions.get(info.path, "")):
                objects[name] = found
    return dict(sorted(objects.items()))


def _hub_versions(filesystem: Any, path: str) -> dict[str, str]:
    """Return the ids of the contents below a folder of the hub, which keeps no times of modification."""
    details = filesystem.handler.fs.find(path, detail=True)
    return {name: str(detail.get("blob_id", "")) for name, detail in details.items()}


class _ObjectReader(io.RawIOBase):
    """An object as a file without a buffer: each read requests a range of bytes.

    If the object was replaced by a shorter one, the library fills the rest of a range with random memory. So
    it must be the expected one at the end, after the last read, and after a failed one.
    """

    def __init__(self, url: str, expected: StoredObject | None):
        self._url, self._position, self._is_unchecked = url, 0, False
        with described_errors(url):
            filesystem, path = find_file_system(url)
            self._file = filesystem.open_input_file(path)
        self._expected = expected or find_object(url)
        self._size = 0 if self._expected is None else self._expected.size
        if self._size != int(self._file.size()):
            raise self._replaced_error()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        if start + offset < 0:
            raise ValueError(f"negative position {start + offset}")
        self._position = start + offset
        return self._position

    def tell(self) -> int:
        return self._position

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), self._size - self._position)
        if size <= 0:  # the stores refuse a range that begins at the end
            return 0
        try:
            with described_errors(self._url):
                content = self._file.read_at(size, self._position)
        except InputError:
            self._check_unchanged()
            raise
        self._is_unchecked = True
        buffer[: len(content)] = content
        self._position += len(content)
        if self._position == self._size or not content:
            self._check_unchanged()
        return len(content)

    def _check_unchanged(self) -> None:
        self._is_unchecked = False
        if find_object(self._url) != self._expected:
            raise self._replaced_error()

    def _replaced_error(self) -> ReplacedError:
        return ReplacedError(f"{self._url}: replaced while it was read; run the command again")

    def close(self) -> None:
        try:
            if not self.closed:
                self._file.close()
                if self._is_unchecked:
                    self._check_unchanged()
        finally:
            super().close()


def open_object(url: str, buffer_bytes: int = 1 << 18, expected: StoredObject | None = None) -> BinaryIO:
    """Return an object as a file, which reads ranges of bytes.

    Reading its end, or closing it, raises `ReplacedError` if the object is not the expected one any more.

    Args:
        url: its URL.
        buffer_bytes: bytes of the smallest range. Each range is a request, which takes much longer than on
            a disk, so a larger one is better for reading from start to end.
        expected: the object as it was found before; by default as it is now.
    """
    return io.BufferedReader(_ObjectReader(url, expected), buffer_bytes)


def read_object(url: str, max_bytes: int) -> bytes | None:
    """Return the content of an object; None if there is none. Raises `InputError` if it is larger."""
    for _ in range(_READ_ATTEMPTS):
        found = find_object(url)
        if found is None:
            return None
        if found.size > max_bytes:
            raise InputError(
                f"{url}: larger than {max_bytes:,} bytes, the limit for such a file; upload it again"
            )
        with suppress(ReplacedError), open_object(url) as stream:
            content = stream.read(max_bytes)
            if len(content) == found.size and find_object(url) == found:
                return content
    raise ReplacedError(f"{url}: replaced each time it was read; run the command again later")


@contextmanager
def object_writer(url: str) -> Iterator[BinaryIO]:
    """Yield a file to write; the object appears, or replaces a former one, when the block ends.

    If the block raises an error, the library publishes what was written, so prepare the content before it.
    """
    refuse_read_only(url)
    with described_errors(url):
        filesystem, path = find_file_system(url)
        # By default, the library would compress an object named .gz or .zst.
        with filesystem.open_output_stream(path, compression=None) as stream:
            yield cast(BinaryIO, stream)


def check_can_write(url: str) -> None:
    """Raise `InputError` for a URL that can only be read, or whose bucket does not exist."""
    from pyarrow.fs import FileType

    refuse_read_only(url)
    with described_errors(url):
        filesystem, path = find_file_system(url)
    try:
        bucket = filesystem.get_file_info(path.partition("/")[0])
    except Exception:  # credentials may allow the objects and not the bucket; of many types
        return
    if bucket.type == FileType.NotFound:
        raise InputError(f"{url}: no such bucket; check the name")


def refuse_read_only(url: str) -> None:
    """Raise `InputError` for a URL that can only be read."""
    if url.startswith("hf:"):
        raise InputError(
            f"{url}: cannot write to the hub; write to a local path, and upload it with `hf upload`"
        )


def remove_object(url: str) -> None:
    """Remove an object if it exists."""
    with described_errors(url):
        filesystem, path = find_file_system(url)
        try:
            filesystem.delete_file(path)
        except FileNotFoundError:
            return


def open_file(path: Path, buffer_bytes: int = 1 << 18) -> BinaryIO:
    """Return a local file, or an object if the path is a URL, opened for reading; see `open_object`."""
    url = storage_url(path)
    return path.open("rb") if url is None else open_object(url, buffer_bytes)


def file_size(path: Path) -> int:
    """Return the bytes of a local file, or of an object if the path is a URL."""
    url = storage_url(path)
    if url is None:
        return path.stat().st_size
    found = find_object(url)
    if found is None:
        raise InputError(f"{url}: no such file")
    return found.size


def display_path(path: Path) -> str:
    """Return a local path or a URL for a message."""
    return storage_url(path) or str(path)


def _stored_object(url: str, info: Any, version: str = "") -> StoredObject | None:
    from pyarrow.fs import FileType

    if info.type != FileType.File:
        return None
    return StoredObject(url, int(info.size or 0), version or str(info.mtime_ns or ""))

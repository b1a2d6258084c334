"""Single objects: listing, reading by ranges, and atomic writes.

An object appears when its upload ends, not before, because the stores publish it then. Every error
is an `InputError` of one line with the URL; of the library's message, it repeats only the kind of the
error, because the rest may hold keys.
"""

import io
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, cast

from albertine.errors import AlbertineError, InputError
from albertine.storage.urls import credentials_advice, join_url, storage_url

_CONNECT_SECONDS, _REQUEST_SECONDS, _ATTEMPTS = 10, 60, 4
_METADATA_SECONDS = 3.0
_READ_ATTEMPTS = 4  # of an object that is replaced while it is read
_REGION_VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION")
_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_EMULATOR_VARIABLES = ("STORAGE_EMULATOR_HOST",)
_ERROR_NAME = re.compile(r"AWS Error ([A-Z_]+)|Status\(([A-Z_]+)")
_CURL_REASON = re.compile(r"curlCode: \d+, ([\w ,.'-]{1,80})")
_DENIED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS|SIGNATURE|TOKEN|CREDENTIALS|PERMISSION_DENIED|UNAUTH|403|401"
)


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
        filesystem, path = _resolve(url)
        info = filesystem.get_file_info(path)
        versions = _hub_versions(filesystem, path) if info.size is not None and url.startswith("hf:") else {}
        return _stored_object(url, info, versions.get(path, ""))


def is_stored_folder(url: str) -> bool:
    """Return whether there are objects below a URL."""
    from pyarrow.fs import FileType

    with described_errors(url):
        filesystem, path = _resolve(url)
        return bool(filesystem.get_file_info(path).type == FileType.Directory)


def list_objects(url: str) -> dict[str, StoredObject]:
    """Return all objects below a folder, by their names relative to it; empty if there are none."""
    from pyarrow.fs import FileSelector

    objects = {}
    with described_errors(url):
        filesystem, path = _resolve(url)
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
            filesystem, path = _resolve(url)
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
        filesystem, path = _resolve(url)
        # By default, the library would compress an object named .gz or .zst.
        with filesystem.open_output_stream(path, compression=None) as stream:
            yield cast(BinaryIO, stream)


def check_can_write(url: str) -> None:
    """Raise `InputError` for a URL that can only be read, or whose bucket does not exist."""
    from pyarrow.fs import FileType

    refuse_read_only(url)
    with described_errors(url):
        filesystem, path = _resolve(url)
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
        filesystem, path = _resolve(url)
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


@contextmanager
def described_errors(url: str) -> Iterator[None]:
    """Raise the errors of the libraries as `InputError`, with the URL and what to do."""
    try:
        yield
    except AlbertineError:
        raise
    except FileNotFoundError:
        raise InputError(f"{url}: no such file or folder") from None
    except Exception as error:  # the libraries raise many types
        raise InputError(f"{url}: {_problem(url, error)}") from None


def _problem(url: str, error: Exception) -> str:
    """Return what is wrong and what to do, without the words of the library."""
    text = str(error)
    if "OAuth2 access token" in text:  # the kind of the error would be that of a lost connection
        return f"no valid credentials; they belong {credentials_advice(url)}"
    match = _ERROR_NAME.search(text)
    name = next(filter(None, match.groups())) if match else type(error).__name__
    if "NO_SUCH_BUCKET" in text or "bucket does not exist" in text or name == "RepositoryNotFoundError":
        return "no such bucket or repository; check the name"
    if _DENIED.search(name) or "HTTP response code 403" in text or isinstance(error, PermissionError):
        return f"access denied ({name}); check the permissions, and the credentials {credentials_advice(url)}"
    reason = _CURL_REASON.search(text)
    if reason or "NETWORK" in name or "UNAVAILABLE" in name or isinstance(error, ConnectionError):
        return f"no connection ({reason[1].strip() if reason else name}); check the network and the endpoint"
    return f"the object store reports {name}; check the URL, and run the command again"


def _stored_object(url: str, info: Any, version: str = "") -> StoredObject | None:
    from pyarrow.fs import FileType

    if info.type != FileType.File:
        return None
    return StoredObject(url, int(info.size or 0), version or str(info.mtime_ns or ""))


def _resolve(url: str) -> tuple[Any, str]:
    """Return the file system of a URL, and the path in it."""
    scheme, _, path = url.partition("://")
    bucket = path.partition("/")[0]
    if scheme == "s3":
        return _s3(bucket, *(_environment(names) for names in (_ENDPOINT_VARIABLES, _REGION_VARIABLES))), path
    if scheme != "gs":
        return _hf(), path
    emulator = _environment(_EMULATOR_VARIABLES)
    if not emulator and not _has_google_credentials():
        raise InputError(f"gs://{bucket}: no credentials; they belong {credentials_advice(url)}")
    return _gs(emulator), path


def _environment(names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := os.environ.get(name))), "")


@lru_cache(maxsize=16)
def _s3(bucket: str, endpoint: str, region: str) -> Any:
    """Return the file system for a bucket; credentials come from the environment, ~/.aws or the machine."""
    from pyarrow import fs

    scheme, _, host = endpoint.rpartition("://")
    if endpoint and scheme not in ("", "http", "https"):
        raise InputError(f"{_ENDPOINT_VARIABLES[1]}: not a URL; expected http:// or https:// and a host")
    if not endpoint and not region:
        region = fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(
        region=region or None,
        endpoint_override=host.rstrip("/") or None,
        scheme=scheme or None,
        connect_timeout=_CONNECT_SECONDS,
        request_timeout=_REQUEST_SECONDS,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        allow_delayed_open=True,  # a small object needs one request, not three
    )


@lru_cache(maxsize=4)
def _gs(emulator: str) -> Any:
    """Return the file system of Google, or of an emulator, which asks for no credentials."""
    from pyarrow import fs

    limit = timedelta(seconds=_REQUEST_SECONDS)
    if not emulator:
        return fs.GcsFileSystem(retry_time_limit=limit)
    scheme, _, host = emulator.rpartition("://")
    if scheme not in ("", "http", "https") or not host.strip("/"):
        raise InputError(f"{_EMULATOR_VARIABLES[0]}: not a URL; expected http:// or https:// and a host")
    return fs.GcsFileSystem(
        anonymous=True,
        scheme=scheme or "http",
        endpoint_override=host.rstrip("/"),
        retry_time_limit=limit,
    )


def _has_google_credentials() -> bool:
    """Return whether there are credentials, valid or not: without any, the library tries for 100 seconds."""
    if os.environ.get("GOOGLE_APPLICATION_CREDENTIALS"):
        return True
    override = os.environ.get("GOOGLE_GCLOUD_ADC_PATH_OVERRIDE")  # as in the library that pyarrow uses
    file = override or Path.home() / ".config" / "gcloud" / "application_default_credentials.json"
    return Path(file).exists() or _is_google_machine()


@lru_cache(maxsize=1)
def _is_google_machine() -> bool:
    """Return whether the server answers that has the role of a machine of Google Cloud."""
    host, _, port = (os.environ.get("GCE_METADATA_ROOT") or "metadata.google.internal").partition(":")
    try:
        socket.create_connection((host, int(port or 80)), _METADATA_SECONDS).close()
    except (OSError, ValueError, OverflowError):
        return False
    return True


@lru_cache(maxsize=1)
def _hf() -> Any:
    from huggingface_hub import HfFileSystem
    from pyarrow import fs

    return fs.PyFileSystem(fs.FSSpecHandler(HfFileSystem()))

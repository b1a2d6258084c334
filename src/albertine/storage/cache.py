"""The cache of folders on object storage: each version of a folder is downloaded once, with checksums.

    CACHE/folders/KEY/NAME/...     files of one version of a folder; KEY is made of its URL and manifest
    CACHE/folders/KEY.download     locked while a process downloads into the folder
    CACHE/folders/KEY.use          locked by each process that uses the folder, until it ends
    CACHE/work/KEY/NAME/...        runs and builds that can resume, before and while they are uploaded
    CACHE/work/KEY/NAME.sources.json    from which text a finished corpus was built, until it is uploaded
    CACHE/outputs/KEY/NAME...      results of other commands, until they are uploaded

CACHE is the environment variable ALBERTINE_CACHE, or albertine/ in the user's cache folder. Downloaded
folders take at most ALBERTINE_CACHE_GB gigabytes: those that were not used for the longest time are removed.
"""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from albertine import progress
from albertine.atomic import atomic_file
from albertine.checksums import file_checksum, json_checksum
from albertine.errors import InputError
from albertine.file_lock import file_lock
from albertine.storage.folder_manifest import (
    FolderManifest,
    outer_manifest,
    read_folder_manifest,
    refuse_unfinished,
)
from albertine.storage.objects import ReplacedError, list_objects, open_object
from albertine.storage.urls import is_safe_name, join_url, private_advice, storage_url, url_name

_DEFAULT_GIGABYTES = 50
_BLOCK_BYTES = 4 << 20
_ATTEMPTS = 3  # another process may replace a folder while this one reads it
# Of a folder up to this size, all checksums are computed at each use, which takes about a second.
_CHECKED_BYTES = 1 << 30
_locks_in_use: dict[Path, int] = {}  # descriptors, open until the process ends


class _ChangedError(InputError):
    """A file differs from what the manifest or the list of the folder said."""


@dataclass(frozen=True)
class _RemoteFile:
    """A file to download.

    Attributes:
        url: URL of its object.
        size: bytes.
        sha256: checksum; empty if the folder has no manifest.
        stamp: modification time of the copy in the cache, in seconds; any write to the copy changes it.
    """

    url: str
    size: int
    sha256: str
    stamp: int


_url_of_copy: dict[str, str] = {}


def cache_folder() -> Path:
    """Return the folder for all that is cached."""
    named = os.environ.get("ALBERTINE_CACHE")
    if named:
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111  # never raises
    return Path(base) / "albertine"


def work_folder(url: str) -> Path:
    """Return the local folder of a run or a build for a URL, which can resume."""
    return cache_folder() / "work" / _key(url) / url_name(url)


def output_path(url: str) -> Path:
    """Return the local path of a result for a URL, before it is uploaded."""
    return cache_folder() / "outputs" / _key(url) / url_name(url)


@contextmanager
def locked_path(path: Path, url: str) -> Iterator[None]:
    """Keep other processes from writing the local result for a URL while the block runs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    busy = f"{url}: another process works on it, in {path}; wait for it, or name another URL"
    with file_lock(path.with_name(f"{path.name}.lock"), busy):
        yield


def local_folder(folder: Path, wanted: Callable[[str], bool] = lambda _: True) -> Path:
    """Return a local folder as it is, or for a URL its copy in the cache; see `download_folder`."""
    url = storage_url(folder)
    return folder if url is None else download_folder(url, wanted)


def download_folder(url: str, wanted: Callable[[str], bool] = lambda _: True) -> Path:
    """Return a local folder with the files of a folder on object storage; download those that it lacks.

    Args:
        url: URL of the folder.
        wanted: whether a file, by its name in the folder, is needed.
    """
    for attempt in range(_ATTEMPTS):
        files, version = _remote_files(url)
        if not files:
            raise InputError(f"{url}: no such folder, or an empty one{private_advice(url)}")
        wanted_files = {name: file for name, file in files.items() if wanted(name)}
        try:
            return _download(url, _key(url + version), wanted_files)
        except _ChangedError:
            if attempt + 1 == _ATTEMPTS:
                raise
    raise AssertionError


def _key(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def download_files(url: str, manifest: FolderManifest, folder: Path) -> None:
    """Download all files of a version of a folder into an empty local folder."""
    files = _manifest_files(url, manifest)
    total = sum(file.size for file in files.values())
    with progress.progress_counter(f"Downloading {url}", total=total, unit="bytes") as advance:
        for name, file in files.items():
            _download_file(folder / name, file, advance)


def _manifest_files(url: str, manifest: FolderManifest) -> dict[str, _RemoteFile]:
    return {
        name: _RemoteFile(join_url(url, entry.object), entry.size, entry.sha256, _stamp(entry.sha256))
        for name, entry in manifest.files.items()
    }


def _remote_files(url: str) -> tuple[dict[str, _RemoteFile], str]:
    """Return the files of a folder by name, and a text that identifies its version."""
    manifest = read_folder_manifest(url)
    if manifest is not None:
        return _manifest_files(url, manifest), manifest.checksum
    files = _files_of_parent(url)
    if files:
        return files, json_checksum([[name, file.url, file.sha256] for name, file in files.items()])
    objects = {name: found for name, found in list_objects(url).items() if is_safe_name(name)}
    refuse_unfinished(url, objects, objects)
    version = json_checksum([[name, found.size, found.version] for name, found in objects.items()])
    return {
        name: _RemoteFile(found.url, found.size, "", _stamp(_key(f"{name} {found.version}")))
        for name, found in objects.items()
    }, version


def _files_of_parent(url: str) -> dict[str, _RemoteFile]:
    """Return the files of a folder inside one that has a manifest; equal files share an object there."""
    outer = outer_manifest(url)
    if outer is None:
        return {}
    parent, manifest = outer
    prefix = f"{url.removeprefix(parent).strip('/')}/"
    files = _manifest_files(parent, manifest)
    return {name.removeprefix(prefix): files[name] for name in files if name.startswith(prefix)}


def _stamp(hexadecimal: str) -> int:
    """Return a time between 1970 and 2004, which no write to a file gives it."""
    return int(hexadecimal[:7], 16) * 4


def _download(url: str, key: str, files: dict[str, _RemoteFile]) -> Path:
    folders = cache_folder() / "folders"
    folder = folders / key / url_name(url)
    folder.mkdir(parents=True, exist_ok=True)
    with waiting_lock(folders / f"{key}.download"):
        is_small = sum(file.size for file in files.values()) <= _CHECKED_BYTES
        missing = {
            name: file
            for name, file in files.items()
            if not _is_intact(folder / name, file, compare_checksum=is_small)
        }
        size = sum(file.size for file in missing.values())
        if missing:
            _make_room(folders, size, url, key)
            with progress.progress_counter(f"Downloading {url}", total=size, unit="bytes") as advance:
                for name, file in missing.items():
                    _download_file(folder / name, file, advance)
        _mark_in_use(folders / f"{key}.use")
    _url_of_copy[str(folder)] = url
    return folder


def with_urls(message: str) -> str:
    """Return a message that names the URLs of folders, in place of the copies that this process has read."""
    for copy, url in _url_of_copy.items():
        message = message.replace(copy, url)
    return message


def _is_intact(path: Path, file: _RemoteFile, *, compare_checksum: bool) -> bool:
    """Return whether the copy of a file in the cache is as it was downloaded."""
    if not path.is_file():
        return False
    state = path.stat()
    if (state.st_size, state.st_mtime_ns) != (file.size, file.stamp * 10**9):
        return False
    return not (compare_checksum and file.sha256) or file_checksum(path) == file.sha256


def _download_file(path: Path, file: _RemoteFile, advance: Callable[[int], None]) -> None:
    """Download a file, compare its size and checksum, and move it to its place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    size, digest = 0, hashlib.sha256()
    with atomic_file(path) as partial:
        try:
            source = open_object(file.url)
        except InputError as error:
            raise _ChangedError(str(error)) from None
        try:
            with source, partial.open("wb") as target:
                while block := source.read(_BLOCK_BYTES):
                    target.write(block)
                    digest.update(block)
                    size += len(block)
                    advance(len(block))
        except ReplacedError as error:
            raise _ChangedError(str(error)) from None
        if size != file.size or (file.sha256 and digest.hexdigest() != file.sha256):
            raise _ChangedError(f"{file.url}: damaged, or replaced meanwhile; upload it again")
        os.utime(partial, ns=(file.stamp * 10**9,) * 2)


# The limit of the cache, and the locks that protect folders in use from removal.


def _make_room(folders: Path, needed: int, url: str, key: str) -> None:
    """Remove the folders that were not used for the longest time, until a download fits into the limit."""
    limit = _cache_limit()
    if needed > limit:
        raise InputError(
            f"{url}: {needed / 1e9:.1f} GB, more than the cache may hold; set ALBERTINE_CACHE_GB to more "
            f"than {limit / 1e9:g}"
        )
    sizes = {path: _folder_size(path) for path in folders.iterdir() if path.is_dir()}
    total = sum(sizes.values())
    for path in sorted(sizes, key=_last_use):
        if total + needed <= limit:
            return
        if path.name != key and _remove_unused(path):
            total -= sizes[path]
    if total + needed > limit:
        progress.print_message(
            f"{url}: the cache takes {(total + needed) / 1e9:.1f} GB, more than ALBERTINE_CACHE_GB, because "
            "its other folders are in use"
        )


def _cache_limit() -> float:
    text = os.environ.get("ALBERTINE_CACHE_GB") or str(_DEFAULT_GIGABYTES)
    try:
        gigabytes = float(text)
    except ValueError:
        gigabytes = -1.0
    if not 0 <= gigabytes < 1e9:
        raise InputError(f"ALBERTINE_CACHE_GB={ascii(text)[:40]}: expected a number of gigabytes")
    return gigabytes * 1e9


def _folder_size(folder: Path) -> int:
    size = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(FileNotFoundError):  # another process moves or removes files
                size += Path(parent, name).stat().st_size
    return size


def _last_use(folder: Path) -> float:
    lock = folder.with_name(f"{folder.name}.use")
    return lock.stat().st_mtime if lock.exists() else 0.0


def _remove_unused(folder: Path) -> bool:
    """Remove a folder of the cache unless a process uses it; return whether it is removed."""
    locks = [folder.with_name(f"{folder.name}.{suffix}") for suffix in ("download", "use")]
    descriptors = [os.open(lock, os.O_RDWR | os.O_CREAT, 0o666) for lock in locks]
    try:
        for descriptor in descriptors:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
        return True
    except BlockingIOError:
        return False
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


@contextmanager
def waiting_lock(file: Path) -> Iterator[None]:
    """Hold an exclusive lock; wait while another process, such as another rank, holds it."""
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _mark_in_use(file: Path) -> None:
    """Protect a folder from removal until this process ends."""
    if file not in _locks_in_use:
        _locks_in_use[file] = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        fcntl.flock(_locks_in_use[file], fcntl.LOCK_SH)
    os.utime(file)

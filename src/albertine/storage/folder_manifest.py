"""The manifest of a folder on object storage: its files, with checksums. It is written last.

    FOLDER/albertine-folder.json     names of the files, and for each its object, size and checksum

A reader takes the files that the manifest names and no others, so it sees the former version or the new
one, and never a mixture. A file is stored under its own name, or under another if a former version uses
that name; two files of the same content may share an object. A folder without a manifest, which another
program has uploaded, is read as it is.
"""

import json
import re
from collections.abc import Collection
from dataclasses import asdict, dataclass

from albertine.checksums import json_checksum
from albertine.errors import InputError, check_format
from albertine.input_files import MAX_OBJECT_BYTES
from albertine.json_input import JsonError, dataclass_from_json, parse_json
from albertine.storage.objects import ReplacedError, find_object, object_writer, read_object
from albertine.storage.urls import is_safe_name, join_url

FOLDER_MANIFEST = "albertine-folder.json"
UNFINISHED = "albertine-unfinished"  # an object of a folder whose first upload has no manifest yet
_FORMAT = 1
_ADVICE = "upload the folder again"
_SHA256 = re.compile("[0-9a-f]{64}")
_MAX_SIZE = 1 << 53


@dataclass(frozen=True)
class FileEntry:
    """A file of a folder.

    Attributes:
        object: path of its object in the folder.
        size: bytes.
        sha256: checksum of the content.
    """

    object: str
    size: int
    sha256: str


@dataclass(frozen=True)
class FolderManifest:
    """The files of a folder.

    Attributes:
        files: the files, by name.
        writer: identifier of the process that wrote it, where several processes may write; else empty.
    """

    files: dict[str, FileEntry]
    writer: str = ""

    @property
    def checksum(self) -> str:
        """Checksum of the names, objects and contents of all files."""
        return json_checksum(asdict(self)["files"])

    @property
    def objects(self) -> set[str]:
        """The objects that the files need."""
        return {entry.object for entry in self.files.values()}


def write_folder_manifest(url: str, manifest: FolderManifest) -> None:
    """Write the manifest of a folder whose objects are complete; a former one is replaced atomically."""
    values = asdict(manifest)
    content = json.dumps({"format": _FORMAT, **values, "sha256": json_checksum(values)}, indent=1)
    with object_writer(join_url(url, FOLDER_MANIFEST)) as stream:
        stream.write(content.encode())


def read_folder_manifest(url: str) -> FolderManifest | None:
    """Return the manifest of a folder; None if it has none. Raises `InputError` if it is damaged."""
    content = _read_content(url)
    return None if content is None else _parse_manifest(url, content)


def _read_content(url: str) -> bytes | None:
    manifest_url = join_url(url, FOLDER_MANIFEST)
    try:
        return read_object(manifest_url, MAX_OBJECT_BYTES)
    except ReplacedError:
        raise
    except InputError as error:  # such as no connection: users know the folder, and not its manifest
        raise InputError(str(error).replace(manifest_url, url, 1)) from None


def _parse_manifest(url: str, content: bytes) -> FolderManifest:
    """Return the manifest of a folder; raise `InputError` if it is damaged."""
    manifest_url = join_url(url, FOLDER_MANIFEST)
    try:
        values = parse_json(content)
        if not isinstance(values, dict):
            raise JsonError("not an object")
        check_format(manifest_url, values.pop("format", None), _FORMAT, _ADVICE)
        if values.pop("sha256", None) != json_checksum(values):
            raise JsonError("wrong checksum")
        manifest = dataclass_from_json(FolderManifest, values)
        _check_entries(manifest)
    except JsonError as error:
        raise InputError(f"{manifest_url}: damaged ({error}); {_ADVICE}") from None
    return manifest


def outer_manifest(url: str) -> tuple[str, FolderManifest] | None:
    """Return the URL and the manifest of the closest folder around a URL that has one; None if none has.

    Raises `InputError` if one of them is not complete or its manifest is damaged. Folders that cannot be
    read, such as those for which the credentials do not suffice, have none. Nor has the hub, to which nothing
    is written.
    """
    scheme, _, path = url.partition("://")
    parts = [] if scheme == "hf" else path.split("/")
    for depth in range(len(parts) - 1, 0, -1):
        parent = f"{scheme}://{'/'.join(parts[:depth])}"
        try:
            content = _read_content(parent)
            is_unfinished = content is None and find_object(join_url(parent, UNFINISHED)) is not None
        except ReplacedError:
            raise
        except InputError:
            continue
        if is_unfinished:
            raise _unfinished(parent)
        if content is not None:
            return parent, _parse_manifest(parent, content)
    return None


def _unfinished(url: str) -> InputError:
    return InputError(f"{url}: an upload that is not complete; wait, or run its command again")


def refuse_unfinished(url: str, names: Collection[str], wanted: Collection[str]) -> None:
    """Raise `InputError` if some of the objects below a URL belong to a folder that is not complete.

    Args:
        url: URL of a folder.
        names: names of all objects in it.
        wanted: names of those that are to be read.
    """
    for name in names:
        folder, slash, last = name.rpartition("/")
        is_unfinished = last == UNFINISHED and f"{folder}{slash}{FOLDER_MANIFEST}" not in names
        if is_unfinished and any(each.startswith(folder + slash) for each in wanted):
            raise _unfinished(join_url(url, folder) if folder else url)


def _check_entries(manifest: FolderManifest) -> None:
    """Raise `JsonError` for a name or an object outside the folder, and for values that are no entry."""
    folders: set[str] = set()
    for name, entry in manifest.files.items():
        for path in (name, entry.object):
            if not is_safe_name(path) or path == FOLDER_MANIFEST:
                raise JsonError(f"{ascii(path)[:80]} is not the name of a file in the folder")
        if not _SHA256.fullmatch(entry.sha256) or not 0 <= entry.size < _MAX_SIZE:
            raise JsonError(f"{ascii(name)[:80]} has no valid size and checksum")
        parts = name.split("/")
        folders |= {"/".join(parts[:depth]) for depth in range(1, len(parts))}
    if shared := folders & manifest.files.keys():
        raise JsonError(f"{ascii(min(shared))[:80]} is both a file and a folder")

"""Finds texts on object storage by a URL: an object, a folder, or a pattern of these.

Names are sorted as local files are, and hidden names are left out, so the same files give the same corpus.
"""

from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path

from albertine.display import display_text
from albertine.errors import InputError
from albertine.storage.folder_manifest import outer_manifest, refuse_unfinished
from albertine.storage.objects import StoredObject, find_object, list_objects
from albertine.storage.urls import join_url, private_advice, storage_url
from albertine.text.file_names import EXPECTED_FILES, is_text_name, print_left_out


def find_stored_texts(url: str) -> list[StoredObject]:
    """Return the objects that a URL names: an object, the texts of a folder, or the matches of a pattern.

    In a pattern, `**` stands for any number of folders.
    """
    components = url.split("/")
    depth = next((index for index, part in enumerate(components) if has_magic(part)), len(components))
    if depth < 3:
        raise InputError(f"{url}: a pattern in place of a bucket; name the bucket")
    found = find_object(url)  # its name may contain the characters of a pattern
    if found is not None:
        return [found]
    folder = "/".join(components[:depth])
    objects = list_objects(folder)
    names = _matching_names(list(objects), components[depth:])
    if not names:
        raise InputError(
            f"{url}: no such object, and no text files in such a folder; {EXPECTED_FILES}"
            f"{private_advice(url)}"
        )
    if depth == len(components):
        print_left_out(url, (name for name in objects if not _is_hidden(name)))
    refuse_unfinished(folder, objects, names)
    outer_manifest(folder)  # which must be complete, too
    for name in names:
        _refuse_unsupported_name(folder, name)
    return [objects[name] for name in names]


def _refuse_unsupported_name(folder: str, name: str) -> None:
    """Raise `InputError` for the name of an object that is no path, or would be taken for a secret."""
    expected = join_url(folder, name)
    with suppress(InputError):
        if storage_url(Path(expected)) == expected:
            return
    raise InputError(
        f"{folder}: the name of an object is not supported: {display_text(ascii(name)[1:-1])}; rename it, or "
        "name the texts with a pattern that leaves it out"
    )


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") for part in name.split("/"))


def _matching_names(names: Sequence[str], patterns: Sequence[str]) -> list[str]:
    """Return the names that a pattern matches, and the texts in folders that it matches, in order."""
    matches: dict[str, list[str]] = {}  # the names of each matching file or folder
    for name in names:
        parts = name.split("/")
        for depth in range(len(parts) + 1):
            is_text = is_text_name(name) and not _is_hidden("/".join(parts[depth:]))
            is_file = depth == len(parts)
            if (is_file or is_text) and _matches(parts[:depth], patterns):
                matches.setdefault("/".join(parts[:depth]), []).append(name)
    return list(
        dict.fromkeys(
            name
            for match in sorted(matches)
            for name in sorted(matches[match], key=lambda name: name.split("/"))
        )
    )


def _matches(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """Return whether the components of a path match those of a pattern; `*` matches no hidden name."""
    if not patterns:
        return not parts
    first = patterns[0]
    is_visible = bool(parts) and (first.startswith(".") or not parts[0].startswith("."))
    if first == "**":
        return _matches(parts, patterns[1:] or ["*"]) or (is_visible and _matches(parts[1:], patterns))
    return is_visible and fnmatchcase(parts[0], first) and _matches(parts[1:], patterns[1:])

"""Finds texts on object storage by a URL: an object, a folder, or a pattern of these.

Names are sorted as local files are, and hidden names are left out, so the same files give the same corpus.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path

from albertine.display import display_text
from albertine.errors import InputError
from albertine.storage.folder_manifest import outer_manifest, refuse_unfinished
from albertine.storage.objects import StoredObject, find_object, list_objects
from albertine.storage.urls import join_url, private_advice, storage_url


def find_stored_texts(url: str, is_text: Callable[[str], bool]) -> list[StoredObject]:
    """Return the objects that a URL names.

    Args:
        url: URL of an object, a folder or a pattern, in which `**` stands for any number of folders.
        is_text: returns whether an object of a folder is a text, by its name.
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
    names = _matching_names(list(objects), components[depth:], is_text)
    if not names:
        raise InputError(
            f"{url}: no such object, and no text files in such a folder; expected .txt, .text, .jsonl or "
            f".ndjson, also compressed as .gz or .zst, or .parquet{private_advice(url)}"
        )
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


def _matching_names(
    names: Sequence[str], patterns: Sequence[str], is_text: Callable[[str], bool]
) -> list[str]:
    """Return the names that a pattern matches, and the texts in folders that it matches, in order."""
    matches: dict[str, list[str]] = {}  # the names of each matching file or folder
    for name in names:
        parts = name.split("/")
        for depth in range(len(parts) + 1):
            is_visible = not any(part.startswith(".") for part in parts[depth:])
            is_file = depth == len(parts)
            if (is_file or (is_visible and is_text(name))) and _matches(parts[:depth], patterns):
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

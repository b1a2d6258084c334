"""Replacements of a file: links, devices, pipes, folders, a huge file, no file."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType

_SPARSE_BYTES = 300 << 20


def _make_sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(_SPARSE_BYTES)


def _make_unreadable(path: Path) -> None:
    path.touch()
    path.chmod(0)


SPECIAL_FILES: Mapping[str, Callable[[Path], None]] = MappingProxyType(
    {
        "missing": lambda _: None,
        "a folder": Path.mkdir,
        "a pipe": os.mkfifo,
        "a link to itself": lambda path: path.symlink_to(path.name),
        "a link to nothing": lambda path: path.symlink_to("nothing"),
        "a link to its folder": lambda path: path.symlink_to("."),
        "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
        "a link to /dev/null": lambda path: path.symlink_to("/dev/null"),
        "300 MB of zeros": _make_sparse,
        "unreadable": _make_unreadable,
    }
)

"""Snapshots of a folder: names and digests of its files, without what differs between two equal runs."""

import hashlib
import json
import re
from collections.abc import Iterable
from fnmatch import fnmatch
from pathlib import Path

FolderState = dict[str, str]

_TIMING_KEYS = {"seconds", "tokens_per_second", "utilization", "peak_memory"}
# Which checkpoints exist depends on where a run was interrupted. Lock files are empty, and stay.
_NOT_COMPARED = re.compile(r".*\.lock|(?:.*/)?checkpoints/(?!.*\.partial).*")
_FOLDER, _PRESENT, _EMPTY = "folder", "present", "empty"


def take_snapshot(folder: Path, present_only: Iterable[str] = ()) -> FolderState:
    """Return the digest of each file under a folder, by its relative path; folders are included.

    Args:
        folder: the folder.
        present_only: patterns of files of which only the presence counts, because they contain times.
    """
    patterns = ("*.svg", *present_only)  # a plot contains the time at which it was drawn
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if _NOT_COMPARED.fullmatch(name):
            continue
        if path.is_dir():
            found[name] = _FOLDER
        elif any(fnmatch(name, pattern) for pattern in patterns):
            found[name] = _PRESENT if path.stat().st_size else _EMPTY
        else:
            found[name] = _digest(path)
    return found


def first_difference(expected: FolderState, found: FolderState) -> str:
    """Return the most important difference of two snapshots in words; empty if there is none."""
    if missing := sorted(expected.keys() - found.keys()):
        return f"{missing[0]} is missing"
    if changed := sorted(name for name in expected if expected[name] != found[name]):
        return f"{changed[0]} differs from that of an undisturbed run"
    if left_over := sorted(found.keys() - expected.keys()):
        return f"{left_over[0]} is left over"
    return ""


def _digest(file: Path) -> str:
    content = file.read_bytes()
    if file.name == "metrics.jsonl":
        content = b"\n".join(map(_without_times, content.splitlines()))
    return hashlib.sha256(content).hexdigest()


def _without_times(line: bytes) -> bytes:
    try:
        values = json.loads(line)
        return json.dumps({key: values[key] for key in values if key not in _TIMING_KEYS}).encode()
    except (ValueError, TypeError):
        return line

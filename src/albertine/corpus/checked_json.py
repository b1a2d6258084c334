"""JSON files of an unfinished corpus, with a checksum that detects damage."""

import hashlib
import json
from pathlib import Path
from typing import Any

from albertine.atomic import atomic_file


def write_checked_json(file: Path, value: Any) -> None:
    """Write a value and its checksum, as an atomic write."""
    with atomic_file(file) as partial:
        partial.write_text(json.dumps({"value": value, "sha256": _digest(value)}), encoding="utf-8")


def read_checked_json(file: Path) -> Any:
    """Return the value of a file; raise `ValueError` if it is damaged."""
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        value, expected = document["value"], document["sha256"]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{file}: not a checked file") from error
    if _digest(value) != expected:
        raise ValueError(f"{file}: wrong checksum")
    return value


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

"""JSON files with a checksum, for work that may be interrupted."""

import json
from pathlib import Path
from typing import Any

from albertine.atomic import atomic_file
from albertine.checksums import json_checksum
from albertine.input_files import check_regular_file


def write_checked_json(file: Path, value: Any) -> None:
    """Write a JSON value and its checksum atomically."""
    with atomic_file(file) as partial:
        partial.write_text(json.dumps({"value": value, "sha256": json_checksum(value)}), encoding="utf-8")


def read_checked_json(file: Path) -> Any:
    """Return the value in a file of `write_checked_json`; raise `ValueError` if the file is damaged."""
    try:
        check_regular_file(file)
        document = json.loads(file.read_text(encoding="utf-8"))
        value, expected = document["value"], document["sha256"]
    except (KeyError, TypeError, RecursionError) as error:
        raise ValueError(f"{file}: no value with a checksum") from error
    if json_checksum(value) != expected:
        raise ValueError(f"{file}: wrong checksum")
    return value

"""SHA-256 checksums of files and JSON values, in hexadecimal; they detect damage."""

import hashlib
import json
from pathlib import Path
from typing import Any

from albertine.input_files import check_regular_file


def file_checksum(file: Path) -> str:
    """Return the checksum of the content of a regular file."""
    check_regular_file(file)
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def json_checksum(value: Any) -> str:
    """Return the checksum of a JSON value, which does not depend on the order of keys."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

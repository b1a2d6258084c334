"""Reads files that may be damaged or hostile: regular files only, and only up to a limit.

A file of a model or a run may be a link to a device, which has no end, or to a pipe, whose opening
may wait forever. Text and tables may be pipes; other modules read them.
"""

import json
import re
import stat
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.json_input import JsonError, parse_json

MAX_OBJECT_BYTES = 16_000_000  # parsed, JSON takes up to 30 times its size
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")


def check_regular_file(file: Path) -> None:
    """Raise `InputError` if the path is a device or a pipe; `OSError` if it does not exist."""
    mode = file.stat().st_mode
    if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):  # opening a folder raises an error by itself
        raise InputError(f"{file}: a device, pipe or socket; expected a regular file; replace it by one")


def read_bytes(file: Path, max_bytes: int) -> bytes:
    """Return the content of a regular file; raise `InputError` if it has more than `max_bytes`."""
    check_regular_file(file)
    with file.open("rb") as opened:
        content = opened.read(max_bytes + 1)
    if len(content) > max_bytes:
        raise InputError(
            f"{file}: larger than {max_bytes:,} bytes, the limit for such a file; get the file again"
        )
    return content


def read_json_object(file: Path, advice: str) -> dict[str, Any]:
    """Return the content of a file with one JSON object; raise `InputError` if it is anything else.

    Args:
        file: the file, see `read_json_value`.
        advice: what to do if the file is not valid.
    """
    values = read_json_value(file, advice)
    if not isinstance(values, dict):
        raise InputError(f"{file}: not a JSON object; {advice}")
    return values


def read_json_value(file: Path, advice: str) -> Any:
    """Return the content of a JSON file; raise `InputError` if it cannot be parsed.

    Text with unpaired surrogates, which cannot be encoded as UTF-8, is refused too.

    Args:
        file: the file, of at most `MAX_OBJECT_BYTES`.
        advice: what to do if the file is not valid.
    """
    content = read_bytes(file, MAX_OBJECT_BYTES)
    try:
        values = parse_json(content)
        if _SURROGATE_ESCAPE.search(content):
            json.dumps(values, ensure_ascii=False).encode()
    except JsonError as error:
        raise InputError(f"{file}: {error}; {advice}") from None
    except UnicodeEncodeError:
        raise InputError(f"{file}: an unpaired surrogate (such as \\ud800) in a text; {advice}") from None
    return values

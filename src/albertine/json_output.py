"""JSON text for people and other programs: no NaN, and no characters that a terminal would act on."""

import json
import math
from typing import Any


def json_text(value: object, *, indent: int | None = None) -> str:
    """Return a value as JSON in which control characters and unpaired surrogates are escaped.

    NaN and infinity, which JSON does not have, are null.
    """
    try:
        text = json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False)
    except ValueError:
        text = json.dumps(finite_json(value), indent=indent, ensure_ascii=False)
    lines = text.split("\n")
    if all(map(str.isprintable, lines)):
        return text
    return "\n".join("".join(map(_escaped, line)) for line in lines)


def finite_json(value: Any) -> Any:
    """Return a JSON value with None in place of NaN and infinity."""
    match value:
        case dict():
            return {key: finite_json(entry) for key, entry in value.items()}
        case list() | tuple():
            return [finite_json(entry) for entry in value]
        case float() if not math.isfinite(value):
            return None
        case _:
            return value


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04x}" if code < 1 << 16 else json.dumps(character)[1:-1]

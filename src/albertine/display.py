"""Values in messages: what users gave, short and on one line, and numbers of things."""

from collections.abc import Mapping
from pathlib import Path

MAX_DISPLAY_LENGTH = 80
_MAX_LONG_LENGTH = 150


def counted(count: int, noun: str) -> str:
    """Return a number of things, as in "1 row" or "1,200 rows"; the plural of the noun must end in s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def percent(count: int, total: int) -> str:
    """Return a share with enough digits that a small one is not 0%."""
    share = count / max(1, total)
    return f"{share:.0%}" if share >= 0.1 or not count else f"{100 * share:.2g}%"


_SHORT_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def toml_escaped(text: str) -> str:
    """Return text escaped for a basic string of TOML: on one line, without control characters."""

    def escaped(character: str) -> str:
        if character in '"\\':
            return "\\" + character
        if character in _SHORT_ESCAPES:
            return _SHORT_ESCAPES[character]
        return character if character.isprintable() else f"\\U{ord(character):08x}"

    return "".join(map(escaped, text))


def display_text(text: str, max_length: int = MAX_DISPLAY_LENGTH) -> str:
    """Return user input for an error message: on one line, truncated to `max_length` characters."""
    line = "".join(
        character if character.isprintable() else toml_escaped(character)
        for character in text[: max_length + 1]
    )
    return line if len(text) <= max_length else line[:max_length] + "..."


def display_long(value: object) -> str:
    """Return the name of a tensor or the reason of an error for an error message, on one line."""
    return display_text(" ".join(str(value).split()), _MAX_LONG_LENGTH)


def display_value(value: object) -> str:
    """Return a value for an error message, in TOML notation on one line."""
    if value is None:
        return "(not set)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{...}"
    return display_text(f'"{value}"' if isinstance(value, str | Path) else str(value))

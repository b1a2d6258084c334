"""A row of a table, and the texts in its cells."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from albertine.display import MAX_DISPLAY_LENGTH, display_text
from albertine.tasks.formats.decimals import DecimalSeparators
from albertine.text.unicode_check import is_valid_unicode

MAX_ROW_BYTES = 16 << 20
MAX_TEXT_BYTES = 2 << 20  # the token ids and offsets of a text take up to 400 times its size
ROW_TOO_LONG = f"a row of more than {MAX_ROW_BYTES >> 20} MiB"


@dataclass(frozen=True)
class TableRow:
    """One row of a table.

    Attributes:
        location: file and line, for error messages.
        number: index among all rows, from 0; counting invalid rows too, so that skipping them shifts none.
        cells: values by column.
        joined: the columns of each text that is joined from several, by the name that the user gave.
        kept: values to keep, by column; None if none are to be kept.
        decimals: reads decimal commas; None in tables where a comma can separate thousands.
    """

    location: str
    number: int
    cells: Mapping[str, Any]
    joined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kept: Mapping[str, Any] | None = None
    decimals: DecimalSeparators | None = None

    def text(self, column: str) -> str:
        """Return a cell that holds text; raise `RowError` if it does not.

        Of joined columns, the cells that are not blank, with a space between them.
        """
        if column in self.joined:
            names = [name for name in self.joined[column] if self.cells.get(name) is not None]
            if not names:
                raise RowError(f"columns {display_text(column)} hold nothing")
            texts = (self.text(name).strip() for name in names)
            return checked_text(" ".join(filter(None, texts)))
        value = self.cells.get(column)
        if not isinstance(value, str):
            advice = "; give the field to read a column of its own" if isinstance(value, dict) else ""
            raise RowError(f"column {display_text(column)} holds {describe_value(value)}, not text{advice}")
        return checked_text(value)

    def number_cell(self, column: str) -> Any:
        """Return a cell that should hold a number, with a decimal point."""
        value = self.cells.get(column)
        if self.decimals is None or not isinstance(value, str):
            return value
        try:
            return self.decimals.with_point(value, column)
        except ValueError as error:
            raise RowError(str(error)) from None


class RowError(ValueError):
    """An invalid row. The message lacks the location, which the caller adds."""


def checked_text(text: str) -> str:
    """Return the text; raise `RowError` if it is too long.

    Unpaired surrogates are an error, too: JSON allows them but not UTF-8.
    """
    if not is_valid_unicode(text):
        raise RowError(f"an unpaired surrogate in {display_text(ascii(text[:MAX_DISPLAY_LENGTH]))}")
    if 4 * len(text) > MAX_TEXT_BYTES and len(text.encode()) > MAX_TEXT_BYTES:
        raise RowError(f"a text of more than {MAX_TEXT_BYTES >> 20} MiB; shorten it")
    return text


def describe_value(value: object) -> str:
    """Return a text, or the type and the text of another value, for an error message."""
    if value is None or value == "":
        return "nothing"
    if isinstance(value, str):
        return display_text(value)
    name = "object" if isinstance(value, dict) else type(value).__name__
    try:
        return f"{name} {display_text(str(value))}"
    except RecursionError:
        return f"{name}, nested too deeply"

"""Decimal commas, as spreadsheets write them in many countries."""

import re
from collections import defaultdict

from albertine import progress
from albertine.display import display_text

_WHOLE = re.compile(r"[+-]?\d+")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}\.\d{3}")
_DECIMAL = re.compile(r"[+-]?\d+([.,])\d+")


def has_decimal_comma(text: str) -> bool:
    """Return whether a text is a number with a comma before its decimals."""
    number = _DECIMAL.fullmatch(text.strip())
    return number is not None and number[1] == ","


class DecimalSeparators:
    """Reads decimal commas in a table whose cells are separated by semicolons.

    In other tables, a comma could also separate thousands. A column with commas and points is refused, since
    its points could separate thousands, too.
    """

    def __init__(self) -> None:
        self._by_column: dict[str, str] = {}
        self._examples: defaultdict[str, dict[str, str]] = defaultdict(dict)  # by column and form of number

    def with_point(self, text: str, column: str) -> str:
        """Return a cell with a decimal point instead of a comma; other cells as they are.

        Raises `ValueError` if earlier cells of the column had the other separator.
        """
        self._warn_of_thousands(text.strip(), column)
        number = _DECIMAL.fullmatch(text.strip())
        if number is None:
            return text
        first = self._by_column.setdefault(column, number[1])
        if first != number[1]:
            name = "commas" if first == "," else "points"
            raise ValueError(
                f"column {display_text(column)} holds {display_text(text)}, below numbers with decimal "
                f"{name}; write all in one way"
            )
        return text.replace(",", ".")

    def _warn_of_thousands(self, number: str, column: str) -> None:
        """Print a message, once, if a column has numbers such as 1.500 and whole ones before any others."""
        if not number:
            return
        examples = self._examples[column]
        form = (
            "thousands" if _THOUSANDS.fullmatch(number) else "whole" if _WHOLE.fullmatch(number) else "other"
        )
        if form in examples:
            return
        examples[form] = number
        if examples.keys() == {"thousands", "whole"}:
            progress.print_message(
                f"column {display_text(column)}: {examples['thousands']} is read as a decimal number; if its "
                f"point separates thousands, as {examples['whole']} beside it suggests, leave the point out"
            )

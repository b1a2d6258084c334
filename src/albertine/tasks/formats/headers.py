"""Recognizes a first line that is a row of data and not the names of the columns."""

from collections.abc import Sequence
from itertools import pairwise


def looks_like_data(
    header: Sequence[str], rows: Sequence[Sequence[str]], label_column: str | None = None
) -> bool:
    """Return whether a header looks like a row of data, compared with the rows below it.

    It does if a name is a number in a column of numbers, or the name of the column of labels is the label
    of a row below. Numbers that count up are names, such as years, or the numbers of columns.

    Args:
        header: names of the columns.
        rows: the cells of the first rows.
        label_column: column of the labels; None if there is none.
    """
    rows = [row for row in rows if len(row) == len(header)]
    if not rows:
        return False
    if label_column in header:
        index = header.index(label_column)
        if label_column in {row[index].strip() for row in rows}:
            return True
    numeric = [index for index, name in enumerate(header) if is_number(name)]
    if _counts_up([float(header[index]) for index in numeric]):
        return False
    return any(all(is_number(row[index]) for row in rows) for index in numeric)


def is_number(cell: str) -> bool:
    """Return whether a text is a number."""
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _counts_up(numbers: Sequence[float]) -> bool:
    return len(numbers) > 1 and all(second - first == 1 for first, second in pairwise(numbers))

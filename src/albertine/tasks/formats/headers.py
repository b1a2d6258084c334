"""Detects a header that is a row of data, and a first row that is a header."""

import math
from collections.abc import Sequence
from itertools import pairwise

_COMMON_NAMES = {
    "text", "label", "labels", "sentence", "sentence1", "sentence2", "question", "context", "answer",
    "answers", "premise", "hypothesis", "review", "title", "body", "tokens", "tags", "id", "idx",
    "index", "class", "category", "target",
}  # fmt: skip


def looks_like_data(
    header: Sequence[str], rows: Sequence[Sequence[str]], label_column: str | None = None
) -> bool:
    """Return whether a header looks like a row of data, compared with the rows below it.

    It does if a name is a number in a column of numbers, or the name of the column of labels is the label
    of a row below. Consecutive numbers are names: years, or the numbers of columns.

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


def looks_like_names(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether the first row of a file looks like the names of its columns.

    It does if all its cells are common names, or if a column has a text in the first row and a number in all
    others, of which there must be two.
    """
    if not rows:
        return False
    first, rest = rows[0], [row for row in rows[1:] if len(row) == len(rows[0])]
    if all(cell.strip().lower() in _COMMON_NAMES for cell in first):
        return True
    return len(rest) > 1 and any(
        cell.strip() and not is_number(cell) and all(is_number(row[index]) for row in rest)
        for index, cell in enumerate(first)
    )


def is_number(cell: str) -> bool:
    """Return whether a text is a finite number."""
    try:
        return math.isfinite(float(cell))
    except ValueError:
        return False


def _counts_up(numbers: Sequence[float]) -> bool:
    return len(numbers) > 1 and all(second - first == 1 for first, second in pairwise(numbers))

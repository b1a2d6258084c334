"""Resolves the columns that the user names in a table: single ones, joined texts, and those to keep."""

import datetime
import decimal
import json
import math
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from albertine import progress
from albertine.display import display_text
from albertine.errors import InputError
from albertine.text.unicode_check import is_valid_unicode

ALL_COLUMNS = "all"


class MissingColumnError(InputError):
    """A table lacks a column that the reader needs."""


@dataclass(frozen=True)
class KeepRequest:
    """The input columns that a table of predictions repeats.

    Attributes:
        columns: names with commas between them, or "all".
        reserved: names of the values of a prediction; a kept column of such a name gets another.
        id_column: column of the ids. If it is "id", it may be kept: it is the id of the output.
    """

    columns: str
    reserved: Collection[str]
    id_column: str

    def output_name(self, column: str) -> str:
        """Return the name of a kept column in the output, "data_label" for "label"."""
        is_free = column not in self.reserved or (column == "id" and self.id_column == "id")
        return column if is_free else f"data_{column}"

    def clash(self, columns: Collection[str]) -> str | None:
        """Return the first column whose name in the output is that of another one; None if there is none."""
        renamed = ((column, self.output_name(column)) for column in columns)
        taken = {*columns, *self.reserved}
        return next((column for column, name in renamed if name != column and name in taken), None)


@dataclass(frozen=True)
class ColumnSelection:
    """The columns of one table that a reader uses.

    Attributes:
        required: columns that every row must have.
        joined: the columns of each text that is joined from several, by the name that the user gave.
        kept: columns to keep, in order; None for all columns of a row.
        keep: the request to keep columns; None if there is none.
    """

    required: tuple[str, ...]
    joined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    kept: tuple[str, ...] | None = ()
    keep: KeepRequest | None = None

    def missing_in(self, columns: Collection[str]) -> str | None:
        """Return the first required column that is missing; None if there is none."""
        return next((column for column in self.required if column not in columns), None)


def select_columns(
    source: str,
    available: Sequence[str],
    required: Iterable[str],
    joinable: Collection[str] = (),
    keep: KeepRequest | None = None,
) -> ColumnSelection:
    """Return the columns of a table that a reader uses; some of them may be missing.

    Args:
        source: the file or data set, for error messages.
        available: the columns of the table.
        required: names that the user gave for the columns that the reader needs.
        joinable: those of them that may name several columns, as in "title,body".
        keep: the columns to keep.
    """
    joined = {}
    columns: list[str] = []
    for name in required:
        parts = split_columns(name, available) if name in joinable else (name,)
        if len(parts) > 1:
            joined[name] = parts
        columns += parts
    kept: tuple[str, ...] | None = ()
    if keep is not None:
        kept = None if keep.columns == ALL_COLUMNS else tuple(split_columns(keep.columns, available))
        _check_kept(source, available if kept is None else kept, available, keep)
    return ColumnSelection(tuple(columns), joined, kept, keep)


def split_columns(names: str, available: Collection[str]) -> tuple[str, ...]:
    """Return the columns in a list with commas; the name of a column may contain commas itself.

    Args:
        names: the list; each entry is the longest one that is the name of a column.
        available: the columns of the table.
    """
    if names in available or "," not in names:
        return (names,)
    parts = names.split(",")
    most_commas = max((column.count(",") for column in available), default=0)
    columns = []
    start = 0
    while start < len(parts):
        for end in range(min(len(parts), start + most_commas + 1), start, -1):
            column = ",".join(parts[start:end]).strip()
            if column in available or end == start + 1:
                columns.append(column)
                start = end
                break
    return tuple(columns)


def refuse_label_in_text(source: str, texts: Mapping[str, Sequence[str]], labels: Collection[str]) -> None:
    """Raise `InputError` if a column of labels is also one of the texts, or a part of one.

    Args:
        source: the file or data set.
        texts: the columns of each text, by the option that names them.
        labels: the columns of labels.
    """
    for option, columns in texts.items():
        if column := next((column for column in columns if column in labels), None):
            raise InputError(
                f"{source}: column {display_text(column)} is the label, so a model would read the answer; "
                f"leave it out of {option}"
            )


def _check_kept(source: str, columns: Sequence[str], available: Collection[str], keep: KeepRequest) -> None:
    if (clash := keep.clash(columns)) is not None:
        raise InputError(
            f"{source}: --keep: column {display_text(clash)} has the name of a value of the predictions, and "
            f"there is a column {display_text(keep.output_name(clash))}; rename one, or name others"
        )
    for column in columns:
        if column in available and (name := keep.output_name(column)) != column:
            progress.print_message(
                f"{source}: column {display_text(column)} is kept as {display_text(name)}, because "
                "a value of predictions has its name"
            )


def kept_value(value: Any) -> Any:
    """Return a cell as a JSON value; raise `ValueError` with what is wrong if it has none.

    Dates and times become text in ISO format, decimal numbers text, and NaN, a missing number, null.
    """
    try:
        return _json_value(value)
    except RecursionError:
        raise ValueError("lists or objects that are nested too deeply") from None


def _json_value(value: Any) -> Any:
    match value:
        case None | bool() | int():
            return value
        case str():
            if not is_valid_unicode(value):
                raise ValueError("an unpaired surrogate, which is not UTF-8")
            return value
        case float():
            if math.isinf(value):
                raise ValueError("an infinite number, which JSON lacks")
            return None if math.isnan(value) else value
        case list() | tuple():
            return [_json_value(item) for item in value]
        case dict():
            return {_json_value(str(key)): _json_value(item) for key, item in value.items()}
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case decimal.Decimal() | datetime.timedelta() | uuid.UUID():
            return str(value)
    raise ValueError(f"{type(value).__name__}, which is not text, a number, a list or an object")


def kept_cell(value: Any) -> str:
    """Return a kept value as the text of a cell; a list, an object, true and false as JSON."""
    if value is None:
        return ""
    if isinstance(value, bool | list | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)

"""Writes the rows of a table while they are computed, as JSON lines, CSV or TSV."""

import csv
import io
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from albertine import progress
from albertine.display import display_text
from albertine.errors import InputError
from albertine.inference.resumable_file import (
    ResumableFile,
    check_unfinished_folder,
    remove_leftovers,
    resumable_file,
)
from albertine.json_output import json_text
from albertine.storage.objects import display_path
from albertine.storage.output_file import check_output_file, output_file
from albertine.storage.urls import storage_url
from albertine.tasks.examples import Example
from albertine.tasks.formats.columns import kept_cell

# An example, and the values to write for it by name.
Row: TypeAlias = tuple[Example, dict[str, Any]]


@dataclass(frozen=True)
class RowChunk:
    """Rows that are computed together.

    Attributes:
        rows: the rows.
        num_examples: number of examples of the data that they are from; some may give no row.
    """

    rows: Sequence[Row]
    num_examples: int


class TableRows(ABC):
    """The rows of a table, which are computed while they are written.

    Subclasses whose rows can resume implement all methods.
    """

    @abstractmethod
    def chunks(self, num_finished: int) -> Iterator[RowChunk]:
        """Yield the rows of the examples after some that are finished, which end a chunk."""

    def identity(self, out: Path) -> Mapping[str, Any] | None:  # noqa: ARG002  # for subclasses
        """Return all that the rows of a file depend on, by name; None if they cannot resume."""
        return None

    def state(self) -> dict[str, Any]:
        """Return what must be known of the examples so far to continue, as a JSON value."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:  # noqa: B027  # nothing to restore
        """Continue from a state; called before `chunks`."""


class RowStream(TableRows):
    """Rows that cannot resume."""

    def __init__(self, rows: Iterable[Row]):
        self._rows = rows

    def chunks(self, num_finished: int = 0) -> Iterator[RowChunk]:
        """Yield each row."""
        assert not num_finished
        yield from (RowChunk([row], 1) for row in self._rows)


def all_rows(rows: TableRows) -> Iterator[Row]:
    """Yield all rows, from the first one on."""
    for chunk in rows.chunks(0):
        yield from chunk.rows


def check_table_file(out: Path, other_suffixes: Sequence[str] = ()) -> None:
    """Raise `InputError` if a table cannot be written to a file.

    Args:
        out: the file.
        other_suffixes: suffixes of other formats that the command can write, for the error message.
    """
    if out.suffix.lower() not in _FORMATS:
        suffixes = ", ".join([*other_suffixes, *_FORMATS])
        raise InputError(f"{display_path(out)}: unknown format; name a file that ends in {suffixes}")
    if storage_url(out) is None:
        remove_leftovers(out)
        check_unfinished_folder(out)
    check_output_file(out)


def write_table(
    rows: TableRows, out: Path | None, columns: Sequence[str], description: str, *, list_separator: str = " "
) -> int:
    """Write all rows and return their number; local files resume after an interruption.

    Args:
        rows: the rows, at least one.
        out: a path or URL that `check_table_file` accepts; None for JSON lines on standard output.
        columns: names of the values in CSV and TSV; JSON lines have all values.
        description: plural name of the rows, for the message at the end.
        list_separator: separator of the texts of a list in CSV and TSV.
    """
    table = _FORMATS[".jsonl" if out is None else out.suffix.lower()](columns, list_separator)
    if out is None:
        return _write_from_start(rows, table, sys.stdout.write)
    identity = rows.identity(out) if storage_url(out) is None else None
    if identity is None:
        with output_file(out) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
            count = _write_from_start(rows, table, stream.write)
    else:
        with resumable_file(out, identity) as file:
            count = _resume_and_write(rows, table, file, display_path(out))
    progress.print_message(f"{display_path(out)}: {count:,} {description}")
    return count


def _write_from_start(rows: TableRows, table: "_TableFormat", write: Callable[[str], object]) -> int:
    num_rows = 0
    for chunk in rows.chunks(0):
        write(table.text(chunk.rows))
        num_rows += len(chunk.rows)
    return num_rows


def _resume_and_write(rows: TableRows, table: "_TableFormat", file: ResumableFile, name: str) -> int:
    """Write the rows after the last checkpoint of a file, and new checkpoints; return the number of all."""
    num_rows = num_examples = 0
    if file.state is not None:
        num_rows, num_examples = file.state["num_rows"], file.state["num_examples"]
        table.kept_columns = file.state["kept_columns"]
        rows.restore(file.state["rows"])
        progress.print_message(f"{name}: resuming after row {num_rows:,}")

    def state() -> dict[str, Any]:
        return {
            "num_rows": num_rows,
            "num_examples": num_examples,
            "kept_columns": table.kept_columns,
            "rows": rows.state(),
        }

    for chunk in rows.chunks(num_examples):
        file.write(table.text(chunk.rows))
        num_rows += len(chunk.rows)
        num_examples += chunk.num_examples
        file.save(state)
    return num_rows


class _TableFormat(ABC):
    """Formats the rows of one table.

    Attributes:
        kept_columns: columns of the data that every row of CSV and TSV has; None before the first row.
    """

    def __init__(self, columns: Sequence[str], list_separator: str):
        self.kept_columns: list[str] | None = None
        self._columns, self._list_separator = columns, list_separator

    @abstractmethod
    def text(self, rows: Iterable[Row]) -> str:
        """Return the next rows as text; the first ones after the names of the columns."""


class _JsonLines(_TableFormat):
    def text(self, rows: Iterable[Row]) -> str:
        return "".join(
            json_text({"id": example.example_id, **(example.kept or {}), **values}) + "\n"
            for example, values in rows
        )


class _Cells(_TableFormat):
    """Base class of the formats whose rows have the same columns."""

    def text(self, rows: Iterable[Row]) -> str:
        lines = []
        for example, values in rows:
            kept = example.kept or {}
            if self.kept_columns is None:
                self.kept_columns = [column for column in kept if column != "id"]
                lines.append(["id", *self.kept_columns, *self._columns])
            elif not kept.keys() <= {"id", *self.kept_columns}:
                raise _new_column_error(example, self.kept_columns)
            lines.append(
                [
                    example.example_id,
                    *(kept_cell(kept.get(column)) for column in self.kept_columns),
                    *(_cell(values.get(column), self._list_separator) for column in self._columns),
                ]
            )
        return self.lines_text(lines)

    @abstractmethod
    def lines_text(self, lines: Iterable[list[str]]) -> str:
        """Return lines of cells as text."""


class _Csv(_Cells):
    def lines_text(self, lines: Iterable[list[str]]) -> str:
        stream = io.StringIO(newline="")
        csv.writer(stream).writerows(lines)
        return stream.getvalue()


# A TSV file has no quoting, so tabs and all line breaks of Unicode become spaces.
_TSV_SPACES = dict.fromkeys(map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"), " ")


class _Tsv(_Cells):
    def lines_text(self, lines: Iterable[list[str]]) -> str:
        return "".join("\t".join(cell.translate(_TSV_SPACES) for cell in cells) + "\n" for cells in lines)


def _new_column_error(example: Example, columns: Sequence[str]) -> InputError:
    """Return the error of a row with a value to keep in a column that the first row lacks."""
    new = min(set(example.kept or {}) - {"id", *columns})
    return InputError(
        f"{example.location}: column {display_text(new)}, which the first row lacks; "
        "name the columns with --keep, or write .jsonl"
    )


def _cell(value: Any, list_separator: str) -> str:
    """Return a value for a cell of a table: nothing as an empty cell, an object as JSON.

    A list is JSON, too, if the separator is in one of its texts, so that it can be read again.
    """
    if isinstance(value, dict):
        return kept_cell(value)
    if isinstance(value, list):
        is_clear = not any(list_separator in text for text in value)
        return list_separator.join(value) if is_clear else kept_cell(value)
    return "" if value is None else str(value)


_FORMATS: dict[str, type[_TableFormat]] = {".jsonl": _JsonLines, ".csv": _Csv, ".tsv": _Tsv}

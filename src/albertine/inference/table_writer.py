"""Writes a row for each example while the rows are computed, as JSON lines, CSV or TSV."""

import csv
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from albertine import progress
from albertine.errors import InputError
from albertine.settings.schema import display_text
from albertine.storage.objects import display_path
from albertine.storage.output_file import check_output_file, output_file
from albertine.tasks.examples import Example
from albertine.tasks.formats.columns import kept_cell

# Each example, and the values to write for it by name.
Rows: TypeAlias = Iterable[tuple[Example, Mapping[str, Any]]]


def check_table_file(out: Path, other_suffixes: Sequence[str] = ()) -> None:
    """Raise `InputError` if a table cannot be written to a file.

    Args:
        out: the file.
        other_suffixes: suffixes of other formats that the command can write, for the error message.
    """
    if out.suffix.lower() not in _WRITERS:
        suffixes = ", ".join([*other_suffixes, *_WRITERS])
        raise InputError(f"{display_path(out)}: unknown format; name a file that ends in {suffixes}")
    check_output_file(out)


def write_table(
    rows: Rows, out: Path | None, columns: Sequence[str], description: str, *, list_separator: str = " "
) -> int:
    """Write all rows and return their number.

    Args:
        rows: the rows.
        out: a path or URL that `check_table_file` accepts; None for JSON lines on standard output.
        columns: names of the values in CSV and TSV; JSON lines have all values.
        description: plural name of the rows, for the message at the end.
        list_separator: separator of the texts of a list in CSV and TSV.
    """
    if out is None:
        return _WRITERS[".jsonl"](rows, sys.stdout, columns, list_separator)
    with output_file(out) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        count = _WRITERS[out.suffix.lower()](rows, stream, columns, list_separator)
    progress.print_message(f"{display_path(out)}: {count:,} {description}")
    return count


def _write_jsonl(rows: Rows, stream: TextIO, columns: Sequence[str], list_separator: str) -> int:  # noqa: ARG001
    count = 0
    for example, values in rows:
        kept = example.kept or {}
        stream.write(progress.json_text({"id": example.example_id, **kept, **values}) + "\n")
        count += 1
    return count


def _write_csv(rows: Rows, stream: TextIO, columns: Sequence[str], list_separator: str) -> int:
    return _write_cells(rows, csv.writer(stream).writerow, columns, list_separator)


def _write_tsv(rows: Rows, stream: TextIO, columns: Sequence[str], list_separator: str) -> int:
    def write_row(cells: list[str]) -> None:
        stream.write("\t".join(cell.translate(_TSV_SPACES) for cell in cells) + "\n")

    return _write_cells(rows, write_row, columns, list_separator)


# Such a file has no quoting, so tabs and all line breaks of Unicode become spaces.
_TSV_SPACES = dict.fromkeys(map(ord, "\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029"), " ")


def _write_cells(
    rows: Rows, write_row: Callable[[list[str]], Any], columns: Sequence[str], list_separator: str
) -> int:
    """Write the names of the columns, then all rows; return the number of rows."""
    kept_columns: list[str] = []
    count = 0
    for count, (example, values) in enumerate(rows, start=1):
        kept = example.kept or {}
        if count == 1:
            kept_columns = [column for column in kept if column != "id"]
            write_row(["id", *kept_columns, *columns])
        elif not kept.keys() <= {"id", *kept_columns}:
            raise _new_column_error(example, kept_columns)
        write_row(
            [
                example.example_id,
                *(kept_cell(kept.get(column)) for column in kept_columns),
                *(_cell(values.get(column), list_separator) for column in columns),
            ]
        )
    if not count:
        write_row(["id", *columns])
    return count


def _new_column_error(example: Example, columns: Sequence[str]) -> InputError:
    """Return the error of a row with a value to keep in a column that the first row lacks."""
    new = min(set(example.kept or {}) - {"id", *columns})
    return InputError(
        f"{example.location}: column {display_text(new)}, which the first row lacks; "
        "name the columns with --keep, or write .jsonl"
    )


def _cell(value: Any, list_separator: str) -> str:
    """Return a value for a cell of a table: nothing as an empty cell, an object as JSON."""
    if isinstance(value, dict):
        return kept_cell(value)
    return "" if value is None else list_separator.join(value) if isinstance(value, list) else str(value)


_WRITERS = {".jsonl": _write_jsonl, ".csv": _write_csv, ".tsv": _write_tsv}

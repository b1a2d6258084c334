"""Reads rows of tables: CSV, TSV, JSON lines, Parquet and data sets of the hub.

Rows are streamed, so a file may be of any size; a row has at most `MAX_ROW_BYTES`, and a text in it
`MAX_TEXT_BYTES`. As in the files of GLUE, a .tsv file has no quoting: a cell is everything
between two tabs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from albertine.display import display_text
from albertine.errors import InputError
from albertine.json_input import JsonError, parse_json
from albertine.storage.objects import display_path
from albertine.tasks.formats.column_request import ColumnChoice, ColumnRequest
from albertine.tasks.formats.columns import ColumnSelection, KeepRequest, MissingColumnError, kept_value
from albertine.tasks.formats.data_files import (
    TABLE_SUFFIXES,
    check_is_file,
    data_suffix,
    open_data_file,
    refuse_spreadsheet,
)
from albertine.tasks.formats.delimited import ColumnCheck, rows_from_text
from albertine.tasks.formats.rows import MAX_ROW_BYTES, ROW_TOO_LONG, RowError, TableRow, describe_value
from albertine.text.hub_datasets import HUB_PREFIX, hub_records, num_shards
from albertine.text.parquet_rows import parquet_rows, parquet_schema
from albertine.text.read_errors import ReadErrors
from albertine.text.sources import bounded_lines

_ANY_COLUMNS = ColumnRequest()
_ADVICE_ON_JSON = (
    "; a file of SQuAD needs --task squad-1.1 or squad-2.0, and other JSON an object on each line"
)


def read_rows(source: str, errors: ReadErrors, request: ColumnRequest = _ANY_COLUMNS) -> Iterator[TableRow]:
    """Yield the rows of a file or a data set of the hub.

    Args:
        source: the file or data set.
        errors: handles invalid rows.
        request: the columns to read.
    """
    choice, is_hub = ColumnChoice(source, request), source.startswith(HUB_PREFIX)
    first_error: MissingColumnError | None = None
    for row in _rows_from_hub(source) if is_hub else _rows_from_file(Path(source), errors, choice):
        if not choice.is_made:  # each row names its columns; on the hub, all rows have the same ones
            try:
                choice.make(list(row.cells), location=None if is_hub else row.location)
            except MissingColumnError as error:
                if is_hub or not errors.skip:
                    raise
                first_error = first_error or error
        try:
            yield _with_selection(row, choice.selection)
        except RowError as error:
            errors.handle(row.location, str(error))
    if first_error is not None and not choice.is_made:
        raise first_error


def _with_selection(row: TableRow, selection: ColumnSelection) -> TableRow:
    """Return a row with the columns to join and the values to keep; raise `RowError` if one is missing."""
    missing = selection.missing_in(row.cells)
    if missing is not None:
        raise RowError(f"no column {display_text(missing)}; if it is empty, write null")
    if not selection.joined and selection.keep is None:
        return row
    kept = None if selection.keep is None else _kept_values(row, selection.keep, selection.kept)
    return replace(row, joined=selection.joined, kept=kept)


def _kept_values(row: TableRow, keep: KeepRequest, columns: Sequence[str] | None) -> dict[str, Any]:
    if columns is None and (clash := keep.clash(row.cells)) is not None:
        raise RowError(
            f"column {display_text(clash)} would be kept as {display_text(keep.output_name(clash))}, "
            "and another column has this name"
        )
    values = {}
    for column in row.cells if columns is None else columns:
        try:
            values[keep.output_name(column)] = kept_value(row.cells.get(column))
        except ValueError as error:
            raise RowError(
                f"column {display_text(column)}, which is to be kept, holds {error}; leave it out of --keep"
            ) from None
    if values.get("id", "") is None:  # the row has no id, so its number is its id
        del values["id"]
    return values


def _rows_from_file(file: Path, errors: ReadErrors, choice: ColumnChoice) -> Iterator[TableRow]:
    """Yield the rows of a file; make the choice if it names its columns apart from its rows."""
    suffix = data_suffix(file)
    if suffix == ".parquet":
        if file.suffix.lower() != suffix:
            raise InputError(
                f"{display_path(file)}: compressed Parquet file; decompress it, Parquet has its own "
                "compression"
            )
        check_is_file(file)
        names = parquet_schema(file).names
        choice.make(names)
        kept = choice.selection.kept
        used = {*choice.selection.required, *choice.request.optional, *(names if kept is None else kept)}
        yield from _rows_from_parquet(file, errors, [name for name in names if name in used])
        return
    refuse_spreadsheet(display_path(file))
    if suffix not in TABLE_SUFFIXES:
        raise InputError(
            f"{display_path(file)}: unsupported format; supported: {', '.join(TABLE_SUFFIXES)}, also "
            f"compressed: .gz, .zst{_ADVICE_ON_JSON if suffix == '.json' else ''}"
        )
    with open_data_file(file) as stream:
        if suffix in (".jsonl", ".ndjson"):
            yield from _rows_from_json(file, stream, errors)
        else:
            yield from rows_from_text(
                file,
                stream,
                errors,
                tabs=suffix == ".tsv",
                is_numbered=not choice.request.header,
                check_columns=choice.make,
            )


def read_table(
    file: Path,
    errors: ReadErrors,
    *,
    tabs: bool,
    header: list[str] | None = None,
    check_columns: ColumnCheck | None = None,
) -> Iterator[TableRow]:
    """Yield the rows of a CSV or TSV file.

    Args:
        file: the file.
        errors: handles invalid rows.
        tabs: whether cells are separated by tabs, without quoting.
        header: names of the columns, if the file does not have them.
        check_columns: called with the column names of the file, also if no row follows them.
    """
    with open_data_file(file) as stream:
        yield from rows_from_text(file, stream, errors, tabs=tabs, header=header, check_columns=check_columns)


def _rows_from_json(file: Path, stream: BinaryIO, errors: ReadErrors) -> Iterator[TableRow]:
    number, name = count(), display_path(file)
    for line_number, (_, line) in enumerate(bounded_lines(stream, MAX_ROW_BYTES), start=1):
        if line is not None and not line.strip():
            continue
        location, row_number = f"{name}, line {line_number}", next(number)
        if line is None:
            errors.handle(location, ROW_TOO_LONG)
            continue
        try:
            record = parse_json(line)
        except JsonError as error:
            errors.handle(location, str(error))
            continue
        if isinstance(record, dict):
            yield TableRow(location, row_number, record)
        else:
            errors.handle(location, f"{describe_value(record)}, not a record of columns")


def _rows_from_parquet(file: Path, errors: ReadErrors, columns: list[str]) -> Iterator[TableRow]:
    name = display_path(file)
    for number, record in enumerate(parquet_rows(file, columns)):
        location = f"{name}, row {number}"
        if isinstance(record, str):
            errors.handle(location, record)
        else:
            yield TableRow(location, number, record)


def _rows_from_hub(name: str) -> Iterator[TableRow]:
    number = count()
    for shard in range(num_shards(name)):
        for location, record in hub_records(name, shard):
            yield TableRow(location, next(number), record)

"""Reads rows of tables: CSV, TSV, JSON lines, Parquet and data sets of the hub.

Rows are streamed, so a file may be of any size; a row has at most `MAX_ROW_BYTES`, and a text in it
`MAX_TEXT_BYTES`. As in the files of GLUE, a .tsv file has no quoting: a cell is everything
between two tabs.
"""

import gzip
import io
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, cast

from albertine import progress
from albertine.display import display_text
from albertine.errors import InputError, did_you_mean
from albertine.json_input import JsonError, parse_json
from albertine.storage.objects import display_path, open_file
from albertine.storage.urls import storage_url
from albertine.tasks.formats.columns import (
    ColumnSelection,
    KeepRequest,
    MissingColumnError,
    kept_value,
    refuse_label_in_text,
    select_columns,
)
from albertine.tasks.formats.delimited import ColumnCheck, rows_from_text
from albertine.tasks.formats.headers import looks_like_data, looks_like_names
from albertine.tasks.formats.rows import MAX_ROW_BYTES, ROW_TOO_LONG, RowError, TableRow, describe_value
from albertine.text.documents import ReadErrors
from albertine.text.hub_datasets import HUB_PREFIX, hub_records, num_shards
from albertine.text.parquet_rows import parquet_rows, parquet_schema
from albertine.text.sources import bounded_lines

TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
_SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
_SUFFIXES_WITH_HEADER = (".csv", ".tsv")
_COMPRESSED_SUFFIXES = (".gz", ".zst", ".zstd")
_RANGE_BYTES = 4 << 20  # of one request to object storage


def read_rows(
    source: str,
    errors: ReadErrors,
    required_columns: Iterable[str] = (),
    option_by_column: Mapping[str, str] | None = None,
    optional_columns: Iterable[str] = (),
    *,
    joinable_columns: Collection[str] = (),
    label_column: str | None = None,
    text_columns: Mapping[str, str] | None = None,
    target_column: str | None = None,
    keep: KeepRequest | None = None,
    header: bool = True,
) -> Iterator[TableRow]:
    """Yield the rows of a file or a data set of the hub.

    Args:
        source: the file or data set.
        errors: handles invalid rows.
        required_columns: columns that must exist.
        option_by_column: command-line options that name the columns, for error messages.
        optional_columns: columns that are used if they exist. Of a Parquet file, no others are read.
        joinable_columns: those of the required columns that may name several, as in "title,body".
        label_column: column of labels, by which a header that is a row of data is recognized.
        text_columns: the columns of each text, by the option that names them. None may be a label.
        target_column: column of what a model learns to predict, or several as in "good,bad"; None if it is
            not read.
        keep: columns to keep in the rows.
        header: whether the first line of a CSV or TSV file names its columns; else they are numbered from 1.
    """
    required_columns = tuple(required_columns)
    selection = ColumnSelection(required_columns)
    is_selected = False
    location = source
    first_error: MissingColumnError | None = None

    def select(available: list[str], first_rows: Sequence[list[str]]) -> None:
        nonlocal selection, is_selected
        selection = select_columns(source, available, required_columns, joinable_columns, keep)
        is_data = header and looks_like_data(available, first_rows, label_column)
        if target_column is not None:
            joined = selection.joined
            texts = {option: joined.get(name, (name,)) for option, name in (text_columns or {}).items()}
            refuse_label_in_text(source, texts, joined.get(target_column, (target_column,)))
        missing = selection.missing_in(available)
        option = _option_of(missing, selection, option_by_column or {})
        if missing is None:
            missing = next((column for column in selection.kept or () if column not in available), None)
            option = "--keep"
        first_cells = first_rows[0] if first_rows else []
        if missing is not None and not header and len(available) == 1 and ";" in "".join(first_cells):
            raise InputError(
                f"{source}: no column {display_text(missing)}; each row is one cell. Semicolons separate "
                "cells only below a line of column names, or below sep=; as the first line: add one"
            )
        if missing is not None:
            raise MissingColumnError(
                missing_column_message(
                    source, missing, available, option, location=location, header=header, is_data=is_data
                )
            )
        is_selected = True
        if is_data:
            progress.print_message(
                f"{source}: its first line, taken as column names, looks like data: "
                f"{display_text(', '.join(available))}; use --no-header if the file does not name its columns"
            )
        if not header and looks_like_names(first_rows):
            progress.print_message(
                f"{source}: its first line, read as a row (--no-header), looks like column names: "
                f"{display_text(', '.join(first_rows[0]))}; use --header, and name the columns, if it is"
            )

    if source.startswith(HUB_PREFIX):
        rows = _rows_from_hub(source)
    else:
        rows = _rows_from_file(
            Path(source), errors, select, lambda: selection, optional_columns, header=header
        )
    for row in rows:
        if not is_selected:
            is_json = not source.startswith(HUB_PREFIX)  # whose lines may differ in their columns
            location = row.location if is_json else source
            try:
                select(list(row.cells), ())
            except MissingColumnError as error:
                if not (errors.skip and is_json):
                    raise
                first_error = first_error or error
        try:
            yield _with_selection(row, selection)
        except RowError as error:
            errors.handle(row.location, str(error))
    if first_error is not None and not is_selected:
        raise first_error


def _option_of(
    column: str | None, selection: ColumnSelection, option_by_column: Mapping[str, str]
) -> str | None:
    """Return the command-line option that names a column, also as one of several to join."""
    for name, parts in selection.joined.items():
        if column in parts:
            return option_by_column.get(name)
    return option_by_column.get(column or "")


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


def missing_column_message(
    source: str,
    missing: str,
    available: list[str],
    option: str | None = None,
    *,
    location: str = "",
    header: bool = True,
    is_data: bool = False,
) -> str:
    """Return a message about a missing column, and what to do about it.

    Args:
        source: the file or data set.
        missing: name of the column.
        available: names of the columns that exist.
        option: command-line option that names the column; None if its name is fixed.
        location: the row that lacks it, if others may have it.
        header: whether the first line of a CSV or TSV file names its columns.
        is_data: whether the column names look like a row of data.
    """
    # Quotes show spaces around a name, which the column names of a file lose.
    shown = display_text(missing) if missing == missing.strip() else f'"{display_text(missing)}"'
    problem = f"{location or source}: no column {shown}"
    outer = missing.partition(".")[0]
    if outer in available and not has_header_line(source):
        return (
            f"{problem}; fields inside an object, such as {display_text(outer)}, are not read: give each a "
            "column of its own"
        )
    has_tabs = data_suffix(Path(source)) == ".tsv"
    if len(available) == 1 and any(
        separator in available[0] for separator in (",;|" if has_tabs else ";\t|")
    ):
        return (
            f"{problem}; its first line is one cell, {display_text(available[0])}: "
            "cells are separated by commas or semicolons in .csv, by tabs in .tsv; convert the file, or name "
            + ("it .csv if it has commas or semicolons" if has_tabs else "it .tsv if it has tabs")
        )
    columns = display_text(", ".join(available)) or "none"
    advice = [f"name another with {option}"] if option else []
    if not has_header_line(source):
        found = f"it has {columns}"
    elif not header:
        found = f"without a line of column names (--no-header), its columns are 1 to {len(available)}"
    elif is_data:
        found = f"its first line looks like data: {columns}"
        advice = [
            "use --no-header if the file does not name its columns, and give them by number, as in --text 1"
        ]
    else:  # without a header, these names are the cells of the first row
        found = f"its first line, taken as column names, has {columns}"
        advice.append(
            "use --no-header if there is no line of column names"
            if option
            else "add a line of column names if there is none"
        )
    suggestion = did_you_mean(missing, map(display_text, available))
    return f"{problem}{suggestion}; {found}{'; ' if advice else ''}{', or '.join(advice)}"


def refuse_spreadsheet(source: str) -> None:
    """Raise `InputError` for a file of a spreadsheet program, which has no text to read."""
    if Path(source).suffix.lower() in _SPREADSHEETS:
        raise InputError(f"{source}: a spreadsheet; save it as CSV in UTF-8, and give that file")


def has_header_line(source: str) -> bool:
    """Return whether data is a CSV or TSV file, whose first line may name its columns."""
    return not source.startswith(HUB_PREFIX) and data_suffix(Path(source)) in _SUFFIXES_WITH_HEADER


def data_suffix(file: Path) -> str:
    """Return the suffix of the format of a file, in lower case, without the suffix of its compression."""
    return Path(file.stem if file.suffix.lower() in _COMPRESSED_SUFFIXES else file).suffix.lower()


def data_stem(file: Path) -> str:
    """Return the name of a table without the suffixes of its format and its compression."""
    name = Path(file.stem if file.suffix.lower() in _COMPRESSED_SUFFIXES else file.name)
    return name.stem if name.suffix.lower() in TABLE_SUFFIXES else name.name


@contextmanager
def open_data_file(file: Path) -> Iterator[BinaryIO]:
    """Open a file or a URL for reading, decompressed; raise `InputError` if it is missing or corrupt."""
    _check_is_file(file)
    try:
        with _open_decompressed(file) as stream:
            yield stream
    except (EOFError, zlib.error, OSError) as error:
        if getattr(error, "errno", None):
            raise
        raise InputError(
            f"{display_path(file)}: corrupt, or its suffix does not match its compression ({error}); "
            "copy or download it again"
        ) from None


def _check_is_file(file: Path) -> None:
    """Raise `InputError` unless a local path is a file; opening a URL shows whether there is one."""
    if storage_url(file) is not None:
        return
    if not file.exists():
        raise InputError(f"{file}: no such file")
    if not file.is_file():
        raise InputError(f"{file}: not a file")


def _open_decompressed(file: Path) -> BinaryIO:
    # A path for local files: the libraries close what they open.
    opened = file if storage_url(file) is None else open_file(file, _RANGE_BYTES)
    match file.suffix.lower():
        case ".gz":
            return cast(BinaryIO, gzip.open(opened, "rb"))
        case ".zst" | ".zstd":
            import pyarrow as pa

            source = str(opened) if opened is file else opened
            return cast(BinaryIO, io.BufferedReader(pa.input_stream(source, compression="zstd")))
    return file.open("rb") if isinstance(opened, Path) else opened


def _rows_from_file(
    file: Path,
    errors: ReadErrors,
    select: ColumnCheck,
    selection: Callable[[], ColumnSelection],
    optional_columns: Iterable[str],
    *,
    header: bool,
) -> Iterator[TableRow]:
    """Yield the rows of a file.

    Args:
        file: the file.
        errors: handles invalid rows.
        select: receives the names of the columns, if the file has them apart from its rows.
        selection: returns the columns to read of a Parquet file, after `select`.
        optional_columns: further columns to read of a Parquet file.
        header: whether the first line of a CSV or TSV file names its columns.
    """
    suffix = data_suffix(file)
    if suffix == ".parquet":
        if file.suffix.lower() != suffix:
            raise InputError(
                f"{display_path(file)}: compressed Parquet file; decompress it, Parquet has its own "
                "compression"
            )
        _check_is_file(file)
        names = parquet_schema(file).names
        select(names, ())
        kept = selection().kept
        used = {*selection().required, *optional_columns, *(names if kept is None else kept)}
        yield from _rows_from_parquet(file, errors, [name for name in names if name in used])
        return
    refuse_spreadsheet(display_path(file))
    if suffix not in TABLE_SUFFIXES:
        raise InputError(
            f"{display_path(file)}: unsupported format; supported: {', '.join(TABLE_SUFFIXES)}, also "
            "compressed: .gz, .zst"
        )
    with open_data_file(file) as stream:
        if suffix in (".jsonl", ".ndjson"):
            yield from _rows_from_json(file, stream, errors)
        else:
            yield from rows_from_text(
                file, stream, errors, tabs=suffix == ".tsv", is_numbered=not header, check_columns=select
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

"""Reads rows of tables: CSV, TSV, JSON lines, Parquet and data sets of the hub.

Rows are streamed, so a file may be of any size. As in the files of GLUE, a .tsv file has no
quoting: a cell is everything between two tabs.
"""

import csv
import gzip
import io
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias, cast

from albertine.errors import InputError, did_you_mean
from albertine.settings.schema import display_text
from albertine.text.documents import ReadErrors
from albertine.text.hub_datasets import HUB_PREFIX, hub_records, num_shards
from albertine.text.unicode_check import is_valid_unicode

TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
_SUFFIXES_WITH_HEADER = (".csv", ".tsv")
_COMPRESSED_SUFFIXES = (".gz", ".zst", ".zstd")
_MAX_CELL_SIZE = 1 << 30

HeaderCheck: TypeAlias = Callable[[list[str]], None]


@dataclass(frozen=True)
class TableRow:
    """One row of a table.

    Attributes:
        location: file and line, for error messages.
        number: index among all rows, from 0; counting invalid rows too, so that skipping them shifts none.
        cells: values by column.
    """

    location: str
    number: int
    cells: Mapping[str, Any]

    def text(self, column: str) -> str:
        """Return a cell that holds text; raise `RowError` if it does not."""
        value = self.cells.get(column)
        if not isinstance(value, str):
            raise RowError(f"column {display_text(column)} holds {_describe(value)}, not text")
        return require_valid_unicode(value)


class RowError(ValueError):
    """An invalid row. The message lacks the location, which the caller adds."""


def require_valid_unicode(text: str) -> str:
    """Return the text; raise `RowError` if it has unpaired surrogates, which JSON allows but not UTF-8."""
    if not is_valid_unicode(text):
        raise RowError(f"an unpaired surrogate in {display_text(ascii(text))}")
    return text


def read_rows(
    source: str,
    errors: ReadErrors,
    required_columns: Iterable[str] = (),
    option_by_column: Mapping[str, str] | None = None,
) -> Iterator[TableRow]:
    """Yield the rows of a file or a data set of the hub.

    Args:
        source: the file or data set.
        errors: handles invalid rows.
        required_columns: columns that must exist.
        option_by_column: command-line options that name the columns, for error messages.
    """

    def missing_column(available: Iterable[str]) -> str | None:
        return next((column for column in required_columns if column not in available), None)

    def check_columns(available: list[str]) -> None:
        missing = missing_column(available)
        if missing is not None:
            option = (option_by_column or {}).get(missing)
            raise InputError(missing_column_message(source, missing, available, option))

    if source.startswith(HUB_PREFIX):
        rows = _rows_from_hub(source)
    else:  # a header is checked even if no row follows it
        rows = _rows_from_file(Path(source), errors, check_columns)
    for index, row in enumerate(rows):
        if index == 0:
            check_columns(list(row.cells))
        missing = missing_column(row.cells)
        if missing is None:
            yield row
        else:
            errors.handle(row.location, f"no column {display_text(missing)}")


def missing_column_message(source: str, missing: str, available: list[str], option: str | None = None) -> str:
    """Return a message about a missing column, and what to do about it.

    Args:
        source: the file or data set.
        missing: name of the column.
        available: names of the columns that exist.
        option: command-line option that names the column; None if its name is fixed.
    """
    problem = f"{source}: no column {display_text(missing)}"
    if len(available) == 1 and (";" in available[0] or "\t" in available[0]):
        return (
            f"{problem}; its first line is one cell, {display_text(available[0])}: "
            "cells are separated by commas in .csv, by tabs in .tsv"
        )
    columns = display_text(", ".join(available)) or "none"
    advice = [f"name another with {option}"] if option else []
    if source.startswith(HUB_PREFIX) or data_suffix(Path(source)) not in _SUFFIXES_WITH_HEADER:
        found = f"it has {columns}"
    else:  # without a header, these names are the cells of the first row
        found = f"its first line, taken as column names, has {columns}"
        advice += ["add a line of column names if there is none"]
    suggestion = did_you_mean(missing, available)
    return f"{problem}{suggestion}; {found}{'; ' if advice else ''}{', or '.join(advice)}"


def data_suffix(file: Path) -> str:
    """Return the suffix of the format of a file, in lower case, without the suffix of its compression."""
    return Path(file.stem if file.suffix.lower() in _COMPRESSED_SUFFIXES else file).suffix.lower()


@contextmanager
def open_data_file(file: Path) -> Iterator[BinaryIO]:
    """Open a file for reading, decompressed; raise `InputError` if it is missing or corrupt."""
    if not file.exists():
        raise InputError(f"{file}: no such file")
    if not file.is_file():
        raise InputError(f"{file}: not a file")
    try:
        with _open_decompressed(file) as stream:
            yield stream
    except (EOFError, zlib.error, OSError) as error:
        if getattr(error, "errno", None):
            raise
        raise InputError(
            f"{file}: corrupt, or its suffix does not match its compression ({error}); "
            "copy or download it again"
        ) from None


def _open_decompressed(file: Path) -> BinaryIO:
    match file.suffix.lower():
        case ".gz":
            return cast(BinaryIO, gzip.open(file, "rb"))
        case ".zst" | ".zstd":
            import pyarrow as pa

            return cast(BinaryIO, io.BufferedReader(pa.input_stream(str(file), compression="zstd")))
    return file.open("rb")


def _rows_from_file(file: Path, errors: ReadErrors, check_header: HeaderCheck) -> Iterator[TableRow]:
    suffix = data_suffix(file)
    if suffix == ".parquet":
        if file.suffix.lower() != suffix:
            raise InputError(
                f"{file}: compressed Parquet file; decompress it, Parquet has its own compression"
            )
        yield from _rows_from_parquet(file)
        return
    if suffix not in TABLE_SUFFIXES:
        raise InputError(
            f"{file}: unsupported format; supported: {', '.join(TABLE_SUFFIXES)}, also compressed: .gz, .zst"
        )
    with open_data_file(file) as stream:
        if suffix in (".jsonl", ".ndjson"):
            yield from _rows_from_json(file, stream, errors)
        else:
            yield from _rows_from_text(file, stream, errors, tabs=suffix == ".tsv", check_header=check_header)


def read_table(
    file: Path, errors: ReadErrors, *, tabs: bool, header: list[str] | None = None
) -> Iterator[TableRow]:
    """Yield the rows of a CSV or TSV file; `header` names the columns if the file does not."""
    with open_data_file(file) as stream:
        yield from _rows_from_text(file, stream, errors, tabs=tabs, header=header)


def _rows_from_text(
    file: Path,
    stream: BinaryIO,
    errors: ReadErrors,
    *,
    tabs: bool,
    header: list[str] | None = None,
    check_header: HeaderCheck | None = None,
) -> Iterator[TableRow]:
    csv.field_size_limit(_MAX_CELL_SIZE)
    number = count()
    # Invalid UTF-8 is detected row by row, so that the other rows can be read.
    with io.TextIOWrapper(stream, "utf-8-sig", errors="surrogateescape", newline="") as lines:
        for line, values in _tsv_cells(lines) if tabs else _csv_cells(file, lines):
            location = f"{file}, line {line}"
            if header is None:
                header = _header(values, location)
                if check_header is not None:
                    check_header(header)
                continue
            row_number = next(number)
            if len(values) != len(header):
                errors.handle(location, f"{len(values)} cells, where the header has {len(header)}")
            elif any(not is_valid_unicode(value) for value in values):
                errors.handle(location, "not UTF-8")
            else:
                yield TableRow(location, row_number, dict(zip(header, values, strict=True)))


def _header(values: list[str], location: str) -> list[str]:
    if any("\0" in value or not is_valid_unicode(value) for value in values):
        raise InputError(f"{location}: not text in UTF-8; save the table as UTF-8")
    header = [value.strip() for value in values]
    duplicate = next((column for column in header if header.count(column) > 1), None)
    if duplicate is not None:
        raise InputError(
            f"{location}: column {display_text(duplicate)} occurs twice; rename one of them, "
            "or add a line of column names if there is none"
        )
    return header


def _tsv_cells(lines: io.TextIOWrapper) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each row."""
    for number, line in enumerate(lines, start=1):
        stripped = line.rstrip("\r\n")
        if stripped:
            yield number, stripped.split("\t")


def _csv_cells(file: Path, lines: io.TextIOWrapper) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line number and the cells of each row; a quoted cell may have several lines."""
    reader = csv.reader(lines, strict=True)
    while True:
        first_line = reader.line_num + 1
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"{file}, line {first_line}: invalid CSV ({error}); fix its quotes") from None
        if values:
            yield first_line, values


def _rows_from_json(file: Path, stream: BinaryIO, errors: ReadErrors) -> Iterator[TableRow]:
    number = count()
    for line_number, line in enumerate(stream, start=1):
        if not line.strip():
            continue
        location, row_number = f"{file}, line {line_number}", next(number)
        try:
            record = json.loads(line.decode("utf-8-sig"))
        except UnicodeDecodeError:
            errors.handle(location, "not UTF-8")
            continue
        except (ValueError, RecursionError) as error:
            errors.handle(location, f"not JSON ({error})")
            continue
        if isinstance(record, dict):
            yield TableRow(location, row_number, record)
        else:
            errors.handle(location, f"{_describe(record)}, not a record of columns")


def _rows_from_parquet(file: Path) -> Iterator[TableRow]:
    import pyarrow as pa
    from pyarrow import parquet

    if not file.is_file():
        raise InputError(f"{file}: no such file")
    try:
        number = count()
        for batch in parquet.ParquetFile(file).iter_batches(1000):
            for record in batch.to_pylist():
                row_number = next(number)
                yield TableRow(f"{file}, row {row_number}", row_number, record)
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"{file}: not a complete Parquet file ({reason}); copy or download it again"
        ) from None


def _rows_from_hub(name: str) -> Iterator[TableRow]:
    number = count()
    for shard in range(num_shards(name)):
        for location, record in hub_records(name, shard):
            yield TableRow(location, next(number), record)


def _describe(value: object) -> str:
    return "nothing" if value is None else f"{type(value).__name__} {display_text(str(value))}"

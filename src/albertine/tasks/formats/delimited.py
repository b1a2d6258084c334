"""Reads the rows of CSV and TSV files, with or without a line of column names."""

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, TypeAlias

from albertine.display import counted, display_text
from albertine.errors import InputError
from albertine.json_input import NOT_UTF_8, RECODE
from albertine.storage.objects import display_path
from albertine.tasks.formats.rows import MAX_ROW_BYTES, ROW_TOO_LONG, TableRow
from albertine.text.documents import ReadErrors
from albertine.text.sources import bounded_lines
from albertine.text.unicode_check import is_valid_unicode

_ROWS_TO_COMPARE = 20  # with a header that may be data
_BYTES_TO_COMPARE = 1 << 20

# Receives the names of all columns and, of a file with a header, the cells of its first rows.
ColumnCheck: TypeAlias = Callable[[list[str], Sequence[list[str]]], None]


def rows_from_text(
    file: Path,
    stream: BinaryIO,
    errors: ReadErrors,
    *,
    tabs: bool,
    header: list[str] | None = None,
    is_numbered: bool = False,
    check_columns: ColumnCheck | None = None,
) -> Iterator[TableRow]:
    """Yield the rows of a CSV or TSV file; see `read_table`.

    Args:
        file: the file.
        stream: its content.
        errors: handles invalid rows.
        tabs: whether cells are separated by tabs, without quoting.
        header: names of the columns, if the file does not have them.
        is_numbered: whether the columns are numbered from 1, because the file does not name them.
        check_columns: called with the column names and the first rows, also if there are none.
    """
    csv.field_size_limit(MAX_ROW_BYTES)
    name = display_path(file)
    rows: Iterator[tuple[int, list[str] | None]] = _tsv_cells(stream) if tabs else _csv_cells(name, stream)
    if header is None:
        first = next(rows, None)
        if first is None:
            return
        location = f"{name}, line {first[0]}"
        header = _column_numbers(first[1], location) if is_numbered else _header(first[1], location)
        first_rows = _first_rows(rows)
        rows = chain([first] if is_numbered else [], first_rows, rows)
        if check_columns is not None:
            comparable = [] if is_numbered else [values for _, values in first_rows if values is not None]
            check_columns(header, comparable)
    for row_number, (line, values) in enumerate(rows):
        location = f"{name}, line {line}"
        if values is None:
            errors.handle(location, ROW_TOO_LONG)
        elif len(values) != len(header):
            expected = "first line" if is_numbered else "header"
            errors.handle(location, f"{counted(len(values), 'cell')}, where the {expected} has {len(header)}")
        elif any(not is_valid_unicode(value) for value in values):
            errors.handle(location, NOT_UTF_8)
        else:
            yield TableRow(location, row_number, dict(zip(header, values, strict=True)))


def _column_numbers(values: list[str] | None, location: str) -> list[str]:
    """Return the numbers of the columns of a file without column names, from its first row."""
    if values is None:
        raise InputError(f"{location}: {ROW_TOO_LONG}, so the number of columns is unknown; shorten it")
    return [str(number) for number in range(1, len(values) + 1)]


def _first_rows(rows: Iterator[tuple[int, list[str] | None]]) -> list[tuple[int, list[str] | None]]:
    """Take the first rows of a file, in bounded memory."""
    taken = []
    size = 0
    for line, values in islice(rows, _ROWS_TO_COMPARE):
        taken.append((line, values))
        size += sum(map(len, values or ()))
        if size > _BYTES_TO_COMPARE:
            break
    return taken


def _header(values: list[str] | None, location: str) -> list[str]:
    if values is None:
        raise InputError(f"{location}: {ROW_TOO_LONG}, where a line of column names is expected")
    if any("\0" in value for value in values):
        advice = "convert it, as in: iconv -f UTF-16 -t UTF-8"
        raise InputError(f"{location}: not text in UTF-8 (perhaps UTF-16, or no text); {advice}")
    if not all(map(is_valid_unicode, values)):
        raise InputError(f"{location}: {NOT_UTF_8}; {RECODE}")
    header = [value.strip() for value in values]
    duplicate = next((column for column, times in Counter(header).items() if times > 1), None)
    if duplicate is not None:
        raise InputError(
            f"{location}: column {display_text(duplicate)} occurs twice; rename one of them, "
            "or use --no-header if the file does not name its columns"
        )
    return header


def _text_lines(stream: BinaryIO) -> Iterator[str | None]:
    """Yield the lines of a stream with their ends; None for one that is longer than `MAX_ROW_BYTES`.

    Invalid UTF-8 becomes surrogates, which are detected row by row, so that the other rows can be read.
    """
    encoding = "utf-8-sig"  # only the first line can begin with a byte order mark
    for _, line in bounded_lines(stream, MAX_ROW_BYTES):
        yield None if line is None else line.decode(encoding, "surrogateescape")
        encoding = "utf-8"


def _tsv_cells(stream: BinaryIO) -> Iterator[tuple[int, list[str] | None]]:
    """Yield the line number and the cells of each row; None for the cells of a row that is too long."""
    for number, line in enumerate(_text_lines(stream), start=1):
        if line is None:
            yield number, None
        elif stripped := line.rstrip("\r\n"):
            yield number, stripped.split("\t")


def _csv_cells(name: str, stream: BinaryIO) -> Iterator[tuple[int, list[str]]]:
    """Yield the first line number and the cells of each row; a quoted cell may have several lines."""
    row_size = 0

    def row_lines() -> Iterator[str]:
        nonlocal row_size
        for line in _text_lines(stream):
            row_size += MAX_ROW_BYTES + 1 if line is None else len(line)
            if line is None or row_size > MAX_ROW_BYTES:
                raise InputError(
                    f"{name}, line {first_line}: {ROW_TOO_LONG}; close its quotes, or shorten it"
                )
            yield line

    first_line = 1
    reader = csv.reader(row_lines(), strict=True)
    while True:
        first_line, row_size = reader.line_num + 1, 0
        try:
            values = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise InputError(f"{name}, line {first_line}: invalid CSV ({error}); fix its quotes") from None
        if values:
            yield first_line, values

"""Reads the rows of CSV and TSV files, with or without a line of column names.

In languages with decimal commas, spreadsheets separate the cells of CSV files by semicolons. A file is taken
as such if its header has semicolons and no comma, or if its first line is `sep=;`, which Excel writes and
reads; without a header only with this line, because texts have semicolons.
"""

import csv
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO, TypeAlias

from albertine.display import counted, display_text
from albertine.errors import InputError
from albertine.json_input import NOT_UTF_8, PERHAPS_UTF_16, RECODE
from albertine.storage.objects import display_path
from albertine.tasks.formats.decimals import DecimalSeparators
from albertine.tasks.formats.rows import MAX_ROW_BYTES, ROW_TOO_LONG, TableRow
from albertine.text.read_errors import ReadErrors
from albertine.text.sources import bounded_lines
from albertine.text.unicode_check import is_valid_unicode

# How much is compared with the first line, to detect a missing or an unexpected header.
_MAX_COMPARED_ROWS = 20
_MAX_COMPARED_CHARACTERS = 1 << 20

_SEPARATOR_LINE = re.compile(r"sep=([;,\t])", re.IGNORECASE)
_QUOTED = re.compile(r'"[^"]*"')

# The number of a line, and the cells of the row that begins there; None if the row is too long.
Cells: TypeAlias = tuple[int, list[str] | None]

# Receives the names of all columns, and the cells of the first rows.
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
        check_columns: called with the column names of the file and its first rows, which may be none; not
            called for an empty file, or with `header`.
    """
    csv.field_size_limit(MAX_ROW_BYTES)
    name = display_path(file)
    has_header = header is None and not is_numbered
    lines = _text_lines(stream)
    decimals = None
    if tabs:
        rows = _tsv_cells(lines)
    else:
        separator, lines = _detect_separator(lines, has_header=has_header)
        rows = _csv_cells(name, lines, separator)
        decimals = DecimalSeparators() if separator == ";" else None
    if header is None:
        first = next(rows, None)
        if first is None:
            return
        location = f"{name}, line {first[0]}"
        header = _column_numbers(first[1], location) if is_numbered else _header(first[1], location)
        first_rows = ([first] if is_numbered else []) + _first_rows(rows)
        if check_columns is not None:
            check_columns(header, [values for _, values in first_rows if values is not None])
        rows = chain(first_rows, rows)
    for row in _valid_rows(rows, name, header, errors, "first line" if is_numbered else "header"):
        yield row if decimals is None else replace(row, decimals=decimals)


def _valid_rows(
    rows: Iterator[Cells], name: str, header: list[str], errors: ReadErrors, expected: str
) -> Iterator[TableRow]:
    """Yield the rows that have as many cells as `expected`, the header or the first line."""
    for row_number, (line, values) in enumerate(rows):
        location = f"{name}, line {line}"
        if values is None:
            errors.handle(location, ROW_TOO_LONG)
        elif len(values) != len(header):
            errors.handle(location, f"{counted(len(values), 'cell')}, where the {expected} has {len(header)}")
        elif any(not is_valid_unicode(value) for value in values):
            errors.handle(location, NOT_UTF_8)
        else:
            yield TableRow(location, row_number, dict(zip(header, values, strict=True)))


def _column_numbers(values: list[str] | None, location: str) -> list[str]:
    """Return the numbers of the columns of a file without column names, from its first row."""
    if values is None:
        raise InputError(f"{location}: {ROW_TOO_LONG}, so the number of columns is unknown; shorten it")
    _refuse_zero_bytes(values, location)
    return [str(number) for number in range(1, len(values) + 1)]


def _refuse_zero_bytes(values: list[str], location: str) -> None:
    if any("\0" in value for value in values):
        raise InputError(f"{location}: {PERHAPS_UTF_16}; convert it, as in: iconv -f UTF-16 -t UTF-8")


def _first_rows(rows: Iterator[Cells]) -> list[Cells]:
    """Take the first rows of a file, in bounded memory."""
    taken = []
    size = 0
    for line, values in islice(rows, _MAX_COMPARED_ROWS):
        taken.append((line, values))
        size += sum(map(len, values or ()))
        if size > _MAX_COMPARED_CHARACTERS:
            break
    return taken


def _header(values: list[str] | None, location: str) -> list[str]:
    """Return the names of the columns; raise `InputError` if they cannot be used."""
    if values is None:
        raise InputError(f"{location}: {ROW_TOO_LONG}, where a line of column names is expected")
    _refuse_zero_bytes(values, location)
    if not all(map(is_valid_unicode, values)):
        raise InputError(f"{location}: {NOT_UTF_8}; {RECODE}")
    header = [value.strip() for value in values]
    # Spreadsheets write columns without a name, which nobody can select.
    duplicate = next((column for column, times in Counter(filter(None, header)).items() if times > 1), None)
    if duplicate is not None:
        raise InputError(
            f"{location}: column {display_text(duplicate)} is repeated; rename one of them, "
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


def _tsv_cells(lines: Iterator[str | None]) -> Iterator[Cells]:
    """Yield the line number and the cells of each row."""
    for number, line in enumerate(lines, start=1):
        if line is None:
            yield number, None
        elif stripped := line.rstrip("\r\n"):
            yield number, stripped.split("\t")


def _detect_separator(lines: Iterator[str | None], *, has_header: bool) -> tuple[str, Iterator[str | None]]:
    """Return the separator of the cells of a CSV file, and its lines; that of `sep=;` becomes empty."""
    first_lines = list(islice(_up_to_content(lines), _MAX_COMPARED_ROWS))
    first = (first_lines[-1] if first_lines else None) or ""
    if declared := _SEPARATOR_LINE.fullmatch(first.strip(" \r\n")):
        return declared[1], chain(first_lines[:-1], ["\n"], lines)
    header = _QUOTED.sub("", first) if has_header else ""
    separator = ";" if ";" in header and "," not in header else ","
    return separator, chain(first_lines, lines)


def _up_to_content(lines: Iterator[str | None]) -> Iterator[str | None]:
    """Yield the empty lines at the start of a file, and the first that is not empty."""
    for line in lines:
        yield line
        if line is None or line.strip():
            return


def _csv_cells(name: str, lines: Iterator[str | None], separator: str) -> Iterator[Cells]:
    """Yield the first line number and the cells of each row; a quoted cell may have several lines."""
    row_size = 0

    def row_lines() -> Iterator[str]:
        nonlocal row_size
        for line in lines:
            row_size += MAX_ROW_BYTES + 1 if line is None else len(line)
            if line is None or row_size > MAX_ROW_BYTES:
                raise InputError(
                    f"{name}, line {first_line}: {ROW_TOO_LONG}; close its quotes, or shorten it"
                )
            yield line

    first_line = 1
    reader = csv.reader(row_lines(), strict=True, delimiter=separator)
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

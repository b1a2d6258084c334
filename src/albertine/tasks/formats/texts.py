"""Reads texts without labels: the lines of a .txt file, or a column of a table."""

from collections.abc import Iterator
from pathlib import Path

from albertine.errors import InputError
from albertine.json_input import NOT_UTF_8
from albertine.storage.objects import display_path
from albertine.tasks.examples import TextExample
from albertine.tasks.formats.cells import example_id
from albertine.tasks.formats.column_request import ColumnRequest
from albertine.tasks.formats.data_files import TABLE_SUFFIXES, data_suffix, has_header_line, open_data_file
from albertine.tasks.formats.rows import MAX_ROW_BYTES, RowError, TableRow
from albertine.tasks.formats.tables import read_rows
from albertine.tasks.settings import DataSettings
from albertine.text.hub_datasets import HUB_PREFIX
from albertine.text.read_errors import ReadErrors
from albertine.text.sources import bounded_lines

_TEXT_SUFFIXES = (".txt", ".text")


def has_texts_as_lines(source: str) -> bool:
    """Return whether each line of a file is a text, by its suffix."""
    return data_suffix(Path(source)) in _TEXT_SUFFIXES and not source.startswith(HUB_PREFIX)


def read_texts(source: str, columns: DataSettings, errors: ReadErrors) -> Iterator[TextExample]:
    """Yield the texts of a file or of a data set of the hub; blank lines of a .txt file are no texts.

    Args:
        source: the file or data set.
        columns: names of the columns of texts and ids.
        errors: handles invalid rows.
    """
    if not columns.header and not has_header_line(source):
        raise InputError(f"{source}: --no-header is for .csv and .tsv files; leave it out")
    for row in _rows(source, columns, errors):
        try:
            yield TextExample(row.location, example_id(row, columns), (row.text(columns.text),))
        except RowError as error:
            errors.handle(row.location, str(error))


def _rows(source: str, columns: DataSettings, errors: ReadErrors) -> Iterator[TableRow]:
    if has_texts_as_lines(source):
        for name in ("text", "id"):
            if getattr(columns, name) != getattr(DataSettings(), name):
                raise InputError(f"{source}: lines of text, which have no columns; leave out --{name}")
        return _rows_from_lines(Path(source), columns.text, errors)
    if Path(source).is_dir():
        raise InputError(f"{source}: is a folder; name a file with texts")
    if data_suffix(Path(source)) not in TABLE_SUFFIXES and not source.startswith(HUB_PREFIX):
        supported = ", ".join((*_TEXT_SUFFIXES, *TABLE_SUFFIXES))
        raise InputError(f"{source}: unsupported format; supported: {supported}, also compressed: .gz, .zst")
    required = [columns.text, *([columns.id] if "id" in columns.explicit_keys else [])]
    options = {columns.text: "--text", columns.id: "--id"}
    request = ColumnRequest(
        required, options, optional=(columns.id,), joinable=(columns.text,), header=columns.header
    )
    return read_rows(source, errors, request)


def _rows_from_lines(file: Path, column: str, errors: ReadErrors) -> Iterator[TableRow]:
    """Yield a row for each line that is not blank; its number counts all lines, from 0."""
    name = display_path(file)
    encoding = "utf-8-sig"  # only the first line can begin with a byte order mark
    with open_data_file(file) as stream:
        for number, (_, line) in enumerate(bounded_lines(stream, MAX_ROW_BYTES)):
            location = f"{name}, line {number + 1}"
            if line is None:
                errors.handle(location, f"a line of more than {MAX_ROW_BYTES >> 20} MiB")
                continue
            try:
                text = line.decode(encoding).strip()
            except UnicodeDecodeError:
                errors.handle(location, NOT_UTF_8)
                continue
            if "\0" in text:
                errors.handle(location, "zero bytes, not UTF-8 text")
            elif text:
                yield TableRow(location, number, {column: text})
            encoding = "utf-8"

"""Reads rows of tables and documents of text sources as items to check."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeVar

from albertine.check.encoding import EncodingCheck
from albertine.check.findings import DataItem, Tally
from albertine.check.settings import CheckSettings
from albertine.display import counted
from albertine.errors import InputError
from albertine.json_input import NOT_UTF_8
from albertine.tasks.formats.cells import is_empty_cell, parse_label, parse_label_columns, parse_label_set
from albertine.tasks.formats.column_request import ColumnRequest
from albertine.tasks.formats.data_files import TABLE_SUFFIXES, data_suffix
from albertine.tasks.formats.rows import RowError, TableRow, checked_text, describe_value
from albertine.tasks.formats.tables import read_rows
from albertine.text.documents import read_documents
from albertine.text.read_errors import ReadErrors
from albertine.text.sentences import split_sentences
from albertine.text.settings import ReadingSettings
from albertine.text.sources import Source, SourceChunk, read_blocks, source_chunks

_DEFAULT_LABEL = "label"

T = TypeVar("T")


class DataErrors(ReadErrors):
    """Counts what cannot be read, without raising errors: rows that are not UTF-8, and all others.

    Args:
        name: name of the source, with which the messages about it begin.
    """

    def __init__(self, name: str = "") -> None:
        super().__init__(skip=True)
        self._name = name
        self.not_utf_8, self.unreadable = Tally(), Tally()

    def handle(self, location: str, problem: str) -> None:
        """Count an error."""
        tally = self.not_utf_8 if problem.endswith(NOT_UTF_8) else self.unreadable
        tally.add(location, problem)

    def record(self, message: str, count: int = 1) -> None:
        """Count an error of one or more records, which ends the reading of a source."""
        self.unreadable.add(self._name, message.removeprefix(f"{self._name}: "), count)


def is_table(name: str) -> bool:
    """Return whether a file is read as a table, by its suffix."""
    return data_suffix(Path(name)) in TABLE_SUFFIXES


def table_items(
    source: str, settings: CheckSettings, split: Literal["train", "dev"], language: str, errors: DataErrors
) -> Iterator[DataItem]:
    """Yield the rows of a table; rows of one text without a label are documents of sentences."""
    rows = read_rows(source, errors, _column_request(settings))
    for row in until_damaged(rows, source, errors):
        try:
            yield _row_item(row, settings, split, language)
        except RowError as error:
            errors.handle(row.location, str(error))


def _text_options(settings: CheckSettings) -> dict[str, str]:
    """Return the columns of texts, each with its command-line option."""
    pair = {settings.text_pair: "--text-pair"} if settings.text_pair else {}
    return {settings.text: "--text"} | pair


def _label_column(settings: CheckSettings) -> str:
    """Return the column of labels; one of the usual name has them, if there is one."""
    return settings.label or _DEFAULT_LABEL


def _column_request(settings: CheckSettings) -> ColumnRequest:
    """Return the columns of the texts, and that of the labels if it is named or has its usual name."""
    text_options, label = _text_options(settings), _label_column(settings)
    options = text_options | ({settings.label: "--label"} if settings.label else {})
    return ColumnRequest(
        required=[*text_options, *([settings.label] if settings.label else [])],
        options=options,
        optional=[label],
        joinable=[*text_options, label],
        label=label,
        texts={options[column]: column for column in text_options},
        target=label if settings.label or label not in text_options else None,
        header=settings.header,
    )


def _row_item(
    row: TableRow, settings: CheckSettings, split: Literal["train", "dev"], language: str
) -> DataItem:
    """Return the item of a row; raise `RowError` if it cannot be read."""
    label, separator = _label_column(settings), settings.label_separator
    has_list = isinstance(row.cells.get(label), list)
    texts = tuple(_text(row, column, has_tags=has_list) for column in _text_options(settings))
    labels = _labels(row, label, separator, row.cells.get(settings.text))
    has_label = label in row.cells or label in row.joined
    is_document = not has_label and len(texts) == 1 and settings.dev is None
    return DataItem(
        row.location,
        texts,
        labels,
        split,
        sentences=tuple(split_sentences(texts[0], language)) if is_document else (),
        has_label=has_label,
        is_multi_label=separator is not None or label in row.joined or has_list,
        has_decimal_commas=row.decimals is not None,
    )


def until_damaged(rows: Iterable[T], source: str, errors: DataErrors) -> Iterator[T]:
    """Yield rows or examples; count an error after which none can be read.

    An error before the first row is raised, because it concerns the whole table.
    """
    is_first = True
    try:
        for row in rows:
            yield row
            is_first = False
    except InputError as error:
        if is_first:
            raise
        errors.unreadable.add(source, str(error).removeprefix(f"{source}: "))


def _text(row: TableRow, column: str, *, has_tags: bool) -> str:
    """Return the text of a column, or of the columns that are joined to it; empty if all cells are.

    With a list of tags, it may be a list of words.
    """
    if all(row.cells.get(name) is None for name in row.joined.get(column, (column,))):
        return ""
    if column in row.joined:
        return row.text(column)
    value = row.cells[column]
    if has_tags and isinstance(value, list) and all(isinstance(word, str) for word in value):
        value = " ".join(value)
    if not isinstance(value, str):
        raise RowError(f"column {column} holds {describe_value(value)}, not text")
    return checked_text(value)


def _labels(row: TableRow, column: str, separator: str | None, words: object) -> tuple[str, ...] | None:
    """Return the labels of a row as fine-tuning reads them; None if a cell of one label is empty."""
    if column in row.joined:
        return parse_label_columns(row, row.joined[column])
    value = row.cells.get(column)
    if isinstance(value, list) and isinstance(words, list) and len(words) != len(value):
        raise RowError(
            f"{counted(len(words), 'word')} and {counted(len(value), 'tag')}; each word needs a tag"
        )
    if separator is not None or isinstance(value, list):
        return parse_label_set(value, separator or "")
    return None if is_empty_cell(value) else (parse_label(value),)


def document_items(
    source: Source, reading: ReadingSettings, encoding: EncodingCheck, errors: DataErrors
) -> Iterator[DataItem]:
    """Yield the documents of a text file; its lines are checked for damaged characters."""
    number = line_number = 0
    own_errors = DataErrors(source.name)
    for chunk in source_chunks(source):
        for line in _lines(chunk):
            line_number += 1
            location = f"{source.name}, line {line_number:,}"
            if line_number == 1:
                if encoding.observe_file(line, location):
                    return
                line = line.removeprefix(b"\xef\xbb\xbf")
            encoding.observe_line(line, location)
        for sentences in read_documents(chunk, reading, own_errors):
            number += 1
            location = f"{source.name}, document {number:,}"
            yield DataItem(location, ("\n".join(sentences),), None, "train", tuple(sentences))
    errors.unreadable.add_all(own_errors.unreadable)  # `encoding` has counted the lines that are not UTF-8


def _lines(chunk: SourceChunk) -> Iterator[bytes]:
    """Yield the lines of a text, up to a read error, which `read_documents` reports."""
    with suppress(InputError):
        for _, block in read_blocks(chunk):
            yield from block.splitlines(keepends=True)

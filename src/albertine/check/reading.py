"""Reads rows of tables and documents of text sources as items to check."""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from albertine.check.encoding import EncodingCheck
from albertine.check.findings import DataItem
from albertine.check.settings import CheckSettings
from albertine.tasks.formats.cells import parse_label, parse_label_columns
from albertine.tasks.formats.rows import RowError, TableRow, checked_text, describe_value
from albertine.tasks.formats.tables import TABLE_SUFFIXES, data_suffix, read_rows
from albertine.text.documents import ReadErrors, read_documents, split_sentences
from albertine.text.settings import ReadingSettings
from albertine.text.sources import Source, read_blocks, source_chunks

_DEFAULT_LABEL = "label"
NOT_UTF_8 = "not UTF-8"  # ends the messages of the readers


def is_table(name: str) -> bool:
    """Return whether a file is read as a table, by its suffix."""
    return data_suffix(Path(name)) in TABLE_SUFFIXES


def table_items(
    source: str, settings: CheckSettings, split: Literal["train", "dev"], language: str, errors: ReadErrors
) -> Iterator[DataItem]:
    """Yield the rows of a table; rows of one text without a label are documents of sentences."""
    text_columns = [settings.text, *([settings.text_pair] if settings.text_pair else [])]
    options = {settings.text: "--text"}
    if settings.text_pair:
        options[settings.text_pair] = "--text-pair"
    label = settings.label or _DEFAULT_LABEL
    required = [*text_columns, *([settings.label] if settings.label else [])]
    if settings.label:
        options[settings.label] = "--label"
    rows = read_rows(
        source,
        errors,
        required,
        options,
        [label],
        joinable_columns=[*text_columns, label],
        label_column=label,
        header=settings.header,
    )
    for row in rows:
        try:
            texts = tuple(_text(row, column) for column in text_columns)
            label_text = _label(row, label)
        except RowError as error:
            errors.record(f"{row.location}: {error}")
            continue
        is_document = label not in row.cells and len(texts) == 1 and settings.dev is None
        sentences = tuple(split_sentences(texts[0], language)) if is_document else ()
        yield DataItem(row.location, texts, label_text, split, sentences, has_label=label in row.cells)


def _text(row: TableRow, column: str) -> str:
    if column in row.joined:
        return row.text(column)
    value = row.cells.get(column)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise RowError(f"column {column} holds {describe_value(value)}, not text")
    return checked_text(value)


def _label(row: TableRow, column: str) -> str | None:
    """Return the label of a row as fine-tuning reads it, or several labels as one text; None for none."""
    if column in row.joined:
        return ", ".join(parse_label_columns(row, row.joined[column])) or None
    value = row.cells.get(column)
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, list):
        return ", ".join(map(parse_label, value)) or None
    return parse_label(value)


def document_items(
    source: Source, reading: ReadingSettings, encoding: EncodingCheck, errors: ReadErrors
) -> Iterator[DataItem]:
    """Yield the documents of a text file; its lines are checked for damaged characters."""
    number = line_number = 0
    own_errors = ReadErrors(skip=True)
    for chunk in source_chunks(source):
        for offset, block in read_blocks(chunk):
            for line in block.splitlines(keepends=True):
                line_number += 1
                is_first = line_number == 1 and not offset
                encoding.observe_line(line, f"{source.name}, line {line_number:,}", is_first=is_first)
        for sentences in read_documents(chunk, reading, own_errors):
            number += 1
            location = f"{source.name}, document {number:,}"
            yield DataItem(location, ("\n".join(sentences),), None, "train", tuple(sentences))
    for message in own_errors.messages:
        if not message.endswith(NOT_UTF_8) and "UTF-16" not in message:
            errors.record(message)

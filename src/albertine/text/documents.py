"""Reads chunks of any source as documents, each a list of sentences.

A `.txt` file has one of two layouts, detected from its beginning. "prose": the file is one
document. "lines": one sentence per line and blank lines between documents, as the reference
code of BERT and ALBERT expects. Each record of `.jsonl`, Parquet or a hub dataset is a
document. No sentence, and so no word, is longer than `MAX_SENTENCE_LENGTH`, which bounds the memory of
everything that reads sentences.
"""

from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, Literal

from albertine.display import display_text
from albertine.errors import InputError
from albertine.json_input import NOT_UTF_8, JsonError, parse_json
from albertine.settings.schema import first_changed
from albertine.storage.objects import ReplacedError
from albertine.text.hub_datasets import hub_records
from albertine.text.paragraphs import ends_sentence
from albertine.text.parquet_rows import num_rows, parquet_rows, parquet_schema
from albertine.text.read_errors import ReadErrors
from albertine.text.sentences import MAX_SENTENCE_LENGTH, paragraph_sentences, split_sentences, split_text
from albertine.text.settings import ReadingSettings
from albertine.text.sources import (
    CHUNK_BYTES,
    MAX_RECORD_BYTES,
    Source,
    SourceChunk,
    check_unchanged,
    read_blocks,
    read_head,
    read_lines,
    read_range,
)
from albertine.text.unicode_check import is_valid_unicode

Layout = Literal["prose", "lines"]

_LAYOUT_LINES = 400  # lines from which the layout is detected
_BINARY_CHECK_BYTES = 4096  # bytes in which a zero byte means that the file is not text


def check_reading_settings(settings: ReadingSettings, sources: Sequence[Source]) -> None:
    """Raise `InputError` if settings are for other formats than those of the sources."""
    formats = {source.format for source in sources}
    if formats == {"text"} and first_changed(settings, ["field"]):
        raise InputError(
            f"--field {display_text(settings.field)}: is for .jsonl, .parquet and hub datasets, and there "
            "are none; leave it out"
        )
    if "text" not in formats and first_changed(settings, ["layout"]):
        raise InputError(f"--layout {settings.layout}: is for .txt files, and there are none; leave it out")


def read_documents(chunk: SourceChunk, reading: ReadingSettings, errors: ReadErrors) -> Iterator[list[str]]:
    """Yield each document of a chunk as a list of sentences; empty documents are dropped."""
    try:
        yield from filter(None, _documents_by_format(chunk, reading, errors))
    except InputError as error:
        if not errors.skip or isinstance(error, ReplacedError):
            raise
        errors.record(str(error))  # concerns the rest of the file, whose earlier documents have been yielded


def _documents_by_format(
    chunk: SourceChunk, reading: ReadingSettings, errors: ReadErrors
) -> Iterator[list[str]]:
    if chunk.source.format == "text":
        yield from _from_text(chunk, reading, errors)
    else:
        yield from _from_records(_records(chunk, reading, errors), reading, errors)


def read_texts(chunk: SourceChunk, reading: ReadingSettings, errors: ReadErrors) -> Iterator[str]:
    """Yield the texts of a chunk as they are: blocks of a text file, or the texts of records."""
    try:
        if chunk.source.format == "text":
            yield from _text_blocks(chunk, errors)
        else:
            yield from _record_texts(_records(chunk, reading, errors), reading, errors)
    except InputError as error:
        if not errors.skip or isinstance(error, ReplacedError):
            raise
        errors.record(str(error))


def _records(chunk: SourceChunk, reading: ReadingSettings, errors: ReadErrors) -> Iterator[tuple[str, Any]]:
    """Yield location and content of the records of a chunk."""
    if chunk.source.format == "jsonl":
        return _json_records(chunk, errors)
    if chunk.source.format == "parquet":
        return _parquet_records(chunk, reading, errors)
    return hub_records(chunk.source.name, chunk.start)


def text_layout(source: Source, reading: ReadingSettings) -> Layout:
    """Return the layout of a text file: the one in the settings, or detected from its beginning."""
    return (
        _detected_file_layout(source, reading.splitter_language)
        if reading.layout == "auto"
        else reading.layout
    )


@lru_cache(maxsize=64)
def _detected_file_layout(source: Source, language: str) -> Layout:
    return detect_layout(read_head(source).decode("utf-8-sig", "replace"), language)


def detect_layout(text: str, language: str) -> Layout:
    """Return "lines" if most lines are single complete sentences and few are blank, else "prose"."""
    lines = text.splitlines()[:_LAYOUT_LINES]
    # With plain spaces, as in paragraphs: the splitter fails at others between a capital and a full stop.
    nonempty = [" ".join(line.split()) for line in lines if line.strip()]
    if len(nonempty) < 2 or len(nonempty) < 0.6 * len(lines):
        return "prose"
    complete_share = sum(map(ends_sentence, nonempty)) / len(nonempty)
    num_sentences = sum(len(paragraph_sentences(line, language)) for line in nonempty)
    sentences_per_line = num_sentences / len(nonempty)
    return "lines" if complete_share >= 0.75 and sentences_per_line <= 1.15 else "prose"


def _from_text(chunk: SourceChunk, reading: ReadingSettings, errors: ReadErrors) -> Iterator[list[str]]:
    source = chunk.source
    layout = text_layout(source, reading)
    for text in _text_blocks(chunk, errors):
        if layout == "prose":
            yield split_sentences(text, reading.splitter_language)
        else:
            yield from _line_documents(text)
    if not source.size:
        errors.handle(source.name, "empty")


def _line_documents(text: str) -> Iterator[list[str]]:
    document: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if len(line) > MAX_SENTENCE_LENGTH:
            document += filter(None, map(str.strip, split_text(line, MAX_SENTENCE_LENGTH)))
        elif line:
            document.append(line)
        else:
            yield document
            document = []
    yield document


@lru_cache(maxsize=64)
def refusal(source: Source) -> str | None:
    """Return why a text file, which is not compressed, is refused as a whole; None if it is not."""
    return _head_problem(source, read_range(source, 0, _BINARY_CHECK_BYTES))


def _head_problem(source: Source, head: bytes) -> str | None:
    """Return what is wrong with the first bytes of a text file; None if nothing is."""
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return f"{source.name}: UTF-16 text; convert it, as in: iconv -f UTF-16 -t UTF-8"
    if b"\0" in head[:_BINARY_CHECK_BYTES]:
        return f"{source.name}: zero bytes, not UTF-8 text; give a text file"
    return None


def _text_blocks(chunk: SourceChunk, errors: ReadErrors) -> Iterator[str]:
    """Yield the decoded blocks of a chunk of a text file; raise `InputError` if the file is refused."""
    if chunk.start and (problem := refusal(chunk.source)):
        if errors.skip:  # reading the first chunk reports it
            return
        raise InputError(problem)
    for offset, content in read_blocks(chunk):
        if not offset and (problem := _head_problem(chunk.source, content)):
            raise InputError(problem)
        yield _decode(content if offset else content.removeprefix(BOM_UTF8), chunk.source, offset, errors)


def _decode(content: bytes, source: Source, offset: int, errors: ReadErrors) -> str:
    """Return bytes decoded as UTF-8; lines that are not UTF-8 are dropped and reported as errors."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        lines = []
        for line in content.splitlines(keepends=True):
            try:
                lines.append(line.decode())
            except UnicodeDecodeError as error:
                errors.handle(f"{source.name}, byte {offset + error.start:,}", NOT_UTF_8)
            offset += len(line)
        return "".join(lines)


def _json_records(chunk: SourceChunk, errors: ReadErrors) -> Iterator[tuple[str, Any]]:
    source = chunk.source
    if not source.size:
        errors.handle(source.name, "empty")
    for offset, line in read_lines(chunk):
        location = f"{source.name}, byte {offset:,}"
        if line is None:
            errors.handle(location, f"a line of more than {MAX_RECORD_BYTES >> 20} MiB")
        elif line.strip():
            try:
                yield location, parse_json(line)
            except JsonError as error:
                errors.handle(location, str(error))


def _parquet_records(
    chunk: SourceChunk, reading: ReadingSettings, errors: ReadErrors
) -> Iterator[tuple[str, Any]]:
    source = chunk.source
    if source.compression:
        raise InputError(
            f"{source.name}: compressed Parquet file; decompress it, Parquet has its own compression"
        )
    check_unchanged(source)
    groups = range(chunk.start, chunk.stop)
    if problem := _column_problem(parquet_schema(source.path), reading.field):
        if not errors.skip:
            raise InputError(f"{source.name}: {problem}")
        errors.record(f"{source.name}: {problem}", num_rows(source.path, groups))
        return
    for row, record in enumerate(parquet_rows(source.path, [reading.field], groups, source.stored_object)):
        location = f"{source.name}, group {chunk.start}, row {row}"
        if isinstance(record, str):
            errors.handle(location, record)
        else:
            yield location, record
    check_unchanged(source)


def _column_problem(schema: Any, name: str) -> str | None:
    """Return what is wrong with the column of the texts of a Parquet file; None if nothing is."""
    from pyarrow import types

    if name not in schema.names:
        return _missing_field(name, schema.names)
    column_type = schema.types[schema.names.index(name)]
    if types.is_nested(column_type):
        return (
            f"field {display_text(name)} is {display_text(str(column_type))}, expected text; "
            "choose another with --field"
        )
    return None


def _from_records(
    records: Iterator[tuple[str, Any]], reading: ReadingSettings, errors: ReadErrors
) -> Iterator[list[str]]:
    for text in _record_texts(records, reading, errors):
        yield split_sentences(text, reading.splitter_language)


def _record_texts(
    records: Iterator[tuple[str, Any]], reading: ReadingSettings, errors: ReadErrors
) -> Iterator[str]:
    for location, record in records:
        value = record.get(reading.field) if isinstance(record, Mapping) else None
        if isinstance(value, str):
            if len(value) > MAX_RECORD_BYTES:
                errors.handle(location, f"a text of more than {MAX_RECORD_BYTES >> 20} MiB")
                continue
            if not is_valid_unicode(value):
                errors.handle(location, "an unpaired surrogate")
                continue
            yield from split_text(value, CHUNK_BYTES)  # as a long prose file, several documents
        elif not isinstance(record, Mapping):
            errors.handle(
                location, f"record is {type(record).__name__}, expected an object with field {reading.field}"
            )
        elif reading.field not in record:
            errors.handle(location, _missing_field(reading.field, list(record)))
        else:
            errors.handle(location, f"field {reading.field} is {type(value).__name__}, expected text")


def _missing_field(field_name: str, found: list[str]) -> str:
    fields = display_text(", ".join(found)) or "none"
    return f"no field {display_text(field_name)}; fields: {fields}; choose one with --field"

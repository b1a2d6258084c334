"""Reads chunks of any source as documents, each a list of sentences.

A `.txt` file has one of two layouts, detected from its beginning. "prose": the file is one
document. "lines": one sentence per line and blank lines between documents, as the reference
code of BERT and ALBERT expects. Each record of `.jsonl`, Parquet or a hub dataset is a
document. No sentence, and so no word, is longer than `MAX_SENTENCE_LENGTH`, which bounds the memory of
everything that reads sentences.
"""

import math
import re
from codecs import BOM_UTF8
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from sentencex import segment

from albertine.display import display_text
from albertine.errors import InputError
from albertine.json_input import NOT_UTF_8, RECODE, JsonError, parse_json
from albertine.settings.schema import first_changed
from albertine.text.hub_datasets import hub_records
from albertine.text.paragraphs import ends_sentence, split_paragraphs
from albertine.text.parquet_rows import parquet_rows, parquet_schema
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

MAX_SENTENCE_LENGTH = 1 << 16  # characters; a longer sentence is split
_QUOTATION_MARK = re.compile("['`«»‘“„‹《「『]")  # for whose partner the sentence splitter searches
_SHORT_PARAGRAPH = 5000  # characters; the splitter takes 25 ms for as many marks
_SENTENCE_ENDS = (". ", "! ", "? ", "。", " ")
_LAYOUT_LINES = 400  # lines from which the layout is detected
_MAX_LISTED = 100
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


class UnreadableData(InputError):  # noqa: N818  # what was found
    """A part of the data cannot be used.

    Attributes:
        location: file and line, or the like.
        problem: what is wrong there.
    """

    def __init__(self, location: str, problem: str):
        super().__init__(location, problem)  # so that a process can send it to another
        self.location, self.problem = location, problem

    def __str__(self) -> str:
        if self.problem == NOT_UTF_8:  # mostly a whole file, of which --on-error skip would leave little
            return f"{self.location}: {self.problem} (left out with --on-error skip); {RECODE}"
        return f"{self.location}: {self.problem}; fix it, or use --on-error skip"


@dataclass
class ReadErrors:
    """Raises the first read error, or with `skip` counts all errors and lists the first ones.

    Attributes:
        skip: count errors instead of raising them.
        count: number of errors.
        messages: location and problem of the first errors.
    """

    skip: bool
    count: int = 0
    messages: list[str] = field(default_factory=list)

    def handle(self, location: str, problem: str) -> None:
        """Raise an error, or record it if errors are skipped."""
        if not self.skip:
            raise UnreadableData(location, problem)
        self.record(f"{location}: {problem}")

    def add(self, other: "ReadErrors") -> None:
        """Add the errors of another reader."""
        self.count += other.count
        self.messages += other.messages[: _MAX_LISTED - len(self.messages)]

    @property
    def summary(self) -> str:
        """The number of errors and the first one, for a message."""
        return f"{self.count:,} unreadable records skipped, first: {self.messages[0]}"

    def record(self, message: str) -> None:
        """Count an error; list its message if fewer than `_MAX_LISTED` are listed."""
        self.count += 1
        if len(self.messages) < _MAX_LISTED:
            self.messages.append(message)


def read_documents(chunk: SourceChunk, reading: ReadingSettings, errors: ReadErrors) -> Iterator[list[str]]:
    """Yield each document of a chunk as a list of sentences; empty documents are dropped."""
    try:
        yield from filter(None, _documents_by_format(chunk, reading, errors))
    except InputError as error:
        if not errors.skip:
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
        if not errors.skip:
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
    num_sentences = sum(len(_paragraph_sentences(line, language)) for line in nonempty)
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


def split_sentences(text: str, language: str) -> list[str]:
    """Return the sentences of a prose text."""
    return [
        sentence
        for paragraph in split_paragraphs(text)
        for sentence in map(str.strip, _paragraph_sentences(paragraph, language))
        if sentence
    ]


def _paragraph_sentences(paragraph: str, language: str) -> list[str]:
    """Return the sentences of a paragraph, with the spaces around them.

    The splitter searches the rest of its text for the partner of each quotation mark. A long paragraph of
    many marks is divided first, so that the time does not grow with the square of its length.
    """
    length = len(paragraph)
    if length <= _SHORT_PARAGRAPH:
        return list(segment(language, paragraph))
    num_marks = len(_QUOTATION_MARK.findall(paragraph))
    if length * num_marks > _SHORT_PARAGRAPH**2:
        length = _SHORT_PARAGRAPH * math.isqrt(length // num_marks)
    return [
        part
        for divided in split_text(paragraph, length, _SENTENCE_ENDS)
        for sentence in segment(language, divided)
        for part in split_text(sentence, MAX_SENTENCE_LENGTH)
    ]


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


def split_text(text: str, max_length: int, after: Sequence[str] = (" ",)) -> Iterator[str]:
    """Yield a text in parts of at most `max_length` characters.

    Args:
        text: the text.
        max_length: maximum characters of a part.
        after: after which strings to split, best first; without any, parts have the maximum length.
    """
    start = 0
    while len(text) - start > max_length:
        stop = start + max_length
        cut = next((end + len(mark) for mark in after if (end := text.rfind(mark, start, stop)) >= 0), stop)
        yield text[start:cut]
        start = cut
    yield text[start:] if start else text


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
    import pyarrow as pa

    source = chunk.source
    if source.compression:
        raise InputError(
            f"{source.name}: compressed Parquet file; decompress it, Parquet has its own compression"
        )
    check_unchanged(source)
    schema = parquet_schema(source.path)
    if reading.field not in schema.names:
        raise InputError(f"{source.name}: {_missing_field(reading.field, schema.names)}")
    column_type = schema.types[schema.names.index(reading.field)]
    if pa.types.is_nested(column_type):
        raise InputError(
            f"{source.name}: field {display_text(reading.field)} is {display_text(str(column_type))}, "
            "expected text; choose another with --field"
        )
    for row, record in enumerate(
        parquet_rows(source.path, [reading.field], range(chunk.start, chunk.stop), source.stored_object)
    ):
        location = f"{source.name}, group {chunk.start}, row {row}"
        if isinstance(record, str):
            errors.handle(location, record)
        else:
            yield location, record
    check_unchanged(source)


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

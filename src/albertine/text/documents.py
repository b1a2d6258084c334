"""Reads chunks of any source as documents, each a list of sentences.

A `.txt` file has one of two layouts, detected from its beginning. "prose": the file is one
document. "lines": one sentence per line and blank lines between documents, as the reference
code of BERT and ALBERT expects. Each record of `.jsonl`, Parquet or a hub dataset is a
document.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from sentencex import segment

from albertine.errors import InputError
from albertine.settings.schema import display_text
from albertine.text.hub_datasets import hub_records
from albertine.text.paragraphs import ends_sentence, paragraphs
from albertine.text.settings import ReadingSettings
from albertine.text.sources import CHUNK_BYTES, Source, SourceChunk, read_blocks, read_head
from albertine.text.unicode_check import is_valid_unicode

Layout = Literal["prose", "lines"]

_LAYOUT_LINES = 400  # lines from which the layout is detected
_MAX_LISTED = 100
_BINARY_CHECK_BYTES = 4096  # bytes in which a zero byte means that the file is not text


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
            raise InputError(f"{location}: {problem}; fix it, or use --on-error skip")
        self.record(f"{location}: {problem}")

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
    source_format = chunk.source.format
    if source_format == "text":
        yield from _from_text(chunk, reading, errors)
    elif source_format == "jsonl":
        yield from _from_records(_json_records(chunk, errors), reading, errors)
    elif source_format == "parquet":
        yield from _from_records(_parquet_records(chunk, reading), reading, errors)
    else:
        yield from _from_records(hub_records(chunk.source.name, chunk.start), reading, errors)


def text_layout(source: Source, reading: ReadingSettings) -> Layout:
    """Return the layout of a text file: the one in the settings, or detected from its beginning."""
    return _detected_file_layout(source, reading.language) if reading.layout == "auto" else reading.layout


@lru_cache(maxsize=64)
def _detected_file_layout(source: Source, language: str) -> Layout:
    return detect_layout(read_head(source).decode("utf-8-sig", "replace"), language)


def detect_layout(text: str, language: str) -> Layout:
    """Return "lines" if most lines are single complete sentences and few are blank, else "prose"."""
    lines = text.splitlines()[:_LAYOUT_LINES]
    nonempty = [line.strip() for line in lines if line.strip()]
    if len(nonempty) < 2 or len(nonempty) < 0.6 * len(lines):
        return "prose"
    complete_share = sum(map(ends_sentence, nonempty)) / len(nonempty)
    sentences_per_line = sum(len(segment(language, line)) for line in nonempty) / len(nonempty)
    return "lines" if complete_share >= 0.75 and sentences_per_line <= 1.15 else "prose"


def _from_text(chunk: SourceChunk, reading: ReadingSettings, errors: ReadErrors) -> Iterator[list[str]]:
    source = chunk.source
    layout = text_layout(source, reading)
    for offset, content in read_blocks(chunk):
        text = _decode(content, source, offset, errors)
        if layout == "prose":
            yield _split_sentences(text, reading.language)
        else:
            yield from _line_documents(text)
    if not source.size:
        errors.handle(source.name, "empty")


def _split_sentences(text: str, language: str) -> list[str]:
    return [
        sentence
        for paragraph in paragraphs(text)
        for sentence in map(str.strip, segment(language, paragraph))
        if sentence
    ]


def _line_documents(text: str) -> Iterator[list[str]]:
    document: list[str] = []
    for line in map(str.strip, text.splitlines()):
        if line:
            document.append(line)
        else:
            yield document
            document = []
    yield document


def _decode(content: bytes, source: Source, offset: int, errors: ReadErrors) -> str:
    """Return bytes decoded as UTF-8; lines that are not UTF-8 are dropped and reported as errors."""
    if not offset:
        if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise InputError(f"{source.name}: UTF-16 text; save it as UTF-8")
        if b"\0" in content[:_BINARY_CHECK_BYTES]:
            raise InputError(f"{source.name}: zero bytes, not UTF-8 text; give a text file")
        content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        return content.decode()
    except UnicodeDecodeError:
        lines = []
        for line in content.splitlines(keepends=True):
            try:
                lines.append(line.decode())
            except UnicodeDecodeError as error:
                errors.handle(f"{source.name}, byte {offset + error.start:,}", "not UTF-8")
            offset += len(line)
        return "".join(lines)


def _json_records(chunk: SourceChunk, errors: ReadErrors) -> Iterator[tuple[str, Any]]:
    source = chunk.source
    if not source.size:
        errors.handle(source.name, "empty")
    for offset, content in read_blocks(chunk):
        start = offset
        for line in content.splitlines(keepends=True):
            location = f"{source.name}, byte {start:,}"
            start += len(line)
            if not line.strip():
                continue
            try:
                yield location, json.loads(line.decode("utf-8-sig"))
            except UnicodeDecodeError:
                errors.handle(location, "not UTF-8")
            except (ValueError, RecursionError) as error:
                errors.handle(location, f"not JSON ({error})")


def _parquet_records(chunk: SourceChunk, reading: ReadingSettings) -> Iterator[tuple[str, Any]]:
    import pyarrow as pa
    from pyarrow import parquet

    name = chunk.source.name
    if chunk.source.compression:
        raise InputError(f"{name}: compressed Parquet file; decompress it, Parquet has its own compression")
    try:
        file = parquet.ParquetFile(chunk.source.path)
        if reading.field not in file.schema_arrow.names:
            raise InputError(f"{name}: {_missing_field(reading.field, file.schema_arrow.names)}")
        groups = list(range(chunk.start, chunk.stop))
        row = 0
        for batch in file.iter_batches(1000, row_groups=groups, columns=[reading.field]):
            for value in batch.column(0).to_pylist():
                yield f"{name}, group {chunk.start}, row {row}", {reading.field: value}
                row += 1
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{name}: damaged, or not Parquet ({reason}); get the file again") from None


def _from_records(
    records: Iterator[tuple[str, Any]], reading: ReadingSettings, errors: ReadErrors
) -> Iterator[list[str]]:
    for location, record in records:
        value = record.get(reading.field) if isinstance(record, Mapping) else None
        if isinstance(value, str):
            if not is_valid_unicode(value):
                errors.handle(location, "an unpaired surrogate")
                continue
            for part in _bounded_texts(value):
                yield _split_sentences(part, reading.language)
        elif not isinstance(record, Mapping):
            errors.handle(
                location, f"record is {type(record).__name__}, expected an object with field {reading.field}"
            )
        elif reading.field not in record:
            errors.handle(location, _missing_field(reading.field, list(record)))
        else:
            errors.handle(location, f"field {reading.field} is {type(value).__name__}, expected text")


def _bounded_texts(text: str) -> Iterator[str]:
    """Yield a text in parts of at most `CHUNK_BYTES` characters, split at spaces.

    Each part becomes a document, as each chunk of a long prose file does.
    """
    while len(text) > CHUNK_BYTES:
        cut = text.rfind(" ", 0, CHUNK_BYTES) + 1 or CHUNK_BYTES
        yield text[:cut]
        text = text[cut:]
    yield text


def _missing_field(field_name: str, found: list[str]) -> str:
    fields = display_text(", ".join(found)) or "none"
    return f"no field {display_text(field_name)}; fields: {fields}; choose one with --field"

"""Documents as lists of sentences, out of a portion of any source.

A `.txt` is prose, a document to itself, or has one sentence on each line with
blank lines between documents, as the reference code of BERT and ALBERT reads
it. Which of the two is seen from its beginning. A record of `.jsonl`, Parquet or
a data set of the hub is a document.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal

from sentencex import segment

from albertine.errors import InputError
from albertine.settings.schema import shortened
from albertine.text.hub import records
from albertine.text.prose import ends_sentence, paragraphs
from albertine.text.settings import ReadingSettings
from albertine.text.sources import PORTION_BYTES, Portion, Source, blocks, head_of

Layout = Literal["prose", "lines"]

_SEEN_LINES = 400
_LISTED = 100
_HEAD = 4096


@dataclass
class Troubles:
    """What could not be read: the first of it stops the work, or all of it is counted and some listed."""

    skip: bool
    count: int = 0
    places: list[str] = field(default_factory=list)

    def meet(self, place: str, problem: str) -> None:
        """Take note of a trouble, or raise it."""
        if not self.skip:
            raise InputError(f"{place}: {problem}; mend it, or give --on-error skip to leave it out")
        self.note(f"{place}: {problem}")

    def note(self, trouble: str) -> None:
        """Count a trouble, and list it if there is room."""
        self.count += 1
        if len(self.places) < _LISTED:
            self.places.append(trouble)


def documents(portion: Portion, reading: ReadingSettings, troubles: Troubles) -> Iterator[list[str]]:
    """Yield the documents of a portion, each as its sentences; never an empty one."""
    try:
        yield from filter(None, _found(portion, reading, troubles))
    except InputError as error:
        if not troubles.skip:
            raise
        troubles.note(str(error))  # the file itself: what was whole of it has been read


def _found(portion: Portion, reading: ReadingSettings, troubles: Troubles) -> Iterator[list[str]]:
    kind = portion.source.kind
    if kind == "text":
        yield from _from_text(portion, reading, troubles)
    elif kind == "json":
        yield from _from_records(_json_records(portion, troubles), reading, troubles)
    elif kind == "parquet":
        yield from _from_records(_parquet_records(portion, reading), reading, troubles)
    else:
        yield from _from_records(records(portion.source.name, portion.start), reading, troubles)


def layout_of(source: Source, reading: ReadingSettings) -> Layout:
    """Tell how a file of text is laid out: as asked, or as its beginning looks."""
    return _seen_layout(source, reading.language) if reading.layout == "auto" else reading.layout


@lru_cache(maxsize=64)
def _seen_layout(source: Source, language: str) -> Layout:
    return layout_seen(head_of(source).decode("utf-8-sig", "replace"), language)


def layout_seen(text: str, language: str) -> Layout:
    """Tell whether lines are sentences: each ends as one does and holds no second, blank lines are rare."""
    lines = text.splitlines()[:_SEEN_LINES]
    full = [line.strip() for line in lines if line.strip()]
    if len(full) < 2 or len(full) < 0.6 * len(lines):
        return "prose"
    ended = sum(map(ends_sentence, full)) / len(full)
    sentences = sum(len(segment(language, line)) for line in full) / len(full)
    return "lines" if ended >= 0.75 and sentences <= 1.15 else "prose"


def _from_text(portion: Portion, reading: ReadingSettings, troubles: Troubles) -> Iterator[list[str]]:
    source = portion.source
    layout = layout_of(source, reading)
    for at, content in blocks(portion):
        text = _decoded(content, source, at, troubles)
        if layout == "prose":
            yield _sentences(text, reading.language)
        else:
            yield from _line_documents(text)
    if not source.size:
        troubles.meet(source.name, "empty")


def _sentences(text: str, language: str) -> list[str]:
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


def _decoded(content: bytes, source: Source, at: int, troubles: Troubles) -> str:
    """Decode UTF-8; leave out lines that are not, if that was asked."""
    if not at:
        if content[:2] in (b"\xff\xfe", b"\xfe\xff"):
            raise InputError(f"{source.name}: UTF-16 text; save it as UTF-8")
        if b"\0" in content[:_HEAD]:
            raise InputError(f"{source.name}: has zero bytes, so it is no text in UTF-8")
        content = content.removeprefix(b"\xef\xbb\xbf")
    try:
        return content.decode()
    except UnicodeDecodeError:
        lines = []
        for line in content.splitlines(keepends=True):
            try:
                lines.append(line.decode())
            except UnicodeDecodeError as error:
                troubles.meet(f"{source.name}, byte {at + error.start:,}", "not UTF-8")
            at += len(line)
        return "".join(lines)


def _json_records(portion: Portion, troubles: Troubles) -> Iterator[tuple[str, Any]]:
    source = portion.source
    if not source.size:
        troubles.meet(source.name, "empty")
    for at, content in blocks(portion):
        start = at
        for line in content.splitlines(keepends=True):
            place = f"{source.name}, byte {start:,}"
            start += len(line)
            if not line.strip():
                continue
            try:
                yield place, json.loads(line.decode("utf-8-sig"))
            except UnicodeDecodeError:
                troubles.meet(place, "not UTF-8")
            except (ValueError, RecursionError) as error:
                troubles.meet(place, f"a line that is not JSON ({error})")


def _parquet_records(portion: Portion, reading: ReadingSettings) -> Iterator[tuple[str, Any]]:
    import pyarrow as pa
    from pyarrow import parquet

    name = portion.source.name
    if portion.source.compression:
        raise InputError(f"{name}: Parquet compresses inside; unpack the file")
    try:
        file = parquet.ParquetFile(portion.source.path)
        if reading.field not in file.schema_arrow.names:
            raise InputError(_no_field(name, reading.field, file.schema_arrow.names))
        groups = list(range(portion.start, portion.stop))
        row = 0
        for batch in file.iter_batches(1000, row_groups=groups, columns=[reading.field]):
            for value in batch.column(0).to_pylist():
                yield f"{name}, group {portion.start}, row {row}", {reading.field: value}
                row += 1
    except (OSError, pa.ArrowException) as error:
        reason = str(error).partition("\n")[0]
        raise InputError(f"{name}: no whole Parquet file ({reason}); get it again") from None


def _from_records(
    found: Iterator[tuple[str, Any]], reading: ReadingSettings, troubles: Troubles
) -> Iterator[list[str]]:
    for place, record in found:
        value = record.get(reading.field) if isinstance(record, Mapping) else None
        if isinstance(value, str):
            try:
                value.encode()
            except UnicodeEncodeError:
                troubles.meet(place, "half a character (a surrogate by itself)")
                continue
            for part in _parts(value):
                yield _sentences(part, reading.language)
        elif isinstance(record, Mapping) and reading.field not in record:
            troubles.meet(place, _no_field("", reading.field, list(record)).removeprefix(": "))
        else:
            kind = type(record).__name__ if not isinstance(record, Mapping) else type(value).__name__
            troubles.meet(place, f"no text in field {reading.field}, but {kind}")


def _parts(text: str) -> Iterator[str]:
    """Cut a very long record between words; it goes on as further documents, as a long file does."""
    while len(text) > PORTION_BYTES:
        cut = text.rfind(" ", 0, PORTION_BYTES) + 1 or PORTION_BYTES
        yield text[:cut]
        text = text[cut:]
    yield text


def _no_field(name: str, wanted: str, known: list[str]) -> str:
    there = shortened(", ".join(known)) or "none"
    return f"{name}: no field {shortened(wanted)}; it has {there}; name one with --field"

"""Text sources, read in chunks.

A `Source` is one file or one dataset. A `SourceChunk` is a range of it that one process reads.
The chunks, and so the result, are the same for any number of processes. An uncompressed text
file is split into chunks of about 4 MiB, at blank lines or, if there are none, at line ends. A
compressed file can only be read from its start, so it is one chunk; it is read in blocks, because
a large one may not fit in memory. JSON lines are read one by one. So the memory does not depend
on the size of a file, whether or not its text has spaces and line ends.
"""

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, cast

from albertine.errors import InputError, WorkError
from albertine.storage.objects import StoredObject, open_object
from albertine.storage.urls import storage_url
from albertine.text.hub_datasets import num_shards
from albertine.text.parquet_rows import num_row_groups

SourceFormat = Literal["text", "jsonl", "parquet", "hub"]
Compression = Literal["gzip", "zstd"]

CHUNK_BYTES = 4 << 20
MAX_RECORD_BYTES = 64 << 20  # of a line of .jsonl, or of the text in a row of .parquet
_SEARCH_BYTES = 1 << 18  # number of bytes in which to search for a blank line, a line end or a space
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))[ \t]*(?:\r\n|\n|\r)")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_SPACE = re.compile(rb"[ \t]")
_SENTENCE_END = re.compile("。|！|？".encode())  # in scripts without spaces


@dataclass(frozen=True)
class Source:
    """One file, or one dataset of the hub.

    Attributes:
        name: name for messages: a path, the name of a dataset, or "standard input".
        format: format of the content.
        path: path of the file, or its URL as a path; unused for a dataset.
        compression: compression of the file, if any.
        size: bytes on disk; 0 for a dataset.
        version: changes with the content; empty if unknown, as for a dataset.
    """

    name: str
    format: SourceFormat
    path: Path = Path()
    compression: Compression | None = None
    size: int = 0
    version: str = ""

    @property
    def has_byte_ranges(self) -> bool:
        """Whether the chunks are ranges of bytes of the text: uncompressed text or JSON lines."""
        return self.format in ("text", "jsonl") and self.compression is None

    @property
    def stored_object(self) -> StoredObject | None:
        """The object on object storage, as it was found; None for local files."""
        url = storage_url(self.path)
        return None if url is None else StoredObject(url, self.size, self.version)


@dataclass(frozen=True)
class SourceChunk:
    """A range of a source, from `start` to `stop` (exclusive).

    The range counts bytes of a text file, row groups of a Parquet file, or shards of a dataset. A text
    chunk contains the text between the first boundaries at or after the two byte offsets (`_next_boundary`).

    Attributes:
        source: the file or dataset.
        start: first byte, row group or shard.
        stop: end of the range.
    """

    source: Source
    start: int
    stop: int


def source_chunks(source: Source) -> Iterator[SourceChunk]:
    """Yield the chunks of a source, in order."""
    if source.format == "parquet":
        yield from _row_group_chunks(source)
    elif source.format == "hub":
        yield from (SourceChunk(source, shard, shard + 1) for shard in range(num_shards(source.name)))
    elif not source.has_byte_ranges:
        yield SourceChunk(source, 0, source.size)
    else:
        # An empty file has one chunk too, so that reading reports it.
        for start in range(0, max(1, source.size), CHUNK_BYTES):
            yield SourceChunk(source, start, min(start + CHUNK_BYTES, source.size))


def _row_group_chunks(source: Source) -> Iterator[SourceChunk]:
    try:
        groups = num_row_groups(source.path)
    except InputError:
        groups = 1  # reading the chunk reports the error
    yield from (SourceChunk(source, group, group + 1) for group in range(groups))


def read_blocks(chunk: SourceChunk) -> Iterator[tuple[int, bytes]]:
    """Yield the content of a text chunk as pairs of offset (in the decompressed file) and block.

    A chunk of an uncompressed file is one block. A compressed file gives blocks of about `CHUNK_BYTES`,
    split at the same boundaries as chunks (`_BOUNDARY_PATTERNS`).
    """
    with _described_errors(chunk.source):
        if chunk.source.compression:
            yield from _decompressed_blocks(chunk.source)
        else:
            yield _read_between(chunk.source, chunk.start, chunk.stop)


def read_lines(chunk: SourceChunk) -> Iterator[tuple[int, bytes | None]]:
    """Yield offset and content of each line that begins in a chunk; see `bounded_lines`."""
    source = chunk.source
    with _described_errors(source):
        if source.compression:
            with _open_compressed(source) as stream:
                yield from bounded_lines(stream, MAX_RECORD_BYTES)
            return
        with open_source(source, CHUNK_BYTES) as file:
            first = _first_line_start(file, chunk.start, chunk.stop)
            file.seek(first)
            for offset, line in bounded_lines(file, MAX_RECORD_BYTES) if first < chunk.stop else ():
                if first + offset >= chunk.stop:
                    return
                yield first + offset, line


def bounded_lines(stream: BinaryIO, max_bytes: int) -> Iterator[tuple[int, bytes | None]]:
    """Yield the offset of each line, and the line with its end, or None if it has more than `max_bytes`.

    Lines end with a line feed, a carriage return or both. The memory is bounded by `max_bytes`.
    """
    offset = size = 0  # of the current line
    parts: list[bytes] = []
    for block in _blocks_of_line_ends(stream):
        for part in block.splitlines(keepends=True):
            if not size and part[-1] in b"\r\n" and len(part) <= max_bytes:  # a whole line
                yield offset, part
                offset += len(part)
                continue
            parts.append(part)
            size += len(part)
            if size > max_bytes:
                if parts[0]:  # not reported yet
                    yield offset, None
                parts = [b""]
            if part.endswith((b"\n", b"\r")):
                if size <= max_bytes:
                    yield offset, b"".join(parts)
                offset, size, parts = offset + size, 0, []
    if parts and size <= max_bytes:
        yield offset, b"".join(parts)


def _blocks_of_line_ends(stream: BinaryIO) -> Iterator[bytes]:
    """Yield a stream in blocks, none of which ends between a carriage return and its line feed."""
    held_back = b""
    while data := stream.read(_SEARCH_BYTES):
        data = held_back + data
        held_back = b"\r" if data.endswith(b"\r") else b""
        yield data.removesuffix(b"\r")
    yield held_back


def read_range(source: Source, start: int, size: int) -> bytes:
    """Return `size` bytes of an uncompressed file from `start` on, fewer at its end."""
    with _described_errors(source), open_source(source) as file:
        file.seek(start)
        return file.read(size)


def check_unchanged(source: Source) -> None:
    """Raise `WorkError` if a local file has lost text since it was found; `open_object` checks objects.

    A file that grows, such as a log, is read as far as it was found. A Parquet or compressed file does not
    grow, but is written anew.
    """
    if not source.version or source.stored_object is not None:
        return
    with suppress(FileNotFoundError):
        size = source.path.stat().st_size
        if size == source.size or (size > source.size and source.has_byte_ranges):
            return
    raise WorkError(
        f"{source.name}: shortened, replaced or removed while it was read; restore it and run the command "
        "again, or begin anew with the text as it is"
    )


@contextmanager
def _described_errors(source: Source) -> Iterator[None]:
    """Raise the errors of reading a source as `InputError` or `WorkError`, with its name.

    A local file must have all the text with which it was found, before and after it is read.
    """
    try:
        check_unchanged(source)
        yield
        check_unchanged(source)
    except PermissionError as error:
        raise InputError(f"{source.name}: {error.strerror}") from None
    except (OSError, EOFError, zlib.error) as error:
        if source.compression and not getattr(error, "errno", None):
            reason = f"damaged, or not {source.compression} ({_first_line(error)}); get the file again"
            raise InputError(f"{source.name}: {reason}") from None
        raise WorkError(f"{source.name}: {getattr(error, 'strerror', None) or _first_line(error)}") from None


def read_head(source: Source) -> bytes:
    """Return the decompressed beginning of a text file, for layout detection."""
    chunk = SourceChunk(source, 0, min(source.size, CHUNK_BYTES))
    return next((content for _, content in read_blocks(chunk)), b"")[:_SEARCH_BYTES]


def _decompressed_blocks(source: Source) -> Iterator[tuple[int, bytes]]:
    offset, buffer = 0, b""
    with _open_compressed(source) as stream:
        while data := stream.read(CHUNK_BYTES):
            buffer += data
            boundary = _last_boundary(buffer) if len(buffer) >= CHUNK_BYTES else 0
            if boundary:
                yield offset, buffer[:boundary]
                offset, buffer = offset + boundary, buffer[boundary:]
    if buffer:
        yield offset, buffer


def _open_compressed(source: Source) -> BinaryIO:
    # A path for local files: the libraries close what they open.
    opened = source.path if storage_url(source.path) is None else open_source(source, CHUNK_BYTES)
    if source.compression == "gzip":
        return cast(BinaryIO, gzip.open(opened, "rb"))
    import pyarrow as pa

    return cast(
        BinaryIO, pa.input_stream(str(opened) if opened is source.path else opened, compression="zstd")
    )


# The patterns that mark a boundary, best first; a boundary is the end of a match. A pattern is searched only
# where the patterns before it have no match.
_BOUNDARY_PATTERNS = (_BLANK_LINE, _LINE_END, _SPACE, _SENTENCE_END)


def _last_boundary(content: bytes) -> int:
    """Return the offset of the last boundary within `_SEARCH_BYTES`, or else of the last character."""
    search_start = max(0, len(content) - _SEARCH_BYTES)
    for pattern in _BOUNDARY_PATTERNS:
        ends = [match.end() for match in pattern.finditer(content, search_start)]
        if ends:
            return ends[-1]
    return _last_character(content) or len(content)


def open_source(source: Source, buffer_bytes: int = 1 << 18) -> BinaryIO:
    """Open a file, or an object as it was when it was found; see `open_object`."""
    stored = source.stored_object
    return source.path.open("rb") if stored is None else open_object(stored.url, buffer_bytes, stored)


def _read_between(source: Source, start: int, stop: int) -> tuple[int, bytes]:
    """Return the offset and the content of the text between the boundaries at or after `start` and `stop`."""
    with open_source(source) as file:
        begin, end = (_next_boundary(file, offset, source) for offset in (start, stop))
        file.seek(begin)
        return begin, file.read(end - begin)


def _next_boundary(file: BinaryIO, offset: int, source: Source) -> int:
    """Return the first boundary at or after `offset`, which ends one chunk and begins the next.

    If `_SEARCH_BYTES` hold no boundary, the text is split between two characters.
    """
    if offset == 0 or offset >= source.size:
        return min(offset, source.size)
    file.seek(offset - 1)  # a line end just before `offset` makes `offset` itself a boundary
    ahead = file.read(_SEARCH_BYTES)
    for pattern in _BOUNDARY_PATTERNS:
        match = pattern.search(ahead)
        if match:
            return offset - 1 + match.end()
        if offset - 1 + len(ahead) == source.size:
            return source.size  # no such boundary before the end of the file: the chunk takes the rest
    return max(offset, offset - 1 + _last_character(ahead))


def _last_character(content: bytes) -> int:
    """Return the offset of the last character of a text in UTF-8; the character may be incomplete."""
    offset = len(content) - 1
    while offset > max(0, len(content) - 4) and content[offset] & 0xC0 == 0x80:
        offset -= 1
    return max(0, offset)


def _first_line_start(file: BinaryIO, start: int, stop: int) -> int:
    """Return the offset of the first line from `start` on; `stop` if none begins before it."""
    if start == 0:
        return 0
    offset = start - 1  # a line end just before `start` makes `start` itself the first line
    file.seek(offset)
    while offset < stop and (ahead := file.read(_SEARCH_BYTES)):
        if ahead.endswith(b"\r"):
            ahead += file.read(1)  # it may be a line feed
        match = _LINE_END.search(ahead)
        if match:
            return min(stop, offset + match.end())
        offset += len(ahead)
    return stop


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]

"""Text sources: files, folders, globs, standard input and hub datasets, read in chunks.

A `Source` is one file or one dataset. A `SourceChunk` is a range of it that one process reads.
The chunks, and so the result, are the same for any number of processes. An uncompressed text
file is split into chunks of about 4 MiB, at blank lines or, if there are none, at line ends. A
compressed file can only be read from its start, so it is one chunk. A compressed file is read in
blocks, because a large one may not fit in memory.
"""

import glob
import gzip
import os
import re
import sys
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, cast

from albertine import progress
from albertine.errors import InputError, WorkError
from albertine.text.hub_datasets import HUB_PREFIX, num_shards

SourceFormat = Literal["text", "jsonl", "parquet", "hub"]
Compression = Literal["gzip", "zstd"]

CHUNK_BYTES = 4 << 20
_FORMATS: dict[str, SourceFormat] = {".txt": "text", ".text": "text", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_FORMATS |= {".parquet": "parquet"}
_COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_SEARCH_BYTES = 1 << 18  # number of bytes in which to search for a blank line, a line end or a space
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))[ \t]*(?:\r\n|\n|\r)")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_SPACE = re.compile(rb"[ \t]")


@dataclass(frozen=True)
class Source:
    """One file, or one dataset of the hub.

    Attributes:
        name: name for messages: a path, the name of a dataset, or "standard input".
        format: format of the content.
        path: path of the file; unused for a dataset.
        compression: compression of the file, if any.
        size: bytes on disk; 0 for a dataset.
    """

    name: str
    format: SourceFormat
    path: Path = Path()
    compression: Compression | None = None
    size: int = 0

    @property
    def has_byte_ranges(self) -> bool:
        """Whether the chunks are ranges of bytes of the text: uncompressed text or JSON lines."""
        return self.format in ("text", "jsonl") and self.compression is None


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


def find_sources(arguments: Sequence[str], *, spool: Path | None = None) -> list[Source]:
    """Return the sources of command-line arguments, each once; the files of a folder are sorted by name.

    Args:
        arguments: files, folders, globs, `-` for standard input, `hub:OWNER/NAME[:CONFIG[:SPLIT]]`.
        spool: file to copy standard input to, so that it can be read like a file.
    """
    sources: dict[str, Source] = {}
    for argument in arguments:
        if argument in ("-", "/dev/stdin"):
            source = _spool_standard_input(spool)
            sources[source.name] = source
        elif argument.startswith(HUB_PREFIX):
            sources[argument] = Source(argument, "hub")
        else:
            for file in _find_files(argument):
                sources.setdefault(os.path.realpath(file), _file_source(file))
    if not sources:
        raise InputError("no text: name a file, a folder, a glob or - for standard input")
    return list(sources.values())


def _find_files(argument: str) -> Iterator[Path]:
    path = Path(argument)
    if path.is_dir():
        files = [file for file in _visible_files(path) if _split_suffixes(file)[0] in _FORMATS]
        if not files:
            raise InputError(
                f"{path}: no text files in this folder; expected .txt, .text, .jsonl or .ndjson, "
                "also compressed as .gz or .zst, or .parquet"
            )
        yield from files
    elif path.exists():
        yield path
    else:
        matches = sorted(glob.glob(argument, recursive=True)) if glob.has_magic(argument) else []  # noqa: PTH207
        if not matches:
            raise InputError(f"{argument}: no such file or folder")
        for match in matches:
            yield from _find_files(match)


def _visible_files(folder: Path) -> Iterator[Path]:
    """Yield all files under a folder except hidden ones, sorted by name."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _visible_files(entry)
        else:
            yield entry


def _split_suffixes(file: Path) -> tuple[str, Compression | None]:
    """Return the suffix of the format, such as ".txt" for a.txt.gz, and the compression."""
    compression = _COMPRESSIONS.get(file.suffix.lower())
    inner = Path(file.stem) if compression else file
    return inner.suffix.lower(), compression


def _file_source(file: Path) -> Source:
    suffix, compression = _split_suffixes(file)
    if suffix == ".json":
        raise InputError(f"{file}: a single JSON document; convert it to .jsonl, one record per line")
    if not file.is_file():
        raise InputError(f"{file}: not a regular file; pipe its text to - (standard input)")
    return Source(str(file), _FORMATS.get(suffix, "text"), file, compression, file.stat().st_size)


def _spool_standard_input(spool: Path | None) -> Source:
    """Copy standard input to the file `spool`, which several processes can read; return it as a source."""
    if spool is None:
        raise InputError("-: cannot read standard input here; name a file or a folder")
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("-: standard input is a terminal; pipe text into it or name files")
    with (
        spool.open("wb") as spooled,
        progress.progress_counter("Reading standard input", total=None, unit="bytes") as advance,
    ):
        while block := sys.stdin.buffer.read(1 << 20):
            spooled.write(block)
            advance(len(block))
    with spool.open("rb") as spooled:
        is_json = spooled.read(1) == b"{"
    return Source("standard input", "jsonl" if is_json else "text", spool, None, spool.stat().st_size)


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
    import pyarrow as pa
    from pyarrow import parquet

    try:
        groups = parquet.ParquetFile(source.path).num_row_groups
    except (OSError, pa.ArrowException):
        groups = 1  # reading the chunk reports the error
    yield from (SourceChunk(source, group, group + 1) for group in range(groups))


def read_blocks(chunk: SourceChunk) -> Iterator[tuple[int, bytes]]:
    """Yield the content of a chunk as pairs of offset (in the decompressed file) and block.

    A chunk of an uncompressed file is one block. A compressed file gives blocks of about `CHUNK_BYTES`,
    split at the same boundaries as chunks (`_boundary_patterns`).
    """
    source = chunk.source
    try:
        if source.compression:
            yield from _decompressed_blocks(source)
        else:
            yield _read_between(source, chunk.start, chunk.stop)
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
            boundary = _last_boundary(buffer, source) if len(buffer) >= CHUNK_BYTES else 0
            if boundary:
                yield offset, buffer[:boundary]
                offset, buffer = offset + boundary, buffer[boundary:]
    if buffer:
        yield offset, buffer


def _open_compressed(source: Source) -> BinaryIO:
    if source.compression == "gzip":
        return cast(BinaryIO, gzip.open(source.path, "rb"))
    import pyarrow as pa

    return cast(BinaryIO, pa.input_stream(str(source.path), compression="zstd"))


def _last_boundary(content: bytes, source: Source) -> int:
    """Return the offset of the last boundary within `_SEARCH_BYTES` of the end; 0 if there is none."""
    search_start = max(0, len(content) - _SEARCH_BYTES)
    for pattern in _boundary_patterns(source):
        ends = [match.end() for match in pattern.finditer(content, search_start)]
        if ends:
            return ends[-1]
    return 0


def _read_between(source: Source, start: int, stop: int) -> tuple[int, bytes]:
    """Return the offset and the content of the text between the boundaries at or after `start` and `stop`."""
    with source.path.open("rb") as file:
        begin, end = (_next_boundary(file, offset, source) for offset in (start, stop))
        file.seek(begin)
        return begin, file.read(end - begin)


def _boundary_patterns(source: Source) -> tuple[re.Pattern[bytes], ...]:
    """Return the patterns that mark a boundary, best first; a boundary is the end of a match.

    A pattern is searched only where the patterns before it have no match.
    """
    return (_LINE_END,) if source.format == "jsonl" else (_BLANK_LINE, _LINE_END, _SPACE)


def _next_boundary(file: BinaryIO, offset: int, source: Source) -> int:
    """Return the first boundary at or after `offset`, which ends one chunk and begins the next."""
    if offset == 0 or offset >= source.size:
        return min(offset, source.size)
    file.seek(offset - 1)  # a line end just before `offset` makes `offset` itself a boundary
    ahead = file.read(_SEARCH_BYTES)
    for pattern in _boundary_patterns(source):
        match = pattern.search(ahead)
        if match:
            return offset - 1 + match.end()
        if offset - 1 + len(ahead) == source.size:
            return source.size  # no such boundary before the end of the file: the chunk takes the rest
    return _next_line_start(file, offset + len(ahead) - 1, source.size)


def _next_line_start(file: BinaryIO, offset: int, size: int) -> int:
    """Return the start of the first line after `offset`, for a line that is longer than the search range."""
    while offset < size:
        file.seek(offset)
        ahead = file.read(_SEARCH_BYTES)
        match = _LINE_END.search(ahead)
        if match:
            return offset + match.end()
        offset += len(ahead) or size  # an empty read: the file was truncated meanwhile
    return size


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]

"""Where text comes from: files, folders, globs, standard input, data sets of the hub.

A `Source` is one file (or one data set); a `Portion` is the part of it that is
read at a time, some megabytes. Portions depend on the files alone, so any number
of processes, in any order, reads the same text; a file of any size is never in
memory whole. A plain file is cut at blank lines, or at ends of lines where there
are none; a compressed one, which can only be read from its start, is one portion.
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

SourceFormat = Literal["text", "json", "parquet", "hub"]
Compression = Literal["gzip", "zstd"]

CHUNK_BYTES = 4 << 20
_FORMATS: dict[str, SourceFormat] = {".txt": "text", ".text": "text", ".jsonl": "json", ".ndjson": "json"}
_FORMATS |= {".parquet": "parquet"}
_COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_SEARCH_BYTES = 1 << 18  # how far after a cut a blank line is looked for
_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))[ \t]*(?:\r\n|\n|\r)")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_SPACE = re.compile(rb"[ \t]")


@dataclass(frozen=True)
class Source:
    """One file, or one data set of the hub.

    Attributes:
        name: what to call it to the person: a path, a data set's name, "standard input".
        path: where the file lies; of no meaning for a data set.
        size: bytes on the disk; 0 where that is unknown.
    """

    name: str
    format: SourceFormat
    path: Path = Path()
    compression: Compression | None = None
    size: int = 0

    @property
    def is_splittable(self) -> bool:
        """Tell whether parts of it can be read without what comes before them."""
        return self.format in ("text", "json") and self.compression is None


@dataclass(frozen=True)
class SourceChunk:
    """A part of a source: bytes of a plain file, row groups of a Parquet file, shards of a data set."""

    source: Source
    start: int
    stop: int


def find_sources(arguments: Sequence[str], *, spool: Path | None = None) -> list[Source]:
    """Return the sources that a person named, each once, folders in the order of names.

    Args:
        arguments: files, folders, globs, `-` for standard input, `hub:OWNER/NAME[:CONFIG[:SPLIT]]`.
        spool: where standard input is kept, so that it can be read like a file.
    """
    found: dict[str, Source] = {}
    for argument in arguments:
        if argument in ("-", "/dev/stdin"):
            one = _spool_standard_input(spool)
            found[one.name] = one
        elif argument.startswith(HUB_PREFIX):
            found[argument] = Source(argument, "hub")
        else:
            for file in _find_files(argument):
                found.setdefault(os.path.realpath(file), _file_source(file))
    if not found:
        raise InputError("no text: name a file, a folder, a glob or - for standard input")
    return list(found.values())


def _find_files(argument: str) -> Iterator[Path]:
    path = Path(argument)
    if path.is_dir():
        inside = [file for file in _visible_files(path) if _suffixes(file)[0] in _FORMATS]
        if not inside:
            raise InputError(
                f"{path}: no text in this folder; {', '.join(_FORMATS)} are read, also .gz and .zst"
            )
        yield from inside
    elif path.exists():
        yield path
    else:
        matches = sorted(glob.glob(argument, recursive=True)) if glob.has_magic(argument) else []  # noqa: PTH207
        if not matches:
            raise InputError(f"{argument}: no such file or folder")
        for match in matches:
            yield from _find_files(match)


def _visible_files(folder: Path) -> Iterator[Path]:
    """Yield all files under a folder but hidden ones, by name."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            continue
        if entry.is_dir():
            yield from _visible_files(entry)
        else:
            yield entry


def _suffixes(file: Path) -> tuple[str, Compression | None]:
    """Return the suffix that says what a file holds, and how it is compressed."""
    compression = _COMPRESSIONS.get(file.suffix.lower())
    inner = Path(file.stem) if compression else file
    return inner.suffix.lower(), compression


def _file_source(file: Path) -> Source:
    suffix, compression = _suffixes(file)
    if suffix == ".json":
        raise InputError(f"{file}: JSON in one piece; give a .jsonl, one record on each line")
    if not file.is_file():
        raise InputError(f"{file}: not a file that can be read again; give its text with -")
    return Source(str(file), _FORMATS.get(suffix, "text"), file, compression, file.stat().st_size)


def _spool_standard_input(spool: Path | None) -> Source:
    """Keep standard input in a file, since it cannot be read twice or by several processes."""
    if spool is None or sys.stdin is None or sys.stdin.isatty():
        raise InputError("-: standard input is a terminal; pipe text into it or name files")
    with (
        spool.open("wb") as spooled,
        progress.progress_counter("Reading standard input", total=None, unit="B") as advance,
    ):
        while block := sys.stdin.buffer.read(1 << 20):
            spooled.write(block)
            advance(len(block))
    with spool.open("rb") as spooled:
        head = spooled.read(1)
    return Source("standard input", "json" if head == b"{" else "text", spool, None, spool.stat().st_size)


def source_chunks(source: Source) -> Iterator[SourceChunk]:
    """Yield the portions of a source, in order."""
    if source.format == "parquet":
        yield from _row_group_chunks(source)
    elif source.format == "hub":
        yield from (SourceChunk(source, shard, shard + 1) for shard in range(num_shards(source.name)))
    elif not source.is_splittable:
        yield SourceChunk(source, 0, source.size)
    else:
        for start in range(0, max(1, source.size), CHUNK_BYTES):  # an empty file too, to be told of
            yield SourceChunk(source, start, min(start + CHUNK_BYTES, source.size))


def _row_group_chunks(source: Source) -> Iterator[SourceChunk]:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        groups = parquet.ParquetFile(source.path).num_row_groups
    except (OSError, pa.ArrowException):
        groups = 1  # reading it will say what is wrong
    yield from (SourceChunk(source, group, group + 1) for group in range(groups))


def read_blocks(chunk: SourceChunk) -> Iterator[tuple[int, bytes]]:
    """Yield the bytes of a portion in whole lines, and the place in the (unpacked) file where each begins.

    A plain portion is one block; a compressed file comes as many, each about as long as a portion.
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
            reason = f"torn or not {source.compression} ({_first_line(error)}); get the file again"
            raise InputError(f"{source.name}: {reason}") from None
        raise WorkError(f"{source.name}: {getattr(error, 'strerror', None) or _first_line(error)}") from None


def read_head(source: Source) -> bytes:
    """Return the beginning of a file of text, unpacked: enough to see how it is laid out."""
    chunk = SourceChunk(source, 0, min(source.size, CHUNK_BYTES))
    return next((content for _, content in read_blocks(chunk)), b"")[:_SEARCH_BYTES]


def _decompressed_blocks(source: Source) -> Iterator[tuple[int, bytes]]:
    offset, rest = 0, b""
    with _open_compressed(source) as stream:
        while data := stream.read(CHUNK_BYTES):
            rest += data
            boundary = _last_boundary(rest, source) if len(rest) >= CHUNK_BYTES else 0
            if boundary:
                yield offset, rest[:boundary]
                offset, rest = offset + boundary, rest[boundary:]
    if rest:
        yield offset, rest


def _open_compressed(source: Source) -> BinaryIO:
    if source.compression == "gzip":
        return cast(BinaryIO, gzip.open(source.path, "rb"))
    import pyarrow as pa

    return cast(BinaryIO, pa.input_stream(str(source.path), compression="zstd"))


def _last_boundary(content: bytes, source: Source) -> int:
    """Return the last place where a block may end: after a blank line if there is one, else after a line."""
    tail = max(0, len(content) - _SEARCH_BYTES)
    for pattern in _boundary_patterns(source):
        ends = [found.end() for found in pattern.finditer(content, tail)]
        if ends:
            return ends[-1]
    return 0


def _read_between(source: Source, start: int, stop: int) -> tuple[int, bytes]:
    with source.path.open("rb") as file:
        begin, end = (_next_boundary(file, at, source) for at in (start, stop))
        file.seek(begin)
        return begin, file.read(end - begin)


def _boundary_patterns(source: Source) -> tuple[re.Pattern[bytes], ...]:
    """Return where a file may be cut, the best first: a text that is one line even between words."""
    return (_LINE_END,) if source.format == "json" else (_BLANK_LINE, _LINE_END, _SPACE)


def _next_boundary(file: BinaryIO, offset: int, source: Source) -> int:
    """Return the place nearest after `offset` where a file may be cut; both neighbours find the same one."""
    if offset == 0 or offset >= source.size:
        return min(offset, source.size)
    file.seek(offset - 1)  # a line may end just before the cut
    ahead = file.read(_SEARCH_BYTES)
    for pattern in _boundary_patterns(source):
        found = pattern.search(ahead)
        if found:
            return offset - 1 + found.end()
        if offset - 1 + len(ahead) == source.size:
            return source.size  # what is left is less than one would look for
    return _next_line(file, offset + len(ahead) - 1, source.size)


def _next_line(file: BinaryIO, offset: int, size: int) -> int:
    """Look on for the end of a line that is longer than one looks far."""
    while offset < size:
        file.seek(offset)
        ahead = file.read(_SEARCH_BYTES)
        found = _LINE_END.search(ahead)
        if found:
            return offset + found.end()
        offset += len(ahead) or size
    return size


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]

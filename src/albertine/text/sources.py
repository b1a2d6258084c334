"""Text sources: files, folders, globs, URLs, standard input and hub datasets, read in chunks.

A `Source` is one file or one dataset. A `SourceChunk` is a range of it that one process reads.
The chunks, and so the result, are the same for any number of processes. An uncompressed text
file is split into chunks of about 4 MiB, at blank lines or, if there are none, at line ends. A
compressed file can only be read from its start, so it is one chunk; it is read in blocks, because
a large one may not fit in memory. JSON lines are read one by one. So the memory does not depend
on the size of a file, whether or not its text has spaces and line ends.
"""

import codecs
import glob
import gzip
import os
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Literal, cast

from albertine import progress
from albertine.errors import InputError, WorkError
from albertine.json_input import JsonError, parse_json
from albertine.storage.objects import StoredObject, open_object
from albertine.storage.urls import storage_url
from albertine.text.hub_datasets import HUB_PREFIX, num_shards
from albertine.text.parquet_rows import num_row_groups
from albertine.text.stored_texts import find_stored_texts

SourceFormat = Literal["text", "jsonl", "parquet", "hub"]
Compression = Literal["gzip", "zstd"]

CHUNK_BYTES = 4 << 20
_FORMATS: dict[str, SourceFormat] = {".txt": "text", ".text": "text", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_FORMATS |= {".parquet": "parquet"}
_COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_TABLE_SUFFIXES = (".csv", ".tsv")
MAX_RECORD_BYTES = 64 << 20  # of a line of .jsonl, or of the text in a row of .parquet
_SEARCHED_LINES = 100  # of standard input, for a JSON object
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


def find_sources(
    arguments: Sequence[str], *, spool: Path | None = None, accept_tables: bool = False
) -> list[Source]:
    """Return the sources of command-line arguments, each once; the files of a folder are sorted by name.

    Args:
        arguments: files, folders, globs, URLs of object storage, `-` for standard input,
            `hub:OWNER/NAME[:CONFIG[:SPLIT]]`.
        spool: file to copy standard input to, so that it can be read like a file.
        accept_tables: accept .csv and .tsv as files of text, for a caller that reads their columns itself.
    """
    sources: dict[str, Source] = {}
    for argument in arguments:
        if argument in ("-", "/dev/stdin"):
            source = _spool_standard_input(spool)
            sources[source.name] = source
        elif argument.startswith(HUB_PREFIX):
            sources[argument] = Source(argument, "hub")
        elif url := storage_url(argument):
            for found in find_stored_texts(url, lambda name: _split_suffixes(Path(name))[0] in _FORMATS):
                sources.setdefault(found.url, _stored_source(found))
        else:
            for file in _readable_files(argument):
                sources.setdefault(os.path.realpath(file), _file_source(file))
    if not sources:
        raise InputError("no text: name a file, a folder, a glob or - for standard input")
    if not accept_tables:
        _refuse_tables(sources.values())
    return list(sources.values())


def _refuse_tables(sources: Iterable[Source]) -> None:
    """Raise `InputError` for a table, whose labels, separators and quotation marks would become text."""
    for source in sources:
        if source.format == "text" and _split_suffixes(Path(source.name))[0] in _TABLE_SUFFIXES:
            raise InputError(
                f"{source.name}: a table; convert it to .jsonl, one record per line, or rename it to .txt if "
                "its lines are the text"
            )


def _readable_files(argument: str) -> Iterator[Path]:
    """Yield the files that an argument names; raise `InputError` for a file or folder without permission."""
    try:
        yield from _find_files(argument)
    except PermissionError as error:
        raise InputError(f"{error.filename or argument}: {error.strerror}") from None


def _find_files(argument: str) -> Iterator[Path]:
    path = Path(argument)
    if path.is_dir():
        if {"config.json", "model.safetensors"} <= {entry.name for entry in path.iterdir()}:
            raise InputError(f"{argument}: a model, which holds no text; name text or a table")
        files = [
            file
            for file in _visible_paths(path)
            if _split_suffixes(file)[0] in _FORMATS and not file.is_dir()
        ]
        if not files:
            raise InputError(
                f"{path}: no text files in this folder; expected .txt, .text, .jsonl or .ndjson, "
                "also compressed as .gz or .zst, or .parquet"
            )
        yield from files
    elif path.exists():
        yield path
    else:
        matches = sorted(set(_matching_paths(argument))) if glob.has_magic(argument) else []
        if not matches:
            raise InputError(f"{argument}: no such file or folder")
        for match in matches:
            yield from _find_files(match)


def _matching_paths(pattern: str) -> Iterator[str]:
    """Yield the visible paths that match a glob, in which `**` stands for any number of folders."""
    components = pattern.split("/")
    if "**" not in components:
        yield from _glob(pattern)
        return
    index = components.index("**")
    roots = _glob("/".join([*components[:index], ""])) if index else [""]
    for folder in [path for root in roots for path in _visible_paths(Path(root)) if path.is_dir()]:
        prefix = [] if folder == Path() else [glob.escape(str(folder))]
        yield from _matching_paths("/".join([*prefix, *(components[index + 1 :] or "*")]))


def _glob(pattern: str) -> list[str]:
    """Return the visible paths that a glob matches; name the folders that it may not search.

    Raises `PermissionError` if there is such a folder and no match. The library would say nothing of it.
    """
    components = pattern.split("/")
    first = next((index for index, component in enumerate(components) if glob.has_magic(component)), 0)
    denied = list[PermissionError]()
    for index in range(first, len(components)):
        start = "/".join([*components[:index], ""])
        # The folder that is named before the first pattern need not be there.
        for folder in glob.glob(start) if index > first else [start or "."]:  # noqa: PTH207
            try:
                if glob.has_magic(components[index]):
                    os.scandir(Path(folder)).close()
                elif components[index]:
                    Path(folder, components[index]).lstat()
            except PermissionError as error:
                denied.append(error)
            except (FileNotFoundError, NotADirectoryError):
                continue
    matches = glob.glob(pattern)  # noqa: PTH207  # `Path.glob` would include hidden files
    if denied and not matches:
        raise denied[0]
    for folder_error in denied:
        progress.print_message(f"{folder_error.filename}: left out: {folder_error.strerror}")
    return matches


def _visible_paths(folder: Path) -> Iterator[Path]:
    """Yield a folder and all that is in it except hidden paths, sorted by name.

    Links to folders are followed, but no folder is visited twice, so a loop of links ends.
    """
    visited: set[str] = set()
    remaining = [folder]  # the next one is the last
    while remaining:
        path = remaining.pop()
        if path.is_dir():
            real_path = os.path.realpath(path)
            if real_path in visited:
                continue
            visited.add(real_path)
            entries = (entry for entry in path.iterdir() if not entry.name.startswith("."))
            remaining += sorted(entries, reverse=True)
        yield path


def _split_suffixes(file: Path) -> tuple[str, Compression | None]:
    """Return the suffix of the format, such as ".txt" for a.txt.gz, and the compression."""
    compression = _COMPRESSIONS.get(file.suffix.lower())
    inner = Path(file.stem) if compression else file
    return inner.suffix.lower(), compression


def _file_source(file: Path) -> Source:
    text_format, compression = _format_and_compression(file, str(file))
    if not file.is_file():
        if file.is_symlink() and not file.exists():
            raise InputError(f"{file}: a link to a file that does not exist; remove it, or restore the file")
        raise InputError(f"{file}: not a regular file; pipe its text to - (standard input)")
    state = file.stat()
    return Source(str(file), text_format, file, compression, state.st_size, str(state.st_mtime_ns))


def _stored_source(found: StoredObject) -> Source:
    text_format, compression = _format_and_compression(Path(found.url), found.url)
    return Source(found.url, text_format, Path(found.url), compression, found.size, found.version)


def _format_and_compression(file: Path, name: str) -> tuple[SourceFormat, Compression | None]:
    suffix, compression = _split_suffixes(file)
    if suffix == ".json":
        raise InputError(f"{name}: a single JSON document; convert it to .jsonl, one record per line")
    return _FORMATS.get(suffix, "text"), compression


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
    return Source("standard input", _spooled_format(spool), spool, None, spool.stat().st_size)


def _spooled_format(spool: Path) -> SourceFormat:
    """Return "jsonl" if one of the first lines of standard input is a JSON object, else "text"."""
    with spool.open("rb") as spooled:
        beginning = spooled.read(_SEARCH_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
        if not beginning.startswith(b"{"):
            return "text"
        spooled.seek(0)
        lines = (line for _, line in bounded_lines(spooled, MAX_RECORD_BYTES))
        # A line that is too long is refused where it is read.
        if any(line is None or _is_json_object(line) for line in islice(lines, _SEARCHED_LINES)):
            return "jsonl"
    if beginning[1:].lstrip().startswith((b'"', b"}")):
        raise InputError(
            "standard input: damaged JSON, or records of several lines; give one record per line, as jq -c "
            "does; of plain text that begins so, name a .txt file"
        )
    progress.print_message("standard input: begins with {, but is no JSON; read as plain text")
    return "text"


def _is_json_object(line: bytes) -> bool:
    with suppress(JsonError):
        return isinstance(parse_json(line.removeprefix(codecs.BOM_UTF8)), dict)
    return False


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

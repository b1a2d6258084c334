"""Finds the text that a user names: files, folders, globs, URLs, standard input and hub datasets."""

import codecs
import glob
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path

from albertine import progress
from albertine.errors import InputError
from albertine.json_input import JsonError, parse_json
from albertine.storage.objects import StoredObject
from albertine.storage.urls import storage_url
from albertine.text.file_names import (
    EXPECTED_FILES,
    format_and_compression,
    is_table_name,
    is_text_name,
    print_left_out,
)
from albertine.text.hub_datasets import HUB_PREFIX
from albertine.text.sources import MAX_RECORD_BYTES, Source, SourceFormat, bounded_lines
from albertine.text.stored_texts import find_stored_texts

_SEARCHED_LINES = 100  # of standard input, for a JSON object
_HEAD_BYTES = 1 << 18  # of standard input, which may begin with blank lines


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
            for found in find_stored_texts(url):
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
        if source.format == "text" and is_table_name(source.name):
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
        visible = [file for file in _visible_paths(path) if not file.is_dir()]
        files = [file for file in visible if is_text_name(file.name)]
        if not files:
            raise InputError(f"{path}: no text files in this folder; {EXPECTED_FILES}")
        print_left_out(argument, (file.name for file in visible))
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


def _file_source(file: Path) -> Source:
    text_format, compression = format_and_compression(str(file))
    if not file.is_file():
        if file.is_symlink() and not file.exists():
            raise InputError(f"{file}: a link to a file that does not exist; remove it, or restore the file")
        raise InputError(f"{file}: not a regular file; pipe its text to - (standard input)")
    state = file.stat()
    return Source(str(file), text_format, file, compression, state.st_size, str(state.st_mtime_ns))


def _stored_source(found: StoredObject) -> Source:
    text_format, compression = format_and_compression(found.url)
    return Source(found.url, text_format, Path(found.url), compression, found.size, found.version)


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
        beginning = spooled.read(_HEAD_BYTES).removeprefix(codecs.BOM_UTF8).lstrip()
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

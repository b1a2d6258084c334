"""Tells by the name of a file whether it holds text, in which format, and how it is compressed."""

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath

from albertine import progress
from albertine.errors import InputError
from albertine.text.sources import Compression, SourceFormat

EXPECTED_FILES = "expected .txt, .text, .jsonl or .ndjson, also compressed as .gz or .zst, or .parquet"

_FORMATS: dict[str, SourceFormat] = {".txt": "text", ".text": "text", ".jsonl": "jsonl", ".ndjson": "jsonl"}
_FORMATS |= {".parquet": "parquet"}
_COMPRESSIONS: dict[str, Compression] = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_TABLE_SUFFIXES = (".csv", ".tsv")
_NAMED_SUFFIXES = 5  # of the files of a folder that are left out


def is_text_name(name: str) -> bool:
    """Return whether a file of this name in a folder is read."""
    return _split_suffixes(name)[0] in _FORMATS


def is_table_name(name: str) -> bool:
    """Return whether a file of this name is a table, of which the text has to be taken first."""
    return _split_suffixes(name)[0] in _TABLE_SUFFIXES


def format_and_compression(name: str) -> tuple[SourceFormat, Compression | None]:
    """Return how a file is read; with an unknown suffix, as plain text."""
    suffix, compression = _split_suffixes(name)
    if suffix == ".json":
        raise InputError(f"{name}: a single JSON document; convert it to .jsonl, one record per line")
    return _FORMATS.get(suffix, "text"), compression


def print_left_out(folder: str, names: Iterable[str]) -> None:
    """Say how many files of a folder are not read, by suffix, so that nobody misses their text later."""
    counts = Counter(_split_suffixes(name)[0] for name in names if not is_text_name(name)).most_common()
    if not counts:
        return
    described = [f"{count:,} {suffix or 'without a suffix'}" for suffix, count in counts[:_NAMED_SUFFIXES]]
    if others := sum(count for _, count in counts[_NAMED_SUFFIXES:]):
        described.append(f"{others:,} more")
    progress.print_message(f"{folder}: files left out: {', '.join(described)}; {EXPECTED_FILES}")


def _split_suffixes(name: str) -> tuple[str, Compression | None]:
    """Return the suffix of the format, such as ".txt" for a.txt.gz, and the compression."""
    path = PurePath(name)
    compression = _COMPRESSIONS.get(path.suffix.lower())
    inner = PurePath(path.stem) if compression else path
    return inner.suffix.lower(), compression

"""Files of data: their formats by suffix, and their content, decompressed, from a disk or object storage."""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from albertine.errors import InputError
from albertine.storage.objects import display_path, open_file
from albertine.storage.urls import storage_url
from albertine.text.hub_datasets import HUB_PREFIX

TABLE_SUFFIXES = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")
_SPREADSHEETS = (".xlsx", ".xls", ".ods", ".numbers")
_SUFFIXES_WITH_HEADER = (".csv", ".tsv")
_COMPRESSED_SUFFIXES = (".gz", ".zst", ".zstd")
_RANGE_BYTES = 4 << 20  # of one request to object storage


def refuse_spreadsheet(source: str) -> None:
    """Raise `InputError` for a file of a spreadsheet program, which has no text to read."""
    if Path(source).suffix.lower() in _SPREADSHEETS:
        raise InputError(f"{source}: a spreadsheet; save it as CSV in UTF-8, and give that file")


def has_header_line(source: str) -> bool:
    """Return whether data is a CSV or TSV file, whose first line may name its columns."""
    return not source.startswith(HUB_PREFIX) and data_suffix(Path(source)) in _SUFFIXES_WITH_HEADER


def data_suffix(file: Path) -> str:
    """Return the suffix of the format of a file, in lower case, without the suffix of its compression."""
    return Path(file.stem if file.suffix.lower() in _COMPRESSED_SUFFIXES else file).suffix.lower()


def data_stem(file: Path) -> str:
    """Return the name of a table without the suffixes of its format and its compression."""
    name = Path(file.stem if file.suffix.lower() in _COMPRESSED_SUFFIXES else file.name)
    return name.stem if name.suffix.lower() in TABLE_SUFFIXES else name.name


@contextmanager
def open_data_file(file: Path) -> Iterator[BinaryIO]:
    """Open a file or a URL for reading, decompressed; raise `InputError` if it is missing or corrupt."""
    check_is_file(file)
    try:
        with _open_decompressed(file) as stream:
            yield stream
    except (EOFError, zlib.error, OSError) as error:
        if getattr(error, "errno", None):
            raise
        raise InputError(
            f"{display_path(file)}: corrupt, or its suffix does not match its compression ({error}); "
            "copy or download it again"
        ) from None


def check_is_file(file: Path) -> None:
    """Raise `InputError` unless a local path is a file; opening a URL shows whether there is one."""
    if storage_url(file) is not None:
        return
    if not file.exists():
        raise InputError(f"{file}: no such file")
    if not file.is_file():
        raise InputError(f"{file}: not a file")


def _open_decompressed(file: Path) -> BinaryIO:
    # A path for local files: the libraries close what they open.
    opened = file if storage_url(file) is None else open_file(file, _RANGE_BYTES)
    match file.suffix.lower():
        case ".gz":
            return cast(BinaryIO, gzip.open(opened, "rb"))
        case ".zst" | ".zstd":
            import pyarrow as pa

            source = str(opened) if opened is file else opened
            return cast(BinaryIO, io.BufferedReader(pa.input_stream(source, compression="zstd")))
    return file.open("rb") if isinstance(opened, Path) else opened

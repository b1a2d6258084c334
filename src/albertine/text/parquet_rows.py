"""Reads the rows of Parquet files in bounded memory; a value that cannot be read affects only its row."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from albertine.display import display_text
from albertine.errors import InputError
from albertine.json_input import NOT_UTF_8
from albertine.storage.objects import StoredObject, display_path, file_size, open_object
from albertine.storage.urls import storage_url

_BATCH_ROWS, _MIN_BATCH_ROWS = 1000, 8
# A dictionary in the file stores a value once for many rows. So a row may have the size of its row group,
# and the rows of a batch are limited as if each had it.
_BATCH_BYTES = 256 << 20
# A gigabyte as Python objects. Equal elements take almost no space in the file, and a row is read whole.
_MAX_LIST_ELEMENTS = 24_000_000
_LARGEST_COLUMN_SCRIPT = """
import sys
from pathlib import Path
from pyarrow import parquet
from albertine.storage.objects import open_file
metadata = parquet.read_metadata(open_file(Path(sys.argv[1])))
groups = map(metadata.row_group, range(metadata.num_row_groups))
columns = (group.column(number) for group in groups for number in range(group.num_columns))
print(max((column.num_values for column in columns
           if any(f"{column.path_in_schema}.".startswith(f"{name}.") for name in sys.argv[2:])), default=0))
"""
_RANGE_BYTES = 1 << 20  # of one request to object storage
_BOMB_BYTES, _BOMB_RATIO = 8 << 20, 200  # a larger row group that is compressed more is refused


class _Unreadable:
    """Stands for a value that cannot be converted to a Python object.

    Attributes:
        problem: why it cannot be converted.
    """

    def __init__(self, error: Exception):
        is_text = isinstance(error, UnicodeDecodeError)
        self.problem = NOT_UTF_8 if is_text else display_text(str(error).partition("\n")[0])


def parquet_schema(file: Path) -> Any:
    """Return the Arrow schema of a file."""
    with _described_errors(file) as parquet_file:
        schema = parquet_file.schema_arrow
        _ = schema.names  # raises an error for names that are not UTF-8
        return schema


def num_row_groups(file: Path) -> int:
    """Return the number of row groups of a file."""
    with _described_errors(file) as parquet_file:
        return int(parquet_file.num_row_groups)


def num_rows(file: Path, groups: range) -> int:
    """Return the number of rows in some row groups of a file."""
    with _described_errors(file) as parquet_file:
        return sum(int(parquet_file.metadata.row_group(group).num_rows) for group in groups)


def parquet_rows(
    file: Path,
    columns: Sequence[str],
    groups: range | None = None,
    expected: StoredObject | None = None,
) -> Iterator[dict[str, Any] | str]:
    """Yield each row as values by column, or what is wrong with it if a value cannot be read.

    Args:
        file: the file.
        columns: the columns to read.
        groups: the row groups to read; None for all.
        expected: the object as it was found before, if the file is one.
    """
    with _described_errors(file, expected) as parquet_file:
        _check_lists(file, parquet_file.schema_arrow, columns)
        for group in range(parquet_file.num_row_groups) if groups is None else groups:
            rows = _batch_rows(file, int(parquet_file.metadata.row_group(group).total_byte_size))
            for batch in parquet_file.iter_batches(rows, row_groups=[group], columns=list(columns)):
                yield from _rows(batch)


@contextmanager
def _described_errors(file: Path, expected: StoredObject | None = None) -> Iterator[Any]:
    """Yield the opened file; raise errors of the library as `InputError` with the name of the file."""
    try:
        with _open_parquet(file, expected) as parquet_file:
            yield parquet_file
    except InputError:
        raise
    except Exception as error:  # the library raises many types
        reason = display_text(str(error).partition("\n")[0])
        raise InputError(
            f"{display_path(file)}: damaged, or not Parquet ({reason}); get the file again"
        ) from None


def _open_parquet(file: Path, expected: StoredObject | None = None) -> Any:
    from pyarrow import parquet

    url = storage_url(file)
    return parquet.ParquetFile(file if url is None else open_object(url, _RANGE_BYTES, expected))


def _check_lists(file: Path, schema: Any, columns: Sequence[str]) -> None:
    """Raise `InputError` if the lists of a row group may not fit into memory."""
    from pyarrow import types

    nested = [field.name for field in schema if field.name in columns and types.is_nested(field.type)]
    if not nested:
        return
    # In another process, because a damaged file can end the one that reads the metadata of its columns.
    command = [sys.executable, "-c", _LARGEST_COLUMN_SCRIPT, str(file), *nested]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    if process.returncode != 0 or not process.stdout.strip().isdigit():
        raise InputError(f"{display_path(file)}: damaged, or not Parquet; get the file again")
    elements = int(process.stdout)
    if elements > _MAX_LIST_ELEMENTS:
        raise InputError(
            f"{display_path(file)}: a row group has lists of {elements:,} elements, more than "
            f"{_MAX_LIST_ELEMENTS:,}; write smaller row groups"
        )


def _batch_rows(file: Path, size: int) -> int:
    """Return the number of rows to read at a time; raise `InputError` for a decompression bomb.

    Args:
        file: the file.
        size: bytes of a row group, decompressed. The metadata of its columns would be more exact, but
            reading it ends the process if it is damaged.
    """
    if size > _BOMB_BYTES and size > _BOMB_RATIO * file_size(file):
        raise InputError(
            f"{display_path(file)}: {size >> 20:,} MiB compressed more than {_BOMB_RATIO}:1; "
            "if the content is real, write smaller row groups"
        )
    return min(_BATCH_ROWS, max(_MIN_BATCH_ROWS, _BATCH_BYTES // max(1, size)))


def _rows(batch: Any) -> Iterator[dict[str, Any] | str]:
    names = batch.schema.names
    try:
        columns = [column.to_pylist() for column in batch.columns]
    except Exception:  # the library raises many types
        yield from _rows_value_by_value(batch)
        return
    for values in zip(*columns, strict=True):
        yield dict(zip(names, values, strict=True))


def _rows_value_by_value(batch: Any) -> Iterator[dict[str, Any] | str]:
    """Yield the rows of a batch that has unreadable values."""
    names = batch.schema.names
    columns = [list(map(_value, column)) for column in batch.columns]
    for values in zip(*columns, strict=True):
        yield _problem(names, values) or dict(zip(names, values, strict=True))


def _value(scalar: Any) -> Any:
    """Return a value as a Python object, or `_Unreadable` if it cannot be converted."""
    try:
        return scalar.as_py()
    except Exception as error:  # the library raises many types
        return _Unreadable(error)


def _problem(names: Sequence[str], values: Sequence[Any]) -> str | None:
    """Return what is wrong with the first unreadable value of a row, if there is one."""
    for name, value in zip(names, values, strict=True):
        if isinstance(value, _Unreadable):
            return f"column {display_text(name)}: {value.problem}"
    return None

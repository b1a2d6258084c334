"""Reads the rows of Parquet files in bounded memory; an unreadable value makes only its row invalid."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.settings.schema import display_text

_BATCH_ROWS = 1000
_MIN_BATCH_ROWS = 4
_BATCH_BYTES = 64 << 20
_MAX_COMPRESSED_BYTES = 64 << 20  # of a row group, once decompressed, if it is compressed more than this:
_MAX_COMPRESSION = 200


class _Unreadable:
    """In place of a value that Python cannot represent: why."""

    def __init__(self, error: Exception):
        is_text = isinstance(error, UnicodeDecodeError)
        self.problem = "not UTF-8" if is_text else display_text(str(error).partition("\n")[0])


def parquet_schema(file: Path) -> Any:
    """Return the Arrow schema of a file."""
    import pyarrow as pa

    try:
        schema = _open(file).schema_arrow
        _ = schema.names  # raises an error for names that are not UTF-8
    except (ValueError, OSError, pa.ArrowException) as error:
        raise _damaged(file, error) from None
    return schema


def num_row_groups(file: Path) -> int:
    """Return the number of row groups of a file."""
    return int(_open(file).num_row_groups)


def parquet_rows(
    file: Path, columns: Sequence[str], groups: range | None = None
) -> Iterator[dict[str, Any] | str]:
    """Yield each row as values by column; or, if a value cannot be read, what is wrong with the row.

    Args:
        file: the file.
        columns: the columns to read.
        groups: the row groups to read; None for all.
    """
    import pyarrow as pa

    opened = _open(file)
    groups = range(opened.num_row_groups) if groups is None else groups
    try:
        for group in groups:
            rows = _batch_rows(file, opened.metadata.row_group(group), columns)
            for batch in opened.iter_batches(rows, row_groups=[group], columns=list(columns)):
                yield from _rows(batch)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(file, error) from None


def _open(file: Path) -> Any:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        return parquet.ParquetFile(file)
    except (OSError, pa.ArrowException) as error:
        raise _damaged(file, error) from None


def _damaged(file: Path, error: Exception) -> InputError:
    reason = display_text(str(error).partition("\n")[0])
    return InputError(f"{file}: damaged, or not Parquet ({reason}); get the file again")


def _batch_rows(file: Path, group: Any, columns: Sequence[str]) -> int:
    """Return the number of rows to read at a time; raise `InputError` for a decompression bomb.

    No value is longer than the decompressed row group, so fewer rows are read at a time if it is large.
    """
    chunks = [group.column(index) for index in range(group.num_columns)]
    prefixes = tuple(f"{column}." for column in columns)
    selected = [chunk for chunk in chunks if f"{chunk.path_in_schema}.".startswith(prefixes)]
    size = sum(max(0, int(chunk.total_uncompressed_size)) for chunk in selected)
    compressed = sum(max(1, chunk.total_compressed_size) for chunk in selected)
    if size > _MAX_COMPRESSED_BYTES and size > _MAX_COMPRESSION * compressed:
        raise InputError(
            f"{file}: {size >> 20:,} MiB compressed more than {_MAX_COMPRESSION}:1; "
            "if the text is real, write smaller row groups"
        )
    return min(_BATCH_ROWS, max(_MIN_BATCH_ROWS, _BATCH_BYTES // max(1, size)))


def _rows(batch: Any) -> Iterator[dict[str, Any] | str]:
    names = batch.schema.names
    for values in zip(*map(_values, batch.columns), strict=True):
        row = dict(zip(names, values, strict=True))
        problem = next(
            (
                f"column {display_text(name)}: {value.problem}"
                for name, value in row.items()
                if isinstance(value, _Unreadable)
            ),
            None,
        )
        yield row if problem is None else problem


def _values(column: Any) -> list[Any]:
    """Return the values of a column; `_Unreadable` for those that Python cannot represent."""
    try:
        return list(column.to_pylist())
    except Exception:  # the library raises many types
        return [_value(scalar) for scalar in column]


def _value(scalar: Any) -> Any:
    try:
        return scalar.as_py()
    except Exception as error:  # the library raises many types
        return _Unreadable(error)

"""Edits of Parquet files and of the Arrow files of a corpus: columns of other types and values."""

import io
import random
import struct
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from tests.campaign.hostile_input.formats import Format
from tests.campaign.hostile_input.hostile_values import HostileValues
from tests.campaign.hostile_input.raw_bytes import edited_bytes

_INTEGERS = (0, -1, 1, 2**31 - 1, -(2**31), 2**16 - 1, 399, 400, 401)


def _invalid_text(rows: int) -> pa.Array:
    """Return a column of text whose bytes are not UTF-8."""
    offsets = pa.array(range(0, 2 * rows + 1, 2), pa.int32()).buffers()[1]
    return pa.Array.from_buffers(pa.string(), rows, [None, offsets, pa.py_buffer(b"\xff\xed" * rows)])


def _numbers(rows: int, rng: random.Random, data_type: pa.DataType) -> pa.Array:
    """Return a column of extreme values of a type that is stored as 32 or 64-bit integers."""
    width = data_type.bit_width
    largest = 2 ** (width - 1) - 1
    values = [rng.choice([largest, -largest - 1, 0, 1, largest // 2]) for _ in range(rows)]
    return pa.array(values, pa.int32() if width == 32 else pa.int64()).view(data_type)


_INTEGER_TYPES = (
    pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns"), pa.timestamp("us", "UTC"),
    pa.timestamp("ms", "+23:59"), pa.duration("s"), pa.duration("ns"), pa.time32("s"), pa.time64("ns"),
    pa.int64(), pa.uint64(),
)  # fmt: skip
# Values that fill a column, with their type; None for the type that the library chooses.
_CONSTANTS: tuple[tuple[Any, pa.DataType | None], ...] = (
    (None, None),
    (float("nan"), None),
    (float("inf"), None),
    (True, None),
    (b"\xff\0", pa.binary()),
    (["a", None, ""], None),
    ([["x"]], None),
    ({"text": ["a"], "answer_start": [2**62]}, None),
    ([("k", "v")], pa.map_(pa.string(), pa.string())),
    ("text", pa.large_string()),
    ("text", pa.dictionary(pa.int8(), pa.string())),
    (10**20, pa.decimal128(38, 2)),
    (b"0123", pa.binary(4)),
    ("x" * 100_000, None),
)


def _hostile_column(rows: int, rng: random.Random, values: HostileValues) -> pa.Array:
    """Return a random column of some number of rows."""
    try:
        match rng.randrange(6):
            case 0:
                return _invalid_text(rows)
            case 1:
                return pa.array([rng.choice(values.texts) for _ in range(rows)])
            case 2 | 3:
                return _numbers(rows, rng, rng.choice(_INTEGER_TYPES))
            case _:
                value, data_type = rng.choice(_CONSTANTS)
                return pa.array([value] * rows, data_type)
    except (pa.ArrowException, ValueError, OverflowError):  # values that the library refuses to store
        return pa.nulls(rows)


def _edit_table(table: pa.Table, rng: random.Random, values: HostileValues) -> pa.Table:
    if not table.num_columns:
        return table
    index = rng.randrange(table.num_columns)
    name = table.column_names[index]
    match rng.randrange(8):
        case 0:
            return table.drop_columns([name]) if table.column_names.count(name) == 1 else table
        case 1:
            names = table.column_names
            names[index] = rng.choice([rng.choice(values.texts), rng.choice(names)])
            try:
                return table.rename_columns(names)
            except UnicodeEncodeError:  # names with unpaired surrogates cannot be stored
                return table
        case 2:
            return table.slice(0, rng.choice([0, 1]))
        case _:
            return table.set_column(index, name, _hostile_column(table.num_rows, rng, values))


def _read_table(content: bytes) -> pa.Table:
    return parquet.ParquetFile(io.BytesIO(content)).read(use_threads=False)


def _write_parquet(table: pa.Table, rng: random.Random) -> bytes:
    stream = io.BytesIO()
    try:
        parquet.write_table(
            table,
            stream,
            compression=rng.choice(["snappy", "none", "gzip", "zstd"]),
            use_dictionary=rng.random() < 0.5,
            row_group_size=rng.choice([1, 7, 10_000]),
            store_schema=rng.random() < 0.5,
            write_statistics=False,
        )
    except (pa.ArrowException, ValueError):  # types that Parquet does not have
        return edited_bytes(stream.getvalue() or b"PAR1", rng)
    return stream.getvalue()


PARQUET = Format(_read_table, _write_parquet, _edit_table)


def _edit_shard(tree: list[bytes], rng: random.Random, values: HostileValues) -> list[bytes]:
    """Return a shard with one edit; its tree is [valid content, content].

    Some edits overwrite bytes of the buffers, because the library cannot write an array whose buffers
    contradict each other. It may abort if it reads such an array, so the valid content is parsed.
    """
    valid, content = tree
    table = pa.ipc.open_file(pa.BufferReader(valid)).read_all()
    if not table.num_rows or rng.random() < 0.3:
        written = _write_arrow(_edit_table(table, rng, values), rng)
        return [written, written]
    columns = table.to_batches()[0].columns
    buffers = [buffer for column in columns for buffer in column.buffers() if buffer and buffer.size >= 4]
    buffer = rng.choice(buffers).to_pybytes()
    width = rng.choice([1, 2, 4])
    at = valid.find(buffer[:256])
    at += rng.choice([0, len(buffer) - width, width * rng.randrange(len(buffer) // width)])
    hostile = struct.pack("<q", rng.choice(_INTEGERS))[:width]
    return [valid, content[:at] + hostile + content[at + width :]]


def _write_arrow(table: pa.Table, rng: random.Random) -> bytes:
    stream = io.BytesIO()
    rows = max(1, table.num_rows)
    options = pa.ipc.IpcWriteOptions(compression=rng.choice([None, None, "zstd"]))
    try:
        with pa.ipc.new_file(stream, table.schema, options=options) as writer:
            writer.write_table(table.combine_chunks(), max_chunksize=rng.choice([rows, rows, 3]))
    except (pa.ArrowException, ValueError):  # values that the library refuses to store
        stream = io.BytesIO()
        with pa.ipc.new_file(stream, table.schema):
            pass
    return stream.getvalue()


ARROW_SHARD = Format(lambda content: [content, content], lambda tree, _: tree[1], _edit_shard)

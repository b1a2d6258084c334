"""Reads TensorFlow checkpoints without TensorFlow.

A checkpoint is an index file and data files. The index is a sorted string table in the
format of LevelDB: blocks of entries whose keys share prefixes, an index block with the
position of each block, and a footer with the position of the index block. Its values are
protocol buffers with the type, shape, file and offset of each tensor. All sizes and
checksums are checked; a damaged file is refused.
"""

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from albertine.display import display_long
from albertine.errors import InputError
from albertine.input_files import check_regular_file, read_bytes
from albertine.interop.crc32c import masked_crc32c
from albertine.text.protobuf import CorruptDataError, message_fields, read_varint

_FOOTER_BYTES = 48
_MAX_INDEX_BYTES = 4_000_000  # that of BERT-large has 20 kB
_MAX_NAME_BYTES = 1_000
_MAGIC = 0xDB4775248B80FB57
_TRAILER_BYTES = 5  # after each block: one byte for the compression, four for the checksum
# TensorFlow's data types of weights and counters.
_TYPES: Mapping[int, str] = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 14: "<u2", 19: "<f2"}
_BFLOAT16 = 14  # numpy has no such type; its bits are read as those of an integer


@dataclass
class _BundleEntry:
    """Type, shape and position of one tensor."""

    dtype: int = 0
    shape: list[int] = field(default_factory=list)
    shard: int = 0
    offset: int = 0
    size: int = 0
    checksum: int = 0
    is_sliced: bool = False


def read_tensor_bundle(prefix: Path) -> dict[str, Tensor]:
    """Return the tensors of the checkpoint PREFIX.index and PREFIX.data-*, by name.

    Tensors of other types than those of `_TYPES`, such as strings, are left out.
    """
    index = Path(f"{prefix}.index")
    try:
        entries = dict(_table_entries(read_bytes(index, _MAX_INDEX_BYTES)))
        shards = _shard_count(entries.pop(b"", b""), index)
        tensor_entries = {key.decode(): _parse_entry(value) for key, value in entries.items()}
    except OSError as error:
        raise InputError(f"{index}: {error.strerror}; a TensorFlow checkpoint needs this file") from None
    except (CorruptDataError, IndexError, struct.error, UnicodeDecodeError, OverflowError) as error:
        raise InputError(
            f"{index}: damaged, or not a checkpoint index ({error}); get the file again"
        ) from None
    files = [Path(f"{prefix}.data-{shard:05d}-of-{shards:05d}") for shard in range(shards)]
    return {
        name: _read_tensor(name, entry, index, files)
        for name, entry in sorted(tensor_entries.items())
        if entry.dtype in _TYPES
    }


def _read_tensor(name: str, entry: _BundleEntry, index: Path, files: list[Path]) -> Tensor:
    if entry.is_sliced:
        raise InputError(
            f"{index}: tensor {display_long(name)} is partitioned, which is not supported; "
            "save it as one tensor"
        )
    if entry.shard >= len(files):
        raise InputError(
            f"{index}: tensor {display_long(name)}: the index refers to data file {entry.shard} of "
            f"{len(files)}, counted from 0; get the file again"
        )
    file = files[entry.shard]
    dtype = np.dtype(_TYPES[entry.dtype])
    count = 1
    for size in entry.shape:
        count *= size
    try:
        check_regular_file(file)
        with file.open("rb") as data:
            is_inside = entry.offset + entry.size <= file.stat().st_size
            data.seek(entry.offset if is_inside else 0)
            content = data.read(entry.size) if is_inside and entry.size == count * dtype.itemsize else b""
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}; the index refers to this file") from None
    if len(content) != count * dtype.itemsize or masked_crc32c(content) != entry.checksum:
        raise InputError(f"{file}: the bytes of tensor {display_long(name)} are damaged; get the file again")
    values = torch.from_numpy(
        np.frombuffer(content, dtype).reshape(entry.shape).astype(dtype.newbyteorder("="), copy=True)
    )
    return values.view(torch.bfloat16) if entry.dtype == _BFLOAT16 else values


# The sorted string table


def _table_entries(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a sorted string table."""
    footer = content[-_FOOTER_BYTES:]
    if len(footer) < _FOOTER_BYTES or struct.unpack("<Q", footer[-8:])[0] != _MAGIC:
        raise CorruptDataError("no footer")
    _, position = _read_block_handle(footer, 0)  # the handle of the metaindex block, which is not needed
    (offset, size), _ = _read_block_handle(footer, position)
    total_size = 0
    for _, value in _block_entries(content, offset, size):
        (offset, size), _ = _read_block_handle(value, 0)
        total_size += size
        if total_size > len(content):
            raise CorruptDataError("blocks overlap")
        yield from _block_entries(content, offset, size)


def _read_block_handle(content: bytes, position: int) -> tuple[tuple[int, int], int]:
    """Return offset and size of a block, and the position in `content` after the handle."""
    offset, position = read_varint(content, position)
    size, position = read_varint(content, position)
    return (offset, size), position


def _block_entries(content: bytes, offset: int, size: int) -> Iterator[tuple[bytes, bytes]]:
    """Yield the entries of a block; a key is stored without the prefix shared with its predecessor."""
    block, trailer = content[offset : offset + size], content[offset + size : offset + size + _TRAILER_BYTES]
    if len(block) != size or len(trailer) != _TRAILER_BYTES or size < 4:
        raise CorruptDataError("a block is outside the file")
    if trailer[0] != 0:
        raise CorruptDataError("a block is compressed, which TensorFlow never does")
    if masked_crc32c(block + trailer[:1]) != struct.unpack("<I", trailer[1:])[0]:
        raise CorruptDataError("wrong checksum of a block")
    restarts = struct.unpack("<I", block[-4:])[0]
    end, position, key = size - 4 * (restarts + 1), 0, b""
    if end < 0:
        raise CorruptDataError("the restart array of a block is outside it")
    while position < end:
        shared, position = read_varint(block, position)
        unshared, position = read_varint(block, position)
        length, position = read_varint(block, position)
        if shared > len(key) or position + unshared + length > end:
            raise CorruptDataError("an entry is outside its block")
        key = key[:shared] + block[position : position + unshared]
        if len(key) > _MAX_NAME_BYTES:
            raise CorruptDataError("the name of a tensor is too long")
        yield key, block[position + unshared : position + unshared + length]
        position += unshared + length


# The protocol buffers


def _shard_count(content: bytes, index: Path) -> int:
    """Return the number of data files, from the header entry `content` of the file `index`."""
    values = dict(message_fields(content))
    shards, big_endian = values.get(1, 0), values.get(2, 0)
    if not isinstance(shards, int) or not 1 <= shards < 100_000:
        raise CorruptDataError("no header")
    if big_endian:
        raise InputError(
            f"{index}: the checkpoint is big-endian, which is not supported; "
            "save it on a little-endian machine"
        )
    return shards


def _parse_entry(content: bytes) -> _BundleEntry:
    entry = _BundleEntry()
    attributes = {1: "dtype", 3: "shard", 4: "offset", 5: "size", 6: "checksum"}
    for number, value in message_fields(content):
        if number in attributes and isinstance(value, int):
            setattr(entry, attributes[number], value)
        elif number == 2 and isinstance(value, bytes):
            entry.shape = [
                _parse_dimension(dimension)
                for field_number, dimension in message_fields(value)
                if field_number == 2 and isinstance(dimension, bytes)
            ]
        elif number == 7:
            entry.is_sliced = True
    return entry


def _parse_dimension(content: bytes) -> int:
    size = dict(message_fields(content)).get(1, 0)
    if not isinstance(size, int) or size >= 2**40:
        raise CorruptDataError("invalid dimension")
    return size

"""Index files of TensorFlow's checkpoints as trees: a sorted table whose values are protocol buffers.

Files are written with correct checksums, so that commands read the content behind them.
"""

import random
import struct
from pathlib import Path
from typing import Any

from albertine.interop.crc32c import masked_crc32c
from albertine.text.protobuf import read_varint
from tests.campaign.hostile_input.formats import Format, encoded
from tests.campaign.hostile_input.hostile_values import HostileValues
from tests.campaign.hostile_input.protobuf_messages import edit_message, parse_message
from tests.protobuf_writer import varint, write_message

_FOOTER_BYTES, _MAGIC = 48, 0xDB4775248B80FB57
# Numbers of the file that an edit can override by wrong ones.
_OVERRIDES = ("shared", "unshared", "length", "restarts", "compression", "offset", "size", "index size")
_HOSTILE_VARINTS = (0, 1, 7, 2**31, 2**32, 2**63, 2**64 - 1)


def _parse(content: bytes) -> dict[str, Any]:
    """Return the tree of an index: its entries as [key, message], and no overrides."""
    footer = content[-_FOOTER_BYTES:]
    _, at = read_varint(footer, 0)
    _, at = read_varint(footer, at)
    offset, at = read_varint(footer, at)
    size, _ = read_varint(footer, at)
    entries = []
    for _, handle in _block_entries(content[offset : offset + size]):
        offset, at = read_varint(handle, 0)
        size, _ = read_varint(handle, at)
        entries += _block_entries(content[offset : offset + size])
    return {"entries": [[key, parse_message(value, 2)] for key, value in entries], "overrides": {}}


def _block_entries(block: bytes) -> list[tuple[bytes, bytes]]:
    """Return the keys and values of a block, whose keys are stored without their common prefixes."""
    end = len(block) - 4 * (struct.unpack("<I", block[-4:])[0] + 1)
    entries, key, at = [], b"", 0
    while at < end:
        shared, at = read_varint(block, at)
        unshared, at = read_varint(block, at)
        length, at = read_varint(block, at)
        key = key[:shared] + block[at : at + unshared]
        entries.append((key, block[at + unshared : at + unshared + length]))
        at += unshared + length
    return entries


def _write(tree: dict[str, Any], rng: random.Random) -> bytes:
    """Return an index with one data block."""
    overrides = tree["overrides"]
    data = _block([(key, write_message(message)) for key, message in tree["entries"]], overrides)
    meta = _block([], {})
    handle = varint(overrides.get("offset", 0)) + varint(overrides.get("size", len(data) - 5))
    index = _block([(b"\xff", handle)], {})
    content = data + meta + index
    handles = [
        (len(data), len(meta) - 5),
        (len(data) + len(meta), overrides.get("index size", len(index) - 5)),
    ]
    footer = b"".join(varint(start) + varint(size) for start, size in handles)
    return content + footer.ljust(40, b"\0")[:40] + struct.pack("<Q", _MAGIC)


def _block(entries: list[tuple[bytes, bytes]], overrides: dict[str, int]) -> bytes:
    block = b""
    for key, value in entries:
        block += varint(overrides.get("shared", 0)) + varint(overrides.get("unshared", len(key)))
        block += varint(overrides.get("length", len(value))) + key + value
    block += struct.pack("<II", 0, overrides.get("restarts", 1) % 2**32)
    block += bytes([overrides.get("compression", 0) % 256])
    return block + struct.pack("<I", masked_crc32c(block))


def _edit(tree: dict[str, Any], rng: random.Random, values: HostileValues) -> dict[str, Any]:
    entries = tree["entries"]
    if not entries:
        return tree
    index = rng.randrange(len(entries)) if rng.random() < 0.8 else 0  # the header is the first entry
    match rng.randrange(8):
        case 0:
            tree["overrides"][rng.choice(_OVERRIDES)] = rng.choice(_HOSTILE_VARINTS)
        case 1:
            del entries[index]
        case 2:
            old_key = entries[index][0].decode("utf-8", "replace")
            entries[index][0] = encoded(rng.choice([rng.choice(values.texts), "module/" + old_key]))
        case 3:
            entries.insert(index, [entries[index][0], list(rng.choice(entries)[1])])
        case _:
            entries[index][1] = edit_message(entries[index][1], rng, values)
    return tree


def correct_tensor_bundle(folder: Path) -> None:
    """Correct the checksums of all tensors in the index, after their data has changed."""
    for index in folder.glob("*.index"):
        data = index.with_suffix(".data-00000-of-00001").read_bytes()
        tree = _parse(index.read_bytes())
        for _, message in tree["entries"][1:]:
            numbers = {number: value for number, _, value, _ in message}
            start = numbers.get(4, 0)
            checksum = masked_crc32c(data[start : start + numbers.get(5, 0)])
            for field in message:
                if field[0] == 6:
                    field[2] = checksum
        index.write_bytes(_write(tree, random.Random(0)))


TENSOR_BUNDLE = Format(_parse, _write, _edit)

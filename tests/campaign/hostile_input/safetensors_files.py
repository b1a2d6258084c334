"""Safetensors files as trees: the header with names, types, shapes and offsets, and the data."""

import json
import math
import random
import struct
from typing import Any

from tests.campaign.hostile_input.formats import Format, encoded, json_text
from tests.campaign.hostile_input.hostile_values import HostileValues
from tests.campaign.hostile_input.trees import edited_tree

_TYPES = ("F32", "F16", "BF16", "F64", "I64", "I8", "U8", "BOOL", "F8_E4M3", "F8_E5M2", "C64", "U64", "X32")
_HEADER_LENGTHS = (0, 1, 7, 2**20, 100_000_001, 2**31, 2**63, 2**64 - 1)
_MANY_NAMES = 200_000
# As the integers of their 4 bytes: NaN, -infinity, the largest float, a signaling NaN.
_HOSTILE_FLOATS = (0x7FC00000, 0xFF800000, 0x7F7FFFFF, 0x7F800001)


def _parse(content: bytes) -> dict[str, Any]:
    (length,) = struct.unpack("<Q", content[:8])
    return {"header": json.loads(content[8 : 8 + length]), "data": content[8 + length :], "length": None}


def _write(tree: dict[str, Any], rng: random.Random) -> bytes:
    header = encoded(json_text(tree["header"], rng))
    header += b" " * (-len(header) % 8)
    length = len(header) if tree["length"] is None else tree["length"]
    data: bytes = tree["data"]
    return struct.pack("<Q", length) + header + data


def _edit(tree: dict[str, Any], rng: random.Random, values: HostileValues) -> dict[str, Any]:
    header = tree["header"]
    names = [name for name, entry in header.items() if _is_tensor(entry)] if isinstance(header, dict) else []
    if not names or rng.random() < 0.3:
        return {**tree, "header": edited_tree(header, rng, values)}
    name = rng.choice(names)
    rng.choice(_EDITS)(tree, name, rng, values)
    return tree


def _is_tensor(entry: Any) -> bool:
    """Return whether an entry of the header describes a tensor; earlier edits may have changed it."""
    if not (isinstance(entry, dict) and {"dtype", "shape", "data_offsets"} <= entry.keys()):
        return False
    shape, offsets = entry["shape"], entry["data_offsets"]
    return _is_list_of_integers(shape) and _is_list_of_integers(offsets) and len(offsets) == 2


def _is_list_of_integers(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, int) for item in value)


def _claim_length(tree: dict[str, Any], name: str, rng: random.Random, values: HostileValues) -> None:
    tree["length"] = rng.choice(_HEADER_LENGTHS)


def _change_type(tree: dict[str, Any], name: str, rng: random.Random, values: HostileValues) -> None:
    tree["header"][name]["dtype"] = rng.choice(_TYPES)


def _change_shape(tree: dict[str, Any], name: str, rng: random.Random, values: HostileValues) -> None:
    """Give a tensor another shape, nearly half of the time with the same number of elements."""
    entry = tree["header"][name]
    size = math.prod(entry["shape"])
    same_size = [[size], [1, size], [size, 1], [*entry["shape"], 1], entry["shape"][::-1]]
    other_size = [[], [0], [2**63, 2], [-1], [2**40], [size + 1]]
    entry["shape"] = rng.choice([*same_size, *other_size])


def _change_offsets(tree: dict[str, Any], name: str, rng: random.Random, values: HostileValues) -> None:
    offsets = tree["header"][name]["data_offsets"]
    offsets[rng.randrange(2)] += rng.choice([1, -1, 4, -4, 2**32, 2**63])


def _share_offsets(tree: dict[str, Any], name: str, rng: random.Random, values: HostileValues) -> None:
    other = rng.choice(list(tree["header"]))
    tree["header"][name] = tree["header"][other]


def _rename(tree: dict[str, Any], name: str, rng: random.Random, values: HostileValues) -> None:
    new_name = rng.choice([rng.choice(values.texts), name + ".gamma", "albert." + name, "module/" + name])
    tree["header"][new_name] = tree["header"].pop(name)


def _add_names(tree: dict[str, Any], name: str, rng: random.Random, values: HostileValues) -> None:
    end = len(tree["data"])
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [end, end]}
    prefix = rng.choice(["t", "albert.", "classifier.", "predictions."])
    tree["header"] |= {f"{prefix}{number}": entry for number in range(rng.choice([1, 100, _MANY_NAMES]))}


def _change_weights(tree: dict[str, Any], name: str, rng: random.Random, values: HostileValues) -> None:
    """Overwrite one float of a tensor, or all."""
    start, stop = tree["header"][name]["data_offsets"]
    count = max(0, min(stop, len(tree["data"])) - start) // 4
    first = rng.randint(0, count) if rng.random() < 0.5 else 0
    hostile = struct.pack("<I", rng.choice(_HOSTILE_FLOATS)) * rng.choice([1, count])
    data = tree["data"]
    changed = data[: start + 4 * first] + hostile + data[start + 4 * first + len(hostile) :]
    tree["data"] = changed[: len(data)]


def _change_data(tree: dict[str, Any], name: str, rng: random.Random, values: HostileValues) -> None:
    tree["data"] = rng.choice([b"", tree["data"][:-1], tree["data"] + b"\0", tree["data"][8:]])


_EDITS = (
    _claim_length, _change_type, _change_shape, _change_shape, _change_offsets, _share_offsets, _rename,
    _add_names, _change_weights, _change_weights, _change_weights, _change_data,
)  # fmt: skip
SAFETENSORS = Format(_parse, _write, _edit)

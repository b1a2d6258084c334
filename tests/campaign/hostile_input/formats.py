"""Formats of files: how to parse a valid file into a tree, edit the tree, and write it again.

Each seed of a trial gives one edit, so that a trial with fewer seeds has fewer edits. Most edits
change the tree; some change the bytes of the written file.
"""

import csv
import io
import json
import random
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.campaign.hostile_input.hostile_values import VERBATIM, HostileValues
from tests.campaign.hostile_input.raw_bytes import edited_bytes
from tests.campaign.hostile_input.trees import edited_tree, is_writable

_SEEDS_PER_RAW_EDIT = 5  # on average
_MAX_ROWS = 3_000  # of a table whose rows an edit repeats

TreeEdit = Callable[[Any, random.Random, HostileValues], Any]


@dataclass(frozen=True)
class Format:
    """A format with a grammar.

    Attributes:
        parse: returns the tree of a valid file.
        write: returns the bytes of a tree, of whatever shape its edits have given it.
        edit: returns a tree with one edit.
        takes_raw_edits: whether some edits are of the bytes of the written file.
    """

    parse: Callable[[bytes], Any]
    write: Callable[[Any, random.Random], bytes]
    edit: TreeEdit = edited_tree
    takes_raw_edits: bool = True


def edited_file(content: bytes, file_format: Format, seeds: Sequence[int], values: HostileValues) -> bytes:
    """Return the content of a valid file with one edit for each seed."""
    tree = file_format.parse(content)
    raw_seeds = [seed for seed in seeds if file_format.takes_raw_edits and not seed % _SEEDS_PER_RAW_EDIT]
    for seed in seeds:
        if seed not in raw_seeds:
            tree = file_format.edit(tree, random.Random(seed), values)
            if not is_writable(tree):
                return content
    content = file_format.write(tree, random.Random(sum(seeds)))
    for seed in raw_seeds:
        content = edited_bytes(content, random.Random(seed))
    return content


def json_text(tree: Any, rng: random.Random) -> str:
    """Return a tree as JSON, invalid where the tree has NaN, unpaired surrogates or names of `VERBATIM`."""
    text = json.dumps(tree, ensure_ascii=rng.random() < 0.7, default=str)
    for name, verbatim in VERBATIM.items():
        text = text.replace(f'"{name}"', verbatim)
    return text


def encoded(text: str) -> bytes:
    """Return text as UTF-8; unpaired surrogates give bytes that are not UTF-8."""
    return text.encode("utf-8", "surrogatepass")


def _write_json(tree: Any, rng: random.Random) -> bytes:
    return encoded(json_text(tree, rng) + "\n")


def _parse_json_lines(content: bytes) -> list[Any]:
    return [json.loads(line) for line in content.splitlines()]


def _write_json_lines(tree: Any, rng: random.Random) -> bytes:
    lines = tree if isinstance(tree, list) else [tree]
    return encoded("".join(json_text(line, rng) + "\n" for line in lines))


def _write_toml(tree: Any, rng: random.Random) -> bytes:
    if not isinstance(tree, dict):
        return _write_json(tree, rng)
    return encoded("\n".join(_toml_lines(tree, "")) + "\n")


def _toml_lines(table: dict[str, Any], prefix: str) -> Iterable[str]:
    """Yield the lines of a table; the names of tables inside it get the prefix."""
    tables = {key: value for key, value in table.items() if isinstance(value, dict)}
    for key, value in table.items():
        if key not in tables:
            yield f"{_toml_key(key)} = {_toml_value(value)}"
    for key, value in tables.items():
        name = prefix + _toml_key(key)
        yield f"[{name}]"
        yield from _toml_lines(value, name + ".")


def _toml_key(key: str) -> str:
    return key if key.isidentifier() and key.isascii() else _toml_value(key)


def _toml_value(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    if isinstance(value, dict):
        pairs = (f"{_toml_key(str(key))} = {_toml_value(inner)}" for key, inner in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, bool) or not isinstance(value, float | int | str):
        return str(value).lower()
    if isinstance(value, str):
        escaped = "".join(
            char if char.isprintable() or char > "\x9f" else f"\\u{ord(char):04x}" for char in value
        )
        return VERBATIM.get(value) or '"' + escaped.replace('"', '\\"') + '"'
    # `repr` refuses integers of more than 4,300 digits.
    return "9" * 5000 if isinstance(value, int) and abs(value) > 10**300 else repr(value)


def _parse_csv(content: bytes) -> list[list[str]]:
    return list(csv.reader(content.decode("utf-8-sig").splitlines()))


def _parse_tsv(content: bytes) -> list[list[str]]:
    return [line.split("\t") for line in content.decode("utf-8-sig").splitlines()]


def _write_csv(tree: Any, rng: random.Random) -> bytes:
    """Return a table as CSV, sometimes without the quotation marks that its cells need."""
    rows = _cells(tree)
    if rng.random() < 0.7:
        stream = io.StringIO()
        csv.writer(stream, lineterminator="\n").writerows(rows)
        return _encoded_table(stream.getvalue(), rng)
    return _encoded_table("".join(",".join(row) + "\n" for row in rows), rng)


def _write_tsv(tree: Any, rng: random.Random) -> bytes:
    return _encoded_table("".join("\t".join(row) + "\n" for row in _cells(tree)), rng)


def _cells(tree: Any) -> list[list[str]]:
    """Return the cells of a table, in whose place edits may have put values that are not texts."""
    rows = tree if isinstance(tree, list) else [tree]
    return [
        [
            cell if isinstance(cell, str) else str(cell)[:5000]
            for cell in (row if isinstance(row, list) else [row])
        ]
        for row in rows
    ]


def _encoded_table(text: str, rng: random.Random) -> bytes:
    """Return text as UTF-8, sometimes with a byte order mark, or as UTF-16."""
    content = encoded(text)
    if rng.random() < 0.9:
        return content
    return rng.choice([b"\xef\xbb\xbf" + content, text.encode("utf-16", "ignore")])


def _edit_table(tree: Any, rng: random.Random, values: HostileValues) -> Any:
    """Return a table with one edit, sometimes of the whole table."""
    if isinstance(tree, list) and tree and isinstance(tree[0], list) and rng.random() < 0.15:
        match rng.randrange(4):
            case 0:
                return tree[1:]  # without a header
            case 1:
                return [row + [f"c{number}" for number in range(30_000)] for row in _cells(tree[:3])]
            case 2:
                tree[rng.randrange(len(tree))] = ["z" * (1 << 21)]
            case _ if len(tree) < _MAX_ROWS:
                return tree * 50
        return tree
    return edited_tree(tree, rng, values)


JSON = Format(json.loads, _write_json)
JSON_LINES = Format(_parse_json_lines, _write_json_lines)
TOML = Format(lambda content: tomllib.loads(content.decode()), _write_toml)
CSV = Format(_parse_csv, _write_csv, _edit_table)
TSV = Format(_parse_tsv, _write_tsv, _edit_table)
TEXT = Format(
    lambda content: content.decode().split("\n"), lambda tree, _: encoded("\n".join(map(str, tree)))
)
RAW = Format(lambda content: content, lambda tree, _: tree, lambda tree, rng, _: edited_bytes(tree, rng))

"""Edits of text files and of compressed files: encodings, huge lines, decompression bombs."""

import dataclasses
import gzip
import random
from functools import cache
from typing import Any

from tests.campaign.hostile_input.formats import JSON_LINES, TEXT, Format, encoded
from tests.campaign.hostile_input.hostile_values import HostileValues
from tests.campaign.hostile_input.trees import edited_tree

_BOMB_MIB = 300  # uncompressed
_LONG_LINE_BYTES = 20_000_000
# Texts of one repeated unit: of words, sentences, lines, combining or control characters.
_UNITS = (
    "a", "ab ", "a. ", "\n", "\r", " ", "\u3042", "e\u0301", "\u0301", "\U0001f600", "\0", "\u200d", "\x85",
    "\u2028",
)  # fmt: skip


def _edit_lines(lines: Any, rng: random.Random, values: HostileValues) -> Any:
    """Return lines with one edit; sometimes, all text is replaced by one repeated unit."""
    if rng.random() < 0.2:
        unit = rng.choice(_UNITS)
        return [unit * (rng.choice([1, 1000, 100_000, _LONG_LINE_BYTES]) // len(unit.encode()))]
    return edited_tree(lines, rng, values)


def _write_lines(lines: Any, rng: random.Random) -> bytes:
    """Return lines with random line ends, sometimes not as UTF-8."""
    lines = lines if isinstance(lines, list) else [lines]
    end = rng.choice(["\n", "\n", "\n", "\r\n", "\r", "\n\n", "\u2028"])
    content = encoded(end.join(map(str, lines)))
    if rng.random() < 0.8:
        return content
    text = content.decode("utf-8", "replace")
    return rng.choice(
        [
            text.encode("utf-16"),
            text.encode("latin-1", "replace"),
            b"\xef\xbb\xbf" + content,
            content + b"\0" * 5000,
        ]
    )


@cache
def _bomb(unit: bytes) -> bytes:
    """Return a gzip file of one repeated unit, about a thousandth of the size of its content."""
    return gzip.compress(unit * ((1 << 20) // len(unit)), mtime=0) * _BOMB_MIB


def compressed(inner: Format) -> Format:
    """Return the format of gzip files of another format; some edits replace the content by a bomb."""

    def edit(tree: Any, rng: random.Random, values: HostileValues) -> Any:
        if rng.random() < 0.05:
            return _bomb(rng.choice([b"a", b"word. ", b"\n", b'{"text": "a"}\n', b'"', b"a,b\n"]))
        return tree if isinstance(tree, bytes) else inner.edit(tree, rng, values)

    def write(tree: Any, rng: random.Random) -> bytes:
        return tree if isinstance(tree, bytes) else gzip.compress(inner.write(tree, rng), mtime=0)

    return Format(lambda content: inner.parse(gzip.decompress(content)), write, edit)


def _edit_records(records: Any, rng: random.Random, values: HostileValues) -> Any:
    if rng.random() < 0.1:
        return [{"text": (_edit_lines([""], rng, values) or [""])[0]}]
    return edited_tree(records, rng, values)


PLAIN = dataclasses.replace(TEXT, write=_write_lines, edit=_edit_lines)
RECORDS = dataclasses.replace(JSON_LINES, edit=_edit_records)

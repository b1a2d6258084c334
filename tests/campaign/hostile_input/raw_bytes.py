"""Edits of bytes, whatever their format: truncation, flipped bits, repeated ranges."""

import random
from collections.abc import Callable

_FRAGMENTS = (
    b"\0", b"\xff", b"\x80", b"\xef\xbb\xbf", b"\xff\xfe", b"\xed\xa0\x80", b"\x1b[2J", b"\n", b"\r", b"\t",
    b'"', b"{", b"[", b"]", b"}", b",", b":", b"\\", b"\\u0000", b"\\ud800", b"NaN", b"1e999", b"-",
    b"9" * 400, b"\xff" * 8, b"\0" * 64, b"\x7f" * 4, b"\xe2\x80\xa8",
)  # fmt: skip


def edited_bytes(content: bytes, rng: random.Random) -> bytes:
    """Return bytes with one edit at a random place."""
    start = rng.randint(0, len(content))
    stop = min(len(content), start + rng.choice([1, 2, 8, 100, len(content)]))
    return rng.choice(_EDITS)(content, start, stop, rng)


def _truncate(content: bytes, start: int, stop: int, rng: random.Random) -> bytes:
    return content[: rng.choice([start, 0, 1, len(content) - 1])]


def _flip_bit(content: bytes, start: int, stop: int, rng: random.Random) -> bytes:
    if start == len(content):
        return content
    flipped = bytes([content[start] ^ 1 << rng.randrange(8)])
    return content[:start] + flipped + content[start + 1 :]


def _overwrite(content: bytes, start: int, stop: int, rng: random.Random) -> bytes:
    fragment = rng.choice(_FRAGMENTS)
    return content[:start] + fragment + content[start + len(fragment) :]


def _insert(content: bytes, start: int, stop: int, rng: random.Random) -> bytes:
    return content[:start] + rng.choice(_FRAGMENTS) + content[start:]


def _insert_random(content: bytes, start: int, stop: int, rng: random.Random) -> bytes:
    return content[:start] + rng.randbytes(rng.randint(1, 40)) + content[start:]


def _delete(content: bytes, start: int, stop: int, rng: random.Random) -> bytes:
    return content[:start] + content[stop:]


def _copy_range(content: bytes, start: int, stop: int, rng: random.Random) -> bytes:
    at = rng.randint(0, len(content))
    return content[:at] + content[start:stop] + content[at:]


def _prefix(content: bytes, start: int, stop: int, rng: random.Random) -> bytes:
    return rng.choice(_FRAGMENTS) + content


def _append(content: bytes, start: int, stop: int, rng: random.Random) -> bytes:
    return content + rng.choice(_FRAGMENTS)


_EDITS: tuple[Callable[[bytes, int, int, random.Random], bytes], ...] = (
    _truncate, _flip_bit, _flip_bit, _overwrite, _insert, _insert_random, _delete, _copy_range, _prefix,
    _append,
)  # fmt: skip

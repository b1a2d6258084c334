"""Reads the fields of protocol buffers from bytes, without a schema.

Enough for TensorFlow's checkpoints and SentencePiece's vocabularies. Their readers interpret
the field numbers; this module checks that a message is complete.
"""

from collections.abc import Iterator


class CorruptDataError(Exception):
    """Bytes that are not valid in their format; the caller adds the name of the file."""


def read_varint(content: bytes, at: int) -> tuple[int, int]:
    """Return the varint at an offset, and the offset after it."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(content):
            break
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    raise CorruptDataError("a varint without an end")


def message_fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message.

    The value of a fixed 4 or 8 byte field is its bytes as an unsigned little-endian integer.
    """
    at = 0
    while at < len(content):
        tag, at = read_varint(content, at)
        wire_type = tag & 7
        value: int | bytes
        if wire_type == 0:
            value, at = read_varint(content, at)
        elif wire_type == 2:
            length, at = read_varint(content, at)
            value, at = content[at : at + length], at + length
        elif wire_type in (1, 5):
            width = 8 if wire_type == 1 else 4
            value, at = int.from_bytes(content[at : at + width], "little"), at + width
        else:
            raise CorruptDataError(f"a field of wire type {wire_type}")
        if at > len(content):
            raise CorruptDataError("a field ends outside its message")
        yield tag >> 3, value

"""Reads the fields of protocol buffers from bytes, without a schema.

This is enough for TensorFlow checkpoints and SentencePiece files. The readers of these formats
interpret the field numbers; this module only checks that a message is complete.
"""

from collections.abc import Iterator


class CorruptDataError(Exception):
    """Bytes that are not valid in their format; the caller adds the name of the file."""


def read_varint(content: bytes, offset: int) -> tuple[int, int]:
    """Return the varint at an offset, and the offset after it."""
    value = 0
    for shift in range(0, 64, 7):
        if offset >= len(content):
            break
        byte = content[offset]
        value |= (byte & 0x7F) << shift
        offset += 1
        if byte < 0x80:
            return value, offset
    raise CorruptDataError("a varint without an end")


def message_fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message.

    The value is an unsigned integer for a varint and for a field of 4 or 8 bytes (little-endian), and
    bytes for a field with a length.
    """
    offset = 0
    while offset < len(content):
        tag, offset = read_varint(content, offset)
        wire_type = tag & 7
        value: int | bytes
        if wire_type == 0:
            value, offset = read_varint(content, offset)
        elif wire_type == 2:
            length, offset = read_varint(content, offset)
            value, offset = content[offset : offset + length], offset + length
        elif wire_type in (1, 5):
            width = 8 if wire_type == 1 else 4
            value, offset = int.from_bytes(content[offset : offset + width], "little"), offset + width
        else:
            raise CorruptDataError(f"a field of wire type {wire_type}")
        if offset > len(content):
            raise CorruptDataError("a field ends outside its message")
        yield tag >> 3, value

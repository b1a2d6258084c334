"""Writes messages of protocol buffers, as lists of their fields."""

from typing import Any

# A field is [number, wire type, value, claimed length]; the value of a nested message is a list of fields.
Message = list[list[Any]]


def write_message(message: Any) -> bytes:
    """Return the bytes of a message, with claimed lengths in place of the true ones."""
    content = b""
    for number, wire, value, length in message:
        content += varint((number << 3 | wire) & (2**64 - 1))
        if wire == 0:
            content += varint(value if isinstance(value, int) else 0)
        elif wire == 2:
            inner = write_message(value) if isinstance(value, list) else value
            inner = inner if isinstance(inner, bytes) else varint(inner)
            content += varint(len(inner) if length is None else length) + inner
        elif isinstance(value, int):
            content += (value % 2**64).to_bytes(8, "little")[: 8 if wire == 1 else 4]
    return content


def varint(value: int) -> bytes:
    """Return an integer as a varint of at most 10 bytes."""
    value %= 2**64
    content = b""
    while value > 0x7F:
        content += bytes([value & 0x7F | 0x80])
        value >>= 7
    return content + bytes([value])

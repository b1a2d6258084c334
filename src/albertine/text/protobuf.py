"""Protocol buffers, read field by field from their bytes.

Enough for the two formats that carry them here: TensorFlow's checkpoints and
SentencePiece's vocabularies. What the numbers of the fields mean is their
business; that a message is whole is checked here.
"""

from collections.abc import Iterator


class CorruptDataError(Exception):
    """The bytes do not make sense; caught where the file's name is known."""


def read_varint(content: bytes, at: int) -> tuple[int, int]:
    """Read a number of seven bits a byte; return it and where the next thing begins."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(content):
            break
        byte = content[at]
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
    raise CorruptDataError("a number that does not end")


def message_fields(content: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield the fields of a message: the number of each, and its value.

    A number written in 4 or 8 bytes comes as those bytes read as a whole number,
    whatever it may stand for.
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
            raise CorruptDataError(f"a field of kind {wire_type}")
        if at > len(content):
            raise CorruptDataError("a field lies outside its message")
        yield tag >> 3, value

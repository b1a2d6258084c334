"""Protocol buffers as trees, parsed without a schema; SentencePiece models are such files."""

import random
from typing import Any

from albertine.text.protobuf import CorruptDataError, message_fields, read_varint
from tests.campaign.hostile_input.formats import Format
from tests.campaign.hostile_input.hostile_values import HostileValues
from tests.campaign.hostile_input.raw_bytes import edited_bytes
from tests.protobuf_writer import Message, write_message

_HOSTILE_INTEGERS = (0, 1, 2, 4, 5, 6, 99, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)
# As the integers of their 4 bytes: 0, NaN, infinity, -infinity, -99, the largest float, the smallest one.
_HOSTILE_FLOATS = (0, 0x7FC00000, 0x7F800000, 0xFF800000, 0xC2C60000, 0x7F7FFFFF, 1)
_HOSTILE_BYTES = (
    b"", b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"<pad>", b" ", b"\xe2\x96\x81", b"a" * 100_000, b"A" * 5,
)  # fmt: skip


def parse_message(content: bytes, depth: int = 1) -> Message:
    """Return the fields of a message; messages inside it are parsed up to a depth."""
    message: Message = []
    offset = 0
    while offset < len(content):
        tag, after = read_varint(content, offset)
        wire = tag & 7
        if wire == 0:
            value, offset = read_varint(content, after)
            message.append([tag >> 3, wire, value, None])
        elif wire == 2:
            length, after = read_varint(content, after)
            inner, offset = content[after : after + length], after + length
            message.append([tag >> 3, wire, _parsed_if_message(inner, depth), None])
        else:
            width = 8 if wire == 1 else 4
            message.append([tag >> 3, wire, int.from_bytes(content[after : after + width], "little"), None])
            offset = after + width
    return message


def _parsed_if_message(content: bytes, depth: int) -> Any:
    """Return the fields of bytes that look like a message, other bytes as they are."""
    try:
        if depth and content and all(0 < number < 100 for number, _ in message_fields(content)):
            return parse_message(content, depth - 1)
    except CorruptDataError:
        pass
    return content


def edit_message(message: Message, rng: random.Random, values: HostileValues) -> Message:
    """Return a message with one edit of a random field, or of a field of a nested message."""
    if not message:
        return [[1, 2, rng.choice(_HOSTILE_BYTES), None]]
    if rng.random() < 0.5:  # by number first: otherwise nearly all edits would be of the many tokens
        number = rng.choice(sorted({field[0] for field in message}))
        index = rng.choice([index for index, field in enumerate(message) if field[0] == number])
    else:
        index = rng.randrange(len(message))
    field = message[index]
    if isinstance(field[2], list) and rng.random() < 0.8:
        field[2] = edit_message(field[2], rng, values)
        return message
    match rng.randrange(9):
        case 0:
            del message[index]
        case 1:
            message.insert(rng.randint(0, len(message)), list(field))
        case 2:
            field[0] = rng.choice([0, 1, 2, 3, 4, 5, 6, 7, 99, 2**29])
        case 3:
            field[1] = rng.choice([0, 1, 2, 3, 4, 5, 6, 7])
        case 4 if field[1] == 2:
            field[3] = rng.choice(_HOSTILE_INTEGERS)
        case 5:
            rng.shuffle(message)
        case _:
            field[2] = _hostile_value(field, rng)
    return message


def _hostile_value(field: list[Any], rng: random.Random) -> Any:
    if field[1] == 2:
        inner = write_message(field[2]) if isinstance(field[2], list) else field[2]
        return rng.choice([*_HOSTILE_BYTES, edited_bytes(inner, rng), edited_bytes(inner, rng)])
    return rng.choice(_HOSTILE_FLOATS if field[1] == 5 else _HOSTILE_INTEGERS)


SENTENCEPIECE = Format(parse_message, lambda message, _: write_message(message), edit_message)

"""Reads a SentencePiece vocabulary (`spiece.model`, `30k-clean.model`) from its bytes.

The file is one protocol buffer: the pieces with their scores, what the trainer
was told, and how characters are normalised. The library is not needed for it.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from albertine.text.protobuf import CorruptDataError, message_fields

# The kinds of piece, by SentencePiece's numbers.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
_UNIGRAM = 1


@dataclass(frozen=True)
class SentencePieceModel:
    """A vocabulary as the file says it.

    Attributes:
        pieces: text and log probability of each piece, by id.
        piece_types: the kind of each piece.
        character_map: how characters are normalised, in a form that `tokenizers` runs.
    """

    pieces: tuple[tuple[str, float], ...]
    piece_types: tuple[int, ...]
    character_map: bytes

    @property
    def unk_id(self) -> int:
        """Id of the unknown piece."""
        return self.piece_types.index(UNKNOWN)

    def digit_comma_pieces(self) -> Iterator[tuple[int, str]]:
        """Yield the pieces that end in a digit and a comma, which ALBERT's reference code takes apart.

        It cuts the comma off and segments the rest as a text of its own, so that
        "2000," is the number that "2000" is. Yields id, and the rest without comma.
        """
        for index, (piece, _) in enumerate(self.pieces):
            if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
                yield index, piece[:-1]


def read_sentencepiece(content: bytes) -> SentencePieceModel:
    """Read the bytes of a vocabulary; a `TornError` says what is wrong with them."""
    pieces: list[tuple[str, float]] = []
    piece_types: list[int] = []
    character_map = b""
    model_type = _UNIGRAM
    for number, value in message_fields(content):
        if number == 1 and isinstance(value, bytes):
            piece, score, piece_type = _read_piece(value)
            pieces.append((piece, score))
            piece_types.append(piece_type)
        elif number == 2 and isinstance(value, bytes):
            found = dict(message_fields(value)).get(3, _UNIGRAM)
            model_type = found if isinstance(found, int) else 0
        elif number == 3 and isinstance(value, bytes):
            found = dict(message_fields(value)).get(2, b"")
            character_map = found if isinstance(found, bytes) else b""
    if model_type != _UNIGRAM:
        raise CorruptDataError("not a unigram vocabulary, which ALBERT's are")
    if piece_types.count(UNKNOWN) != 1:
        raise CorruptDataError("no vocabulary of SentencePiece: it has one unknown piece")
    if BYTE in piece_types:
        raise CorruptDataError("it falls back to bytes, which ALBERT's do not")
    return SentencePieceModel(tuple(pieces), tuple(piece_types), character_map)


def _read_piece(content: bytes) -> tuple[str, float, int]:
    text, score, piece_type = "", 0.0, NORMAL
    for number, value in message_fields(content):
        if number == 1 and isinstance(value, bytes):
            try:
                text = value.decode()
            except UnicodeDecodeError:
                raise CorruptDataError("a piece that is no text") from None
        elif number == 2 and isinstance(value, int):
            score = struct.unpack("<f", (value & 0xFFFFFFFF).to_bytes(4, "little"))[0]
        elif number == 3 and isinstance(value, int):
            piece_type = value
    return text, score, piece_type

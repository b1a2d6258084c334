"""Reads a SentencePiece vocabulary (`spiece.model`, `30k-clean.model`) from its bytes.

The file is one protocol buffer: the pieces with their scores, what the trainer
was told, and how characters are normalised. The library is not needed for it.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

from albertine.protobuf import TornError, fields

# The kinds of piece, by SentencePiece's numbers.
NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
_UNIGRAM = 1


@dataclass(frozen=True)
class SentencePieceModel:
    """A vocabulary as the file says it.

    Attributes:
        pieces: text and log probability of each piece, by id.
        kinds: the kind of each piece.
        character_map: how characters are normalised, in a form that `tokenizers` runs.
    """

    pieces: tuple[tuple[str, float], ...]
    kinds: tuple[int, ...]
    character_map: bytes

    @property
    def unknown(self) -> int:
        """Id of the unknown piece."""
        return self.kinds.index(UNKNOWN)

    def splits_after_digits(self) -> Iterator[tuple[int, str]]:
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
    kinds: list[int] = []
    character_map = b""
    algorithm = _UNIGRAM
    for number, value in fields(content):
        if number == 1 and isinstance(value, bytes):
            piece, score, kind = _piece(value)
            pieces.append((piece, score))
            kinds.append(kind)
        elif number == 2 and isinstance(value, bytes):
            found = dict(fields(value)).get(3, _UNIGRAM)
            algorithm = found if isinstance(found, int) else 0
        elif number == 3 and isinstance(value, bytes):
            found = dict(fields(value)).get(2, b"")
            character_map = found if isinstance(found, bytes) else b""
    if algorithm != _UNIGRAM:
        raise TornError("not a unigram vocabulary, which ALBERT's are")
    if kinds.count(UNKNOWN) != 1:
        raise TornError("no vocabulary of SentencePiece: it has one unknown piece")
    if BYTE in kinds:
        raise TornError("it falls back to bytes, which ALBERT's do not")
    return SentencePieceModel(tuple(pieces), tuple(kinds), character_map)


def _piece(content: bytes) -> tuple[str, float, int]:
    text, score, kind = "", 0.0, NORMAL
    for number, value in fields(content):
        if number == 1 and isinstance(value, bytes):
            try:
                text = value.decode()
            except UnicodeDecodeError:
                raise TornError("a piece that is no text") from None
        elif number == 2 and isinstance(value, int):
            score = struct.unpack("<f", (value & 0xFFFFFFFF).to_bytes(4, "little"))[0]
        elif number == 3 and isinstance(value, int):
            kind = value
    return text, score, kind

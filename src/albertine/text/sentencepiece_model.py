"""Reads SentencePiece files (`spiece.model`, `30k-clean.model`).

A file is one protocol buffer with the pieces (SentencePiece's name for tokens) and their scores,
the trainer's options and the character normalization. Reading it does not need the library
`sentencepiece`. See docs/decisions/sentencepiece-files.md.
"""

import struct
from dataclasses import dataclass

from albertine.text.protobuf import CorruptDataError, message_fields

# Values of SentencePiece's ModelProto.SentencePiece.Type.
NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = 1, 2, 3, 4, 5, 6
_UNIGRAM = 1  # of TrainerSpec.ModelType


@dataclass(frozen=True)
class SentencePieceModel:
    """Content of a SentencePiece file.

    Attributes:
        pieces: text and log probability of each piece, by id.
        piece_types: type of each piece, by id.
        character_map: precompiled character normalization, as `tokenizers` accepts it.
    """

    pieces: tuple[tuple[str, float], ...]
    piece_types: tuple[int, ...]
    character_map: bytes

    @property
    def unk_id(self) -> int:
        """Id of the unknown piece."""
        return self.piece_types.index(UNKNOWN)

    @property
    def byte_fallback(self) -> bool:
        """Whether the model writes a character that has no piece as bytes."""
        return BYTE in self.piece_types

    def segmentation_pieces(self) -> list[tuple[str, float]]:
        """Return text and score of each piece for a plain unigram segmentation.

        A user-defined symbol gets the score with which SentencePiece prefers it to all other pieces.
        ALBERT's reference code never keeps a piece that ends in a digit and a comma: it has its id here,
        but a space in its text, which no word contains.
        """
        pieces = []
        for (piece, score), piece_type in zip(self.pieces, self.piece_types, strict=True):
            if piece_type == USER_DEFINED:
                pieces.append((piece, _user_defined_score(piece)))
            elif len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
                pieces.append((f"{piece[:-1]} ,", score))
            else:
                pieces.append((piece, score))
        return pieces


def _user_defined_score(piece: str) -> float:
    """Return the score that SentencePiece 0.2.3 computes for a user-defined symbol.

    Like that of other versions, which is -0.1 or 1, it depends neither on the score in the file nor on
    those of other pieces, and is above every log probability, or nearly so.
    """
    return 0.1 * (len(piece.encode()) - 1)


def read_sentencepiece(content: bytes) -> SentencePieceModel:
    """Return the content of a SentencePiece file; raise `CorruptDataError` if it is not valid."""
    pieces: list[tuple[str, float]] = []
    piece_types: list[int] = []
    character_map = b""
    model_type = _UNIGRAM
    for number, value in message_fields(content):
        if number == 1 and isinstance(value, bytes):  # pieces
            piece, score, piece_type = _read_piece(value)
            pieces.append((piece, score))
            piece_types.append(piece_type)
        elif number == 2 and isinstance(value, bytes):  # trainer_spec, with model_type
            trainer_value = dict(message_fields(value)).get(3, _UNIGRAM)
            model_type = trainer_value if isinstance(trainer_value, int) else 0
        elif number == 3 and isinstance(value, bytes):  # normalizer_spec, with precompiled_charsmap
            normalizer_value = dict(message_fields(value)).get(2, b"")
            character_map = normalizer_value if isinstance(normalizer_value, bytes) else b""
    if model_type != _UNIGRAM:
        raise CorruptDataError("not a unigram model, which ALBERT needs")
    if piece_types.count(UNKNOWN) != 1:
        raise CorruptDataError("not a SentencePiece model: expected exactly one unknown piece")
    return SentencePieceModel(tuple(pieces), tuple(piece_types), character_map)


def _read_piece(content: bytes) -> tuple[str, float, int]:
    text, score, piece_type = "", 0.0, NORMAL
    for number, value in message_fields(content):
        if number == 1 and isinstance(value, bytes):
            try:
                text = value.decode()
            except UnicodeDecodeError:
                raise CorruptDataError("a piece that is not UTF-8") from None
        elif number == 2 and isinstance(value, int):
            score = struct.unpack("<f", (value & 0xFFFFFFFF).to_bytes(4, "little"))[0]
        elif number == 3 and isinstance(value, int):
            piece_type = value
    return text, score, piece_type

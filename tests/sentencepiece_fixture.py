"""Small SentencePiece models with ALBERT's flags, and the ids that ALBERT's reference code computes."""

import io
import struct
import unicodedata
from collections.abc import Mapping
from functools import cache

import sentencepiece

from albertine.text.sentencepiece_model import CONTROL, NORMAL, UNKNOWN, USER_DEFINED
from tests.protobuf_writer import Message, write_message

STORY = (
    'In 1899 the old captain paid 1,000 pounds for the boat, and 2,500, then 12, more. "Why?" asked Anna; '
    "nobody knew. The captain's daughter (who was nine) walked to the harbour - slowly, it must be said - "
    "and counted 3,000,000 fishes, 17, 18, 19, or so she told us. The naïve café-owner smiled. "
)
KOREAN = "한국어 텍스트 한국어 문장"
SPECIAL_TOKENS = ["[CLS]", "[SEP]", "[MASK]"]


@cache
def sentencepiece_model() -> bytes:
    """Return a SentencePiece file with Google's symbols, and with pieces that end in a digit and a comma."""
    model = io.BytesIO()
    lines = [*STORY.split(". "), f"{KOREAN} हिन्दी में ภาษาไทย"] * 30
    lines += [f"in {1000 + n}, they had {n}, {n},000 and {n},500, of it" for n in range(100)]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=map(normalized, lines),
        model_writer=model,
        vocab_size=220,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=SPECIAL_TOKENS,
        user_defined_symbols=["(", ")", '"', "-", ".", "–", "£", "€"],  # noqa: RUF001
        minloglevel=2,
    )
    return model.getvalue()


def weighted_sentencepiece_model(tokens: Mapping[str, float], symbols: Mapping[str, float]) -> bytes:
    """Return a SentencePiece file with given scores of its tokens and of its user-defined symbols."""
    pieces = [("<pad>", 0.0, CONTROL), ("<unk>", 0.0, UNKNOWN)]
    pieces += [(token, 0.0, CONTROL) for token in SPECIAL_TOKENS]
    pieces += [(token, score, NORMAL) for token, score in tokens.items()]
    pieces += [(symbol, score, USER_DEFINED) for symbol, score in symbols.items()]
    model: Message = []
    for text, score, piece_type in pieces:
        score_bits = int.from_bytes(struct.pack("<f", score), "little")
        fields = [[1, 2, text.encode(), None], [2, 5, score_bits, None], [3, 0, piece_type, None]]
        model.append([1, 2, fields, None])
    unigram, identity = [[3, 0, 1, None]], [[1, 2, b"identity", None]]
    return write_message([*model, [2, 2, unigram, None], [3, 2, identity, None]])


def normalized(text: str) -> str:
    """Return a text as ALBERT's reference code passes it to SentencePiece."""
    text = " ".join(text.split()).replace("``", '"').replace("''", '"')
    decomposed = unicodedata.normalize("NFKD", text)
    return "".join(one for one in decomposed if not unicodedata.combining(one)).lower()


def reference_ids(model: bytes, text: str) -> list[int]:
    """Return the ids of ALBERT's reference code, which splits pieces that end in a digit and a comma."""
    library = sentencepiece.SentencePieceProcessor(model_proto=model)
    pieces: list[str] = []
    for piece in library.encode(normalized(text), out_type=str):
        if len(piece) > 1 and piece[-1] == "," and piece[-2].isdigit():
            again = library.encode(piece[:-1].replace("▁", ""), out_type=str)
            if not piece.startswith("▁") and again[0].startswith("▁"):
                again = again[1:] if again[0] == "▁" else [again[0][1:], *again[1:]]
            pieces += [*again, ","]
        else:
            pieces.append(piece)
    return [library.piece_to_id(piece) for piece in pieces]

"""Checks the tokenizer of a converted checkpoint on texts that tokenizers often disagree about."""

import json
import random
import unicodedata
from collections.abc import Sequence

import sentencepiece

from albertine.errors import WorkError
from albertine.text.tokenizer import Tokenizer

_TEXTS = (
    "Ça «naïve» İSTANBUL STRASSE ß ﬁne ½ e\u0301 Ελλάς",
    "``quoted'' text, 'single' \"double\"",
    '(b) x-(y)"z" a£b\u2013c€ 3.14 -- ... #1 & @',
    "1,000,000 and 2,000, 3,5 in 1899, and 12,",
    "漢字かな交じり文 ガギグ 한국어 텍스트 हिन्दी में ภาษาไทย العربية עברית",
    "🙂🙃 a🙂b ❤️",
    "tab\tnew\nline\u00a0nbsp\u3000wide \u200b zero",
)
_RANDOM_TEXTS = 1000


def hard_texts(vocabulary: Sequence[str]) -> list[str]:
    """Return texts with accents, symbols, scripts and numbers, and random sequences of tokens."""
    generator = random.Random(0)
    numbers = [10 ** generator.uniform(0, 8) for _ in range(_RANDOM_TEXTS)]
    tokens = [token.removeprefix("##") for token in vocabulary if token and not token.startswith(("[", "<"))]
    sequences = ["".join(generator.choices(tokens, k=5)) for _ in range(_RANDOM_TEXTS if tokens else 0)]
    return [
        *_TEXTS,
        *(f"In {number % 2100:.0f}, {number:,.0f}, or {number / 100:,.2f}" for number in numbers),
        *(sequence.replace("▁", " ") for sequence in sequences),
    ]


def verify_tokenizer(tokenizer: Tokenizer, copy: Tokenizer, source: str) -> str:
    """Return a message about the ids of hard texts; raise `WorkError` if those of the copy differ.

    Args:
        tokenizer: the tokenizer of the source.
        copy: the tokenizer of the converted checkpoint, loaded again.
        source: name of the source, for the error message.
    """
    texts = hard_texts(tokenizer.vocabulary)
    ids = copy.encode_batch(texts)
    if ids != tokenizer.encode_batch(texts):
        raise WorkError(f"{source}: the ids of the written tokenizer differ; the copy was deleted")
    result = f"its tokenizer gives the same ids for {len(texts):,} hard texts"
    if "spiece.model" not in tokenizer.files:
        return result
    expected = _sentencepiece_ids(tokenizer, texts)
    differing = [text for text, one, other in zip(texts, ids, expected, strict=True) if one != other]
    if not differing:
        return f"{result}, also as Google's code"
    return (
        f"{result}; for {len(differing):,} of them Google's code gives other ids "
        f"(for example {differing[0][:60]!r}; see docs/decisions/sentencepiece-files.md)"
    )


def _sentencepiece_ids(tokenizer: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids of texts as ALBERT's reference code computes them, with SentencePiece's library."""
    library = sentencepiece.SentencePieceProcessor(model_proto=tokenizer.files["spiece.model"])
    options = json.loads(tokenizer.files.get("tokenizer_config.json", b"{}"))
    ids = []
    for text in texts:
        clean = " ".join(text.split()).replace("``", '"').replace("''", '"')
        if not options.get("keep_accents", False):
            decomposed = unicodedata.normalize("NFKD", clean)
            clean = "".join(char for char in decomposed if not unicodedata.combining(char))
        if options.get("do_lower_case", True):
            clean = clean.lower()
        pieces = library.encode(clean, out_type=str)
        split = [part for piece in pieces for part in _split_comma(library, piece)]
        ids.append([library.piece_to_id(piece) for piece in split])
    return ids


def _split_comma(library: sentencepiece.SentencePieceProcessor, piece: str) -> list[str]:
    """Return a piece; if it ends in a digit and a comma, the pieces of the number and the comma."""
    if len(piece) < 2 or piece[-1] != "," or not piece[-2].isdigit():
        return [piece]
    number: list[str] = library.encode(piece[:-1].replace("▁", ""), out_type=str)
    if not piece.startswith("▁"):
        number = [part for part in (number[0].removeprefix("▁"), *number[1:]) if part]
    return [*number, ","]

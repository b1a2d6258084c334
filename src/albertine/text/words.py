"""Many texts to ids, fast: a word's pieces are worked out once and remembered.

ALBERT's pipeline and BERT's look at nothing beyond a word, so the ids of a text are
those of its words, one after another, and a language has few words that are many
times used. Where a pipeline may look further (a `tokenizer.json` can hold any), or
a text has characters that only one side takes for spaces, the library encodes it
whole; the ids are the same either way.

Text never turns into special pieces here: "[MASK]" in a book is six characters.
"""

import json
import unicodedata
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.text.pipelines import WORD_REST, WORD_START
from albertine.text.scripts import is_spaceless
from albertine.text.tokenizer import Tokenizer

_REMEMBERED = 1 << 20
_LONGEST = 40  # a longer run without a space is a sentence of a script that has none: it will not come again
_DOUBTFUL_SPACES = "\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029"  # spaces to Python, not to every pipeline
_LOCAL_NORMALIZERS = {"BertNormalizer", "Lowercase", "Precompiled", "Replace", "Strip", "StripAccents"}
_LOCAL_NORMALIZERS |= {"NFC", "NFD", "NFKC", "NFKD"}


class WordEncoder:
    """Encodes texts word by word."""

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer.literal()
        self.dtype = np.dtype(np.uint16 if len(tokenizer) <= 1 << 16 else np.uint32)
        self._special = set(vars(tokenizer.special).values()) - {tokenizer.special.unknown}
        self._known: dict[str, bytes] = {}
        self._local = looks_at_words_alone(json.loads(tokenizer.backend.to_str()))

    def encode(self, texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the ids of all texts in one row, and how many each has."""
        if not self._local or any(one in text for one in _DOUBTFUL_SPACES for text in texts):
            rows = [self._bytes(ids) for ids in self._tokenizer.batch(texts)]
        else:
            rows = self._by_words([text.split() for text in texts])
        counts = np.fromiter(map(len, rows), np.int64, len(rows)) // self.dtype.itemsize
        return np.frombuffer(b"".join(rows), self.dtype), counts

    def _by_words(self, texts: list[list[str]]) -> list[bytes]:
        """Encode texts that are cut into words; ids are kept as bytes, which join at the speed of memory."""
        known = self._known
        new = [word for word in set(chain.from_iterable(texts)) if word not in known]
        for word, ids in zip(new, self._tokenizer.batch(new), strict=True):
            known[word] = self._bytes(ids)
        rows = [b"".join(map(known.__getitem__, words)) for words in texts]
        for word in new:
            if len(word) > _LONGEST:
                del known[word]
        if len(known) > _REMEMBERED:
            known.clear()
        return rows

    def _bytes(self, ids: list[int]) -> bytes:
        if not self._special.isdisjoint(ids):  # "<pad>" is a likely piece to a unigram vocabulary that has it
            ids = [self._tokenizer.special.unknown if one in self._special else one for one in ids]
        return np.array(ids, self.dtype).tobytes()


def looks_at_words_alone(pipeline: dict[str, Any]) -> bool:
    """Tell whether a pipeline's ids of a text are those of its words between spaces, one after another."""
    normalizers, splitters = _parts(pipeline["normalizer"]), _parts(pipeline["pre_tokenizer"])
    kinds = [one["type"] for one in splitters]
    words = kinds == ["BertPreTokenizer"] or (
        kinds == ["WhitespaceSplit", "Metaspace"] and splitters[1]["prepend_scheme"] == "always"
    )
    alone = all(one["special"] for one in pipeline["added_tokens"])  # others are looked for in the whole text
    return words and alone and all(one["type"] in _LOCAL_NORMALIZERS for one in normalizers)


def _parts(part: dict[str, Any] | None) -> list[dict[str, Any]]:
    if part is None:
        return []
    inner = part.get("normalizers", part.get("pretokenizers"))
    return [part] if inner is None else inner


class WordStarts:
    """Tells which pieces begin a word, as masking whole words needs to know.

    A word begins after a space; a mark of punctuation is a word of its own, and
    what follows an opening one begins a word; in scripts that put no spaces each
    piece is a word. (The reference code also takes every piece with a letter outside
    a to z for a word, which would cut up most languages.)
    """

    def __init__(self, tokenizer: Tokenizer):
        special = set(vars(tokenizer.special).values()) - {tokenizer.special.unknown}
        starts, opens, marks, spaces = np.zeros((4, len(tokenizer)), dtype=bool)
        for index, piece in enumerate(tokenizer.pieces):
            if tokenizer.marks_rest:
                starts[index] = not piece.startswith(WORD_REST)
                continue
            bare = piece.removeprefix(WORD_START)
            mark = bool(bare) and all(unicodedata.category(one)[0] in "PS" for one in bare)
            starts[index] = bare != piece or mark or index in special or is_spaceless(bare[:1])
            marks[index], spaces[index] = mark, piece == WORD_START
            opens[index] = mark and bare != piece
        self._starts, self._opens, self._marks, self._spaces = starts, opens, marks, spaces

    def of(self, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """Return for each id of a text whether a word begins with it."""
        starts: NDArray[np.bool_] = self._starts[ids]
        starts[1:] |= self._opens[ids[:-1]]
        starts[2:] |= self._spaces[ids[:-2]] & self._marks[ids[1:-1]]
        starts[:1] = True
        return starts

"""Encodes large amounts of text: each distinct word is encoded once, and its ids are cached.

Text is encoded as a whole if the pipeline may look beyond a word (a `tokenizer.json` can hold any
pipeline), or if the text has characters that only Python treats as spaces. The ids are the
same either way. Special tokens never result from text: "[MASK]" in a book is ordinary text.

See docs/decisions/word-by-word-encoding.md.
"""

import json
import unicodedata
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.text.backends import CONTINUATION_PREFIX, WORD_START
from albertine.text.scripts import is_spaceless
from albertine.text.tokenizer import Tokenizer

_CACHE_SIZE = 1 << 20
_MAX_CACHED_LENGTH = 40  # longer "words" are sentences of a script without spaces, which do not repeat
_AMBIGUOUS_SPACES = "\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029"  # spaces in Python, not in every pipeline
_WORD_LOCAL_NORMALIZERS = {"BertNormalizer", "Lowercase", "Precompiled", "Replace", "Strip", "StripAccents"}
_WORD_LOCAL_NORMALIZERS |= {"NFC", "NFD", "NFKC", "NFKD"}


class WordEncoder:
    """Encodes texts word by word, with a cache.

    Attributes:
        dtype: type of the ids, uint16 if the vocabulary fits.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._tokenizer = tokenizer.with_split_special_tokens()
        self.dtype = np.dtype(np.uint16 if len(tokenizer) <= 1 << 16 else np.uint32)
        self._special_ids = set(vars(tokenizer.special_ids).values()) - {tokenizer.special_ids.unk}
        self._cache: dict[str, bytes] = {}
        self._is_word_local = is_word_local(json.loads(tokenizer.backend.to_str()))

    def encode(self, texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the ids of all texts end to end [tokens], and the number of each text's ids [texts]."""
        if not self._is_word_local or any(one in text for one in _AMBIGUOUS_SPACES for text in texts):
            rows = [self._bytes(ids) for ids in self._tokenizer.encode_batch(texts)]
        else:
            rows = self._encode_words([text.split() for text in texts])
        counts = np.fromiter(map(len, rows), np.int64, len(rows)) // self.dtype.itemsize
        return np.frombuffer(b"".join(rows), self.dtype), counts

    def _encode_words(self, texts: list[list[str]]) -> list[bytes]:
        """Return the ids of texts, given as words, as bytes; joining bytes is faster than joining arrays."""
        cache = self._cache
        new = [word for word in set(chain.from_iterable(texts)) if word not in cache]
        for word, ids in zip(new, self._tokenizer.encode_batch(new), strict=True):
            cache[word] = self._bytes(ids)
        rows = [b"".join(map(cache.__getitem__, words)) for words in texts]
        for word in new:
            if len(word) > _MAX_CACHED_LENGTH:
                del cache[word]
        if len(cache) > _CACHE_SIZE:
            cache.clear()
        return rows

    def _bytes(self, ids: list[int]) -> bytes:
        # Special tokens have a high probability in a unigram vocabulary, so text can still match "<pad>".
        if not self._special_ids.isdisjoint(ids):
            ids = [self._tokenizer.special_ids.unk if one in self._special_ids else one for one in ids]
        return np.array(ids, self.dtype).tobytes()


def is_word_local(backend: dict[str, Any]) -> bool:
    """Return whether a pipeline gives a text the ids of its space-separated words, one after another."""
    normalizers, splitters = _components(backend["normalizer"]), _components(backend["pre_tokenizer"])
    splitter_types = [one["type"] for one in splitters]
    splits_words = splitter_types == ["BertPreTokenizer"] or (
        splitter_types == ["WhitespaceSplit", "Metaspace"] and splitters[1]["prepend_scheme"] == "always"
    )
    # Other added tokens are matched in the whole text, so they may span words.
    only_special_added = all(one["special"] for one in backend["added_tokens"])
    return (
        splits_words
        and only_special_added
        and all(one["type"] in _WORD_LOCAL_NORMALIZERS for one in normalizers)
    )


def _components(component: dict[str, Any] | None) -> list[dict[str, Any]]:
    if component is None:
        return []
    inner = component.get("normalizers", component.get("pretokenizers"))
    return [component] if inner is None else inner


class WordBoundaries:
    """Finds the tokens that begin a word, for whole-word masking.

    A word begins after a space. A punctuation mark is a word, and the token after an opening mark
    begins a word. In scripts without spaces each token is a word. Unlike here, the reference code
    also starts a word at every token with a letter outside a to z, which would split the words of
    most languages.
    """

    def __init__(self, tokenizer: Tokenizer):
        special = set(vars(tokenizer.special_ids).values()) - {tokenizer.special_ids.unk}
        starts, opens, marks, spaces = np.zeros((4, len(tokenizer)), dtype=bool)
        for index, token in enumerate(tokenizer.vocabulary):
            if tokenizer.marks_continuations:
                starts[index] = not token.startswith(CONTINUATION_PREFIX)
                continue
            bare = token.removeprefix(WORD_START)
            mark = bool(bare) and all(unicodedata.category(one)[0] in "PS" for one in bare)
            starts[index] = bare != token or mark or index in special or is_spaceless(bare[:1])
            marks[index], spaces[index] = mark, token == WORD_START
            opens[index] = mark and bare != token
        self._is_start, self._is_opening_mark, self._is_mark, self._is_space = starts, opens, marks, spaces

    def starts(self, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether each token of a text begins a word [tokens]."""
        starts: NDArray[np.bool_] = self._is_start[ids]
        starts[1:] |= self._is_opening_mark[ids[:-1]]
        starts[2:] |= self._is_space[ids[:-2]] & self._is_mark[ids[1:-1]]
        starts[:1] = True
        return starts

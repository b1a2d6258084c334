"""Encodes large amounts of text: each distinct word is encoded once, and its ids are cached.

Text is encoded as a whole if the pipeline may look beyond a word (a `tokenizer.json` can hold any
pipeline), or if the text has characters that only Python treats as spaces. The ids are the
same either way, with one rare exception: if a vocabulary keeps accents, a combining mark after a
space that is not ASCII has a token only where words are encoded one by one.
Special tokens never result from text: "[MASK]" in a book is ordinary text.

See docs/decisions/word-by-word-encoding.md.
"""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.text.backends import CONTINUATION_PREFIX, WORD_START
from albertine.text.byte_tokens import decode_characters
from albertine.text.spaceless_scripts import is_spaceless
from albertine.text.tokenizer import Tokenizer

_CACHE_SIZE = 1 << 20  # words
_MAX_CACHED_LENGTH = 40  # longer "words" are sentences of a script without spaces, which do not repeat
_BATCH_LENGTH = 1 << 20  # characters that the backend encodes at a time; it takes up to 200 bytes for each
_AMBIGUOUS_SPACES = "\x0b\x0c\x1c\x1d\x1e\x1f\x85\u2028\u2029"  # spaces in Python, not in every pipeline
# Normalizers that give a word the same result with and without the words around it.
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
        self._is_word_local = is_word_local(tokenizer.pipeline())

    def encode(self, texts: Sequence[str]) -> tuple[NDArray[Any], NDArray[np.int64]]:
        """Return the concatenated ids of all texts [tokens], and the number of ids of each text [texts]."""
        if not self._is_word_local or any(space in text for space in _AMBIGUOUS_SPACES for text in texts):
            encoded = [ids for _, ids in self._encode_batches(texts)]
        else:
            encoded = self._encode_words([text.split() for text in texts])
        counts = np.fromiter(map(len, encoded), np.int64, len(encoded)) // self.dtype.itemsize
        return np.frombuffer(b"".join(encoded), self.dtype), counts

    def _encode_words(self, texts: list[list[str]]) -> list[bytes]:
        """Return the ids of each text, given as words, as bytes, which are faster to join than arrays."""
        cache = self._cache
        new_words = [word for word in set(chain.from_iterable(texts)) if word not in cache]
        cache.update(self._encode_batches(new_words))
        encoded = [b"".join(map(cache.__getitem__, words)) for words in texts]
        for word in new_words:
            if len(word) > _MAX_CACHED_LENGTH:
                del cache[word]
        if len(cache) > _CACHE_SIZE:
            cache.clear()
        return encoded

    def _encode_batches(self, texts: Iterable[str]) -> Iterator[tuple[str, bytes]]:
        """Yield each text with its ids; the memory depends on the longest text, not on their number."""
        for batch in _batches(texts):
            for text, ids in zip(batch, self._tokenizer.encode_batch(batch), strict=True):
                yield text, self._to_bytes(ids)

    def _to_bytes(self, ids: list[int]) -> bytes:
        # Special tokens have a high probability in a unigram vocabulary, so text can still match "<pad>".
        if not self._special_ids.isdisjoint(ids):
            unk = self._tokenizer.special_ids.unk
            ids = [unk if token_id in self._special_ids else token_id for token_id in ids]
        return np.array(ids, self.dtype).tobytes()


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    """Yield texts in batches of at most `_BATCH_LENGTH` characters; a longer text is a batch by itself."""
    batch: list[str] = []
    length = 0
    for text in texts:
        if batch and length + len(text) > _BATCH_LENGTH:
            yield batch
            batch, length = [], 0
        batch.append(text)
        length += len(text)
    if batch:
        yield batch


def is_word_local(backend: dict[str, Any]) -> bool:
    """Return whether the ids of any text are those of its space-separated words, one word after another.

    Args:
        backend: content of a `tokenizer.json`.
    """
    normalizers, pre_tokenizers = _components(backend["normalizer"]), _components(backend["pre_tokenizer"])
    pre_tokenizer_types = [component["type"] for component in pre_tokenizers]
    splits_words = pre_tokenizer_types == ["BertPreTokenizer"] or (
        pre_tokenizer_types == ["WhitespaceSplit", "Metaspace"]
        and pre_tokenizers[1]["prepend_scheme"] == "always"
    )
    # Added tokens that are not special are matched in the whole text, so they may span several words.
    only_special_added = all(token["special"] for token in backend["added_tokens"])
    return (
        splits_words
        and only_special_added
        and all(component["type"] in _WORD_LOCAL_NORMALIZERS for component in normalizers)
    )


def _components(component: dict[str, Any] | None) -> list[dict[str, Any]]:
    """Return the parts of a sequence of components, a single component as a list, or an empty list."""
    if component is None:
        return []
    inner = component.get("normalizers", component.get("pretokenizers"))
    return [component] if inner is None else inner


class WordBoundaries:
    """Finds the tokens that begin a word, for whole-word masking.

    A word begins after a space. A punctuation mark is a word by itself. The token after a mark that
    follows a space, such as an opening quote, also begins a word. In scripts without spaces each token
    is a word. A character written as byte tokens counts like a token of this character. The reference
    code also starts a word at every token with a letter outside a to z; this class does not, because
    that would split the words of most languages.
    """

    def __init__(self, tokenizer: Tokenizer):
        special_ids = set(vars(tokenizer.special_ids).values()) - {tokenizer.special_ids.unk}
        # By id: tokens that always begin a word, marks after a space, all marks, and the space alone.
        starts, opening_marks, marks, spaces = np.zeros((4, len(tokenizer)), dtype=bool)
        for token_id, token in enumerate(tokenizer.vocabulary):
            if tokenizer.marks_continuations:
                starts[token_id] = not token.startswith(CONTINUATION_PREFIX)
                continue
            bare = token.removeprefix(WORD_START)
            is_mark = bool(bare) and all(map(_is_mark, bare))
            starts[token_id] = bare != token or is_mark or token_id in special_ids or is_spaceless(bare[:1])
            marks[token_id], spaces[token_id] = is_mark, token == WORD_START
            opening_marks[token_id] = is_mark and bare != token
        self._is_start, self._is_opening_mark = starts, opening_marks
        self._is_mark, self._is_space = marks, spaces
        self._byte_values = tokenizer.byte_values

    def starts(self, ids: NDArray[Any]) -> NDArray[np.bool_]:
        """Return whether each token of a text begins a word [tokens]."""
        starts: NDArray[np.bool_] = self._is_start[ids]
        starts[1:] |= self._is_opening_mark[ids[:-1]]
        starts[2:] |= self._is_space[ids[:-2]] & self._is_mark[ids[1:-1]]
        if self._byte_values is not None:
            self._add_starts_in_bytes(ids, self._byte_values[ids], starts)
        starts[:1] = True
        return starts

    def _add_starts_in_bytes(
        self, ids: NDArray[Any], values: NDArray[Any], starts: NDArray[np.bool_]
    ) -> None:
        """Mark the words that begin at a character written as bytes, or after a mark written as bytes."""
        positions, sizes, codes = decode_characters(values)
        distinct, indices = np.unique(codes, return_inverse=True)
        marks = np.array([_is_mark(chr(code)) for code in distinct], bool)[indices]
        spaceless = np.array([is_spaceless(chr(code)) for code in distinct], bool)[indices]
        starts[positions[marks | spaceless]] = True
        follows_space = self._is_space[ids[positions - 1]] & (positions > 0)
        after_marks = (positions + sizes)[marks & follows_space]
        starts[after_marks[after_marks < len(starts)]] = True


def _is_mark(character: str) -> bool:
    """Return whether a character is punctuation or a symbol."""
    return unicodedata.category(character)[0] in "PS"


def spaced_word_starts(tokenizer: Tokenizer) -> NDArray[np.bool_]:
    """Return whether each token of the vocabulary begins a word, where spaces separate words [vocab_size].

    A mark belongs to the word that it is attached to, except in a BERT vocabulary, whose pipeline splits
    marks off. These are the words that the pipeline itself forms, and so those of other libraries. Tokens
    in scripts without spaces are words, too: otherwise a sentence would be one word.
    """
    if tokenizer.marks_continuations:
        starts = [not token.startswith(CONTINUATION_PREFIX) for token in tokenizer.vocabulary]
    else:
        starts = [token.startswith(WORD_START) or is_spaceless(token[:1]) for token in tokenizer.vocabulary]
    return np.array(starts, bool)

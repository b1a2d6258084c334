"""Tokens as readable text, without the markers of their vocabulary; and tokens that are whole words."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.text.backends import CONTINUATION_PREFIX, WORD_START
from albertine.text.scripts import is_spaceless
from albertine.text.tokenizer import Tokenizer
from albertine.text.word_encoder import WordBoundaries

_MIN_LETTERS = 3  # of a word that is worth predicting


def split_marker(token: str, previous: str, *, marks_continuations: bool) -> tuple[str, str]:
    """Return the separator before a token, and the token without its marker.

    The separator is a space, a slash within a word, or empty.

    Args:
        token: token of the vocabulary.
        previous: character before the token; a space if there is none.
        marks_continuations: whether the vocabulary marks tokens that continue a word, as BERT's does.
    """
    if token.startswith(WORD_START):
        return " ", token.removeprefix(WORD_START) or WORD_START
    if token.startswith(CONTINUATION_PREFIX):
        return "/", token.removeprefix(CONTINUATION_PREFIX)
    is_word = token[:1].isalnum()
    if previous == " " or token[:1] in ("[", "<") or (marks_continuations and is_word):
        return " ", token
    return ("/" if is_word and previous.isalnum() else ""), token


def token_text(token: str, tokenizer: Tokenizer) -> str:
    """Return a token without its marker; with a leading hyphen if it continues a word."""
    separator, bare = split_marker(token, "x", marks_continuations=tokenizer.marks_continuations)
    return f"-{bare}" if separator == "/" and not is_spaceless(bare[:1]) else bare


class WholeWordTokens:
    """Finds tokens that are whole words: of at least `_MIN_LETTERS` letters, or of a script without spaces.

    Attributes:
        is_word: whether each token can be a whole word [vocab_size].
    """

    def __init__(self, tokenizer: Tokenizer):
        self._boundaries = WordBoundaries(tokenizer)
        self.is_word = np.array([_is_word(token_text(piece, tokenizer)) for piece in tokenizer.vocabulary])

    def positions(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Return the positions of tokens where a word begins and the next token begins another [found]."""
        starts = self._boundaries.starts(ids)
        alone = starts & np.append(starts[1:], True)
        return np.flatnonzero(alone & self.is_word[ids])


def _is_word(text: str) -> bool:
    return text.isalpha() and (len(text) >= _MIN_LETTERS or is_spaceless(text[:1]))

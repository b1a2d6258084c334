"""How a piece reads, without the marks of its vocabulary; and which pieces are words by themselves."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.text.backends import CONTINUATION_PREFIX, WORD_START
from albertine.text.scripts import is_spaceless
from albertine.text.tokenizer import Tokenizer
from albertine.text.word_encoder import WordBoundaries

_MIN_LETTERS = 3  # of a word that is worth asking for


def split_marker(token: str, previous: str, *, marks_continuations: bool) -> tuple[str, str]:
    """Return what parts a piece from the character before it, and the piece without its marks.

    That is a space, a slash where a word goes on, or nothing.

    Args:
        token: as the vocabulary has it.
        previous: the last character before it; a space where there is none.
        marks_continuations: whether the vocabulary marks pieces that go on with a word, as BERT's does.
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
    """Return a piece without its marks, with a hyphen where it goes on with a word."""
    separator, bare = split_marker(token, "x", marks_continuations=tokenizer.marks_continuations)
    return f"-{bare}" if separator == "/" and not is_spaceless(bare[:1]) else bare


class WholeWordTokens:
    """Tells which pieces are words by themselves, and long enough to ask for.

    Attributes:
        is_word: for each piece, whether it may be one.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._boundaries = WordBoundaries(tokenizer)
        self.is_word = np.array([_is_word(token_text(piece, tokenizer)) for piece in tokenizer.vocabulary])

    def positions(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Return the places of whole words in a text: one begins there, and another with the next piece."""
        starts = self._boundaries.starts(ids)
        alone = starts & np.append(starts[1:], True)
        return np.flatnonzero(alone & self.is_word[ids])


def _is_word(text: str) -> bool:
    return text.isalpha() and (len(text) >= _MIN_LETTERS or is_spaceless(text[:1]))

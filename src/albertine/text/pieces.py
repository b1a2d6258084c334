"""How a piece reads, without the marks of its vocabulary; and which pieces are words by themselves."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.text.pipelines import WORD_REST, WORD_START
from albertine.text.scripts import is_spaceless
from albertine.text.tokenizer import Tokenizer
from albertine.text.words import WordStarts

_LEAST_LETTERS = 3  # of a word that is worth asking for


def parted(piece: str, after: str, *, rest_is_marked: bool) -> tuple[str, str]:
    """Return what parts a piece from the character before it, and the piece without its marks.

    That is a space, a slash where a word goes on, or nothing.

    Args:
        piece: as the vocabulary has it.
        after: the last character before it; a space where there is none.
        rest_is_marked: whether the vocabulary marks pieces that go on with a word, as BERT's does.
    """
    if piece.startswith(WORD_START):
        return " ", piece.removeprefix(WORD_START) or WORD_START
    if piece.startswith(WORD_REST):
        return "/", piece.removeprefix(WORD_REST)
    is_word = piece[:1].isalnum()
    if after == " " or piece[:1] in ("[", "<") or (rest_is_marked and is_word):
        return " ", piece
    return ("/" if is_word and after.isalnum() else ""), piece


def plain(piece: str, tokenizer: Tokenizer) -> str:
    """Return a piece without its marks, with a hyphen where it goes on with a word."""
    before, bare = parted(piece, "x", rest_is_marked=tokenizer.marks_rest)
    return f"-{bare}" if before == "/" and not is_spaceless(bare[:1]) else bare


class WholeWords:
    """Tells which pieces are words by themselves, and long enough to ask for.

    Attributes:
        known: for each piece, whether it may be one.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._starts = WordStarts(tokenizer)
        self.known = np.array([_is_word(plain(piece, tokenizer)) for piece in tokenizer.pieces])

    def of(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Return the places of whole words in a text: one begins there, and another with the next piece."""
        starts = self._starts.of(ids)
        alone = starts & np.append(starts[1:], True)
        return np.flatnonzero(alone & self.known[ids])


def _is_word(said: str) -> bool:
    return said.isalpha() and (len(said) >= _LEAST_LETTERS or is_spaceless(said[:1]))

"""Formats tokens for display, and finds tokens that are whole words.

A vocabulary marks the tokens that begin a word (ALBERT) or continue one (BERT). Display omits these markers.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.text.backends import CONTINUATION_PREFIX, WORD_START
from albertine.text.byte_tokens import is_byte_token
from albertine.text.spaceless_scripts import is_spaceless
from albertine.text.tokenizer import Tokenizer
from albertine.text.word_encoder import WordBoundaries

LONE_SPACE = "␣"  # shown for a token that is only the space before a word
_MIN_LETTERS = 3  # shorter words are not interesting to predict


def split_marker(token: str, previous: str, *, marks_continuations: bool) -> tuple[str, str]:
    """Return the separator before a token, and the token without its marker.

    The separator is a space, a slash within a word, or empty.

    Args:
        token: token of the vocabulary.
        previous: last character before the token; a space if there is none.
        marks_continuations: whether the vocabulary marks tokens that continue a word, as BERT's does.
            Then a token without a marker begins a word.
    """
    if token.startswith(WORD_START):
        return " ", token.removeprefix(WORD_START) or LONE_SPACE
    if token.startswith(CONTINUATION_PREFIX):
        return "/", token.removeprefix(CONTINUATION_PREFIX)
    if is_byte_token(token):
        return "/", token
    starts_alphanumeric = token[:1].isalnum()
    if previous == " " or token[:1] in ("[", "<") or (marks_continuations and starts_alphanumeric):
        return " ", token
    continues_word = previous.isalnum() or previous == WORD_START
    return ("/" if starts_alphanumeric and continues_word else ""), token


def token_text(token: str, tokenizer: Tokenizer) -> str:
    """Return a token without its marker; with a leading hyphen if it continues a word."""
    # Any letter serves as the character before, so that "/" separates a token that continues a word.
    separator, bare = split_marker(token, "x", marks_continuations=tokenizer.marks_continuations)
    return f"-{bare}" if separator == "/" and not is_spaceless(bare[:1]) else bare


class WholeWordTokens:
    """Finds tokens that are whole words: of at least `_MIN_LETTERS` letters, or of a script without spaces.

    Attributes:
        is_word: whether each token of the vocabulary can be a whole word [vocab_size]. In a text it may
            still be a part of one: see `positions`.
    """

    def __init__(self, tokenizer: Tokenizer):
        self._boundaries = WordBoundaries(tokenizer)
        self.is_word = np.array([_is_word(token_text(token, tokenizer)) for token in tokenizer.vocabulary])

    def positions(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Return the positions of the tokens of a text that are whole words [words]."""
        starts = self._boundaries.starts(ids)
        is_single_token = starts & np.append(starts[1:], True)  # the next token begins another word
        return np.flatnonzero(is_single_token & self.is_word[ids])


def _is_word(text: str) -> bool:
    return text.isalpha() and (len(text) >= _MIN_LETTERS or is_spaceless(text[:1]))

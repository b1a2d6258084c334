"""Byte tokens, "<0x00>" to "<0xFF>": one for each byte of a character that has no token (byte fallback).

A vocabulary with all 256 of them can write any text in UTF-8.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

_VALUES = {f"<0x{byte:02X}>": byte for byte in range(256)}
_LEAD_BYTE_BITS = np.array([0x7F, 0x1F, 0x0F, 0x07])  # of the code point, by number of bytes - 1


def is_byte_token(token: str) -> bool:
    """Return whether a token stands for a byte."""
    return token in _VALUES


def byte_values(vocabulary: Iterable[str]) -> NDArray[np.int64]:
    """Return the byte of each token of a vocabulary, -1 for other tokens [vocab_size]."""
    return np.array([_VALUES.get(token, -1) for token in vocabulary], np.int64)


def with_low_byte_scores(vocabulary: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """Return a unigram vocabulary with scores at which no text matches a byte token.

    Byte fallback ignores scores. SentencePiece never searches for byte tokens in text, but the library
    `tokenizers` does: "<0x41>" in a text would become the byte of "A". Six single characters must
    therefore have a higher score than a byte token.
    """
    lowest = min(score for _, score in vocabulary)
    low = len("<0x00>") * lowest - 1
    return [(token, low if token in _VALUES else score) for token, score in vocabulary]


def decode_characters(values: NDArray[np.int64]) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return first position, number of bytes and code point of each character in byte tokens [characters].

    Args:
        values: the byte of each token of a text, -1 for other tokens [tokens].
    """
    positions = np.flatnonzero((values >= 0) & (values & 0xC0 != 0x80))  # not in continuation bytes
    leads = values[positions]
    sizes = 1 + (leads >= 0xC0) + (leads >= 0xE0) + (leads >= 0xF0)
    codes = leads & _LEAD_BYTE_BITS[sizes - 1]
    padded = np.append(values, [0, 0, 0])
    for index in (1, 2, 3):
        codes = np.where(sizes > index, codes << 6 | padded[positions + index] & 0x3F, codes)
    return positions, sizes, np.minimum(codes, 0x10FFFF)  # arbitrary bytes may exceed the last code point


def split_byte_offsets(
    text: str,
    ids: Sequence[int],
    offsets: Sequence[tuple[int, int]],
    values: NDArray[np.int64],
    normalize: Callable[[str], str],
) -> list[tuple[int, int]]:
    """Return the offsets of the tokens of a text, where a byte token has the offsets of its character.

    The backend gives a byte token the offsets of the whole run of characters that have no token.

    Args:
        text: the text before normalization.
        ids: ids of the tokens.
        offsets: start and end of each token in the text, from the backend.
        values: the byte of each token of the vocabulary, -1 for other tokens.
        normalize: the normalization of the tokenizer.
    """
    split = list(offsets)
    byte_positions = [position for position, token_id in enumerate(ids) if values[token_id] >= 0]
    for (start, end), group in groupby(byte_positions, key=lambda position: offsets[position]):
        run = list(group)
        characters = [
            (index, index + 1) for index in range(start, end) for _ in normalize(text[index]).encode()
        ]
        # Unequal if a character is normalized differently within the text: the run then keeps its offsets.
        if len(characters) == len(run):
            split[run[0] : run[-1] + 1] = characters
    return split

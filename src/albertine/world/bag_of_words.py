"""The bag-of-words features of the little world's tasks: words and bigrams.

The baseline sees no word order beyond bigrams, so a task that it nearly solves needs no
language model. For a pair of texts the features are the n-grams of each text and those
that both share.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from albertine.linear_models import SparseRows

_WORD = re.compile(r"[^\W_]+(?:['-][^\W_]+)*|[^\w\s]")


def features(texts: Sequence[str]) -> list[str]:
    """Return the features of an example.

    One text has its n-grams as features. Several texts have the n-grams of each, with the
    index of the text before them, and those that all share, with "both:" before them.
    """
    bags = [ngrams(text) for text in texts]
    if len(bags) == 1:
        return sorted(bags[0])
    indexed_ngrams = [f"{index}:{ngram}" for index, bag in enumerate(bags) for ngram in sorted(bag)]
    return indexed_ngrams + [f"both:{ngram}" for ngram in sorted(set.intersection(*bags))]


def ngrams(text: str) -> set[str]:
    """Return the words and bigrams of a text."""
    words = _WORD.findall(text.lower())
    return {*words, *(f"{first} {second}" for first, second in pairwise(words))}


def feature_index(rows: Sequence[Sequence[str]]) -> dict[str, int]:
    """Return the column index of every feature that occurs in the rows."""
    return {name: column for column, name in enumerate(sorted({name for row in rows for name in row}))}


def sparse_rows(rows: Sequence[Sequence[str]], index: dict[str, int]) -> SparseRows:
    """Return rows of features as a binary matrix with a bias column; drop features not in the index."""
    bias_column = len(index)
    columns = [[*(index[name] for name in row if name in index), bias_column] for row in rows]
    flat = np.array([column for row in columns for column in row], np.int32)
    starts = np.append(0, np.cumsum([len(row) for row in columns])).astype(np.int64)
    return SparseRows(flat, np.ones(len(flat), np.float32), starts, bias_column + 1)

"""The features of an example: TF-IDF of its text; of a pair, how the texts differ and overlap."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from albertine import progress
from albertine.linear_models import SparseRows
from albertine.tasks.baseline.tfidf import Integers, TfidfEntries, TfidfVocabulary, text_counts, unigram_keys
from albertine.tasks.examples import TextExample, example_chunks

Numbers: TypeAlias = NDArray[np.float64]

FEATURE_CHUNK = 1 << 14  # examples whose features are computed at once
_MAX_CHARACTERS = 1 << 16  # of a text; the rest is not read
_PAIR_BLOCKS = 3  # of columns, each with one for every n-gram
_NUM_OVERLAPS = 7


class TextFeatures:
    """Turns examples into rows of features, with the vocabulary of the training examples.

    One text has the TF-IDF of its n-grams. A pair has that of its second text, the absolute
    difference of both, their product, and a few numbers that say how much they have in common.

    Attributes:
        vocabulary: the n-grams of the training examples.
        is_pair: whether the training examples have two texts.
        width: number of columns, with that of the bias.
    """

    def __init__(self, examples: Sequence[TextExample], max_width: int):
        """Count the n-grams of training examples.

        Args:
            examples: the training examples.
            max_width: maximum number of columns that belong to n-grams.
        """
        self.is_pair = any(len(example.texts) > 1 for example in examples)
        texts = (
            _texts(chunk, index)
            for chunk in example_chunks(examples, FEATURE_CHUNK)
            for index in range(1 + self.is_pair)
        )
        num_blocks = _PAIR_BLOCKS if self.is_pair else 1
        self.vocabulary = TfidfVocabulary(texts, max_width // num_blocks)
        self.width = num_blocks * self.vocabulary.width + self.is_pair * _NUM_OVERLAPS + 1

    def rows(self, examples: Sequence[TextExample]) -> SparseRows:
        """Return the features of at least one example."""
        chunks = [
            self._chunk_rows(chunk)
            for chunk in progress.track(
                list(example_chunks(examples, FEATURE_CHUNK)), "Bag of words", unit="chunks"
            )
        ]
        counts, columns, values = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
        return SparseRows(columns, values, np.append(0, counts.cumsum()), self.width)

    def _chunk_rows(
        self, examples: Sequence[TextExample]
    ) -> tuple[Integers, NDArray[np.int32], NDArray[np.float32]]:
        """Return the number of entries of each row, and the column and the value of each entry."""
        blocks = list(self._pair_blocks(examples) if self.is_pair else self._text_blocks(examples))
        indices = np.arange(len(examples))
        blocks.append(TfidfEntries(indices, np.full_like(indices, self.width - 1), np.ones(len(examples))))
        rows, columns, values = (
            np.concatenate([getattr(block, name) for block in blocks])
            for name in ("text_indices", "columns", "values")
        )
        order = np.argsort(rows, kind="stable")
        counts = np.bincount(rows, minlength=len(examples))
        return counts, columns[order].astype(np.int32), values[order].astype(np.float32)

    def _text_blocks(self, examples: Sequence[TextExample]) -> Iterator[TfidfEntries]:
        yield self.vocabulary.entries(self.vocabulary.ngram_keys(_texts(examples, 0)), len(examples))

    def _pair_blocks(self, examples: Sequence[TextExample]) -> Iterator[TfidfEntries]:
        """Yield blocks of entries with the columns that they have in the rows."""
        keys = [self.vocabulary.ngram_keys(_texts(examples, index)) for index in (0, 1)]
        first, second = (self.vocabulary.entries(one, len(examples)) for one in keys)
        width = self.vocabulary.width
        product = _product(first, second, width)
        for number, block in enumerate((second, _absolute_difference(first, second, width), product)):
            yield TfidfEntries(block.text_indices, number * width + block.columns, block.values)
        cosines = np.bincount(product.text_indices, product.values, len(examples))
        words_in_common = _overlaps(unigram_keys(keys[0]), unigram_keys(keys[1]), len(examples))
        overlaps = np.column_stack([cosines, *words_in_common]).astype(np.float64)
        rows, numbers = np.nonzero(overlaps)
        yield TfidfEntries(rows, _PAIR_BLOCKS * width + numbers, overlaps[rows, numbers])


def _texts(examples: Sequence[TextExample], index: int) -> list[str]:
    """Return the first or the second text of each example."""
    return ["".join(example.texts[index : index + 1])[:_MAX_CHARACTERS] for example in examples]


def _absolute_difference(first: TfidfEntries, second: TfidfEntries, width: int) -> TfidfEntries:
    """Return the absolute values of the differences of vectors."""
    keys = np.concatenate([_entry_keys(entries, width) for entries in (first, second)])
    distinct, positions = np.unique(keys, return_inverse=True)
    differences = np.bincount(positions, np.concatenate([first.values, -second.values]), len(distinct))
    changed = differences != 0
    texts, columns = np.divmod(distinct[changed], max(1, width))
    return TfidfEntries(texts, columns, np.abs(differences[changed]))


def _product(first: TfidfEntries, second: TfidfEntries, width: int) -> TfidfEntries:
    """Return the products of vectors, entry by entry."""
    _, in_first, in_second = np.intersect1d(
        _entry_keys(first, width), _entry_keys(second, width), assume_unique=True, return_indices=True
    )
    return TfidfEntries(
        first.text_indices[in_first],
        first.columns[in_first],
        first.values[in_first] * second.values[in_second],
    )


def _entry_keys(entries: TfidfEntries, width: int) -> Integers:
    """Return the text and the column of each entry as one integer, `[entries]`."""
    return entries.text_indices * width + entries.columns


def _overlaps(first: Integers, second: Integers, num_pairs: int) -> list[Numbers]:
    """Return numbers from 0 to 1 that say how much the words of two texts have in common, each `[pairs]`.

    They are the shared words as a fraction of all, of those of the first and of the second text; the
    ratio of the numbers of words; whether these are equal; and whether the words are.
    """
    shared = text_counts(np.intersect1d(first, second, assume_unique=True), num_pairs)
    counts = text_counts(first, num_pairs), text_counts(second, num_pairs)
    fewer, more = np.minimum(*counts), np.maximum(*counts)
    denominators = (counts[0] + counts[1] - shared, *counts)
    return [
        *(shared / np.maximum(1, denominator) for denominator in denominators),
        fewer / np.maximum(1, more),
        (fewer == more).astype(np.float64),
        ((shared == fewer) & (shared == more)).astype(np.float64),
    ]

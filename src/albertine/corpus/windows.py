"""Sample windows: the text of each sample, computed without the samples before it.

A document has windows at a stride of `max_text_tokens` tokens, the maximum text of a sample.
Each window gives one sample per epoch. It begins at a sentence and takes whole sentences
until the target length is reached.

A document longer than one window has so many windows that their strides exceed its length by
half a stride or more. In each epoch, all its windows but the first are shifted back by the same
random number of tokens: at most this excess and less than a stride, and at least so many that the last
window begins inside the document. Epochs therefore split a document differently.

See docs/decisions/sample-windows.md.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albertine.corpus.settings import ObjectiveSettings
from albertine.corpus.shards import Shard
from albertine.randomness import Permutation, Stream, integers, random_bits, uniform

Indices = NDArray[np.int64]

MIN_DOCUMENT_TOKENS = 8  # shorter documents give no sample
_BLOCK_DOCUMENTS = 64  # window counts are stored per block of documents
_DOCUMENTS_PER_PASS = _BLOCK_DOCUMENTS << 12  # bounds the memory


@dataclass(frozen=True)
class WindowArrays:
    """Several windows; each attribute is an array [windows].

    Attributes:
        shard: index of the shard.
        document: index of the document in the shard.
        start: position in the shard of the first token.
        stop: position after the last token.
        target_length: number of tokens at which a window stops taking further sentences.
    """

    shard: Indices
    document: Indices
    start: Indices
    stop: Indices
    target_length: Indices


class SampleWindows:
    """The windows of a split, by epoch and index in training order.

    Attributes:
        max_text_tokens: maximum tokens of a sample without the special tokens.
    """

    def __init__(self, shards: list[Shard], objective: ObjectiveSettings):
        self._shards, self._objective = shards, objective
        self.max_text_tokens = objective.max_length - (2 if objective.pair == "none" else 3)
        # Cumulative window counts, per block of a shard and per shard. Counts per document would need
        # 64 times the memory.
        self._block_ends = [self._cumulative_block_counts(index) for index in range(len(shards))]
        self._shard_ends = np.cumsum([block_ends[-1] for block_ends in self._block_ends])

    def __len__(self) -> int:
        return int(self._shard_ends[-1])

    def num_documents(self) -> int:
        """Return the number of documents that have windows."""
        counts = [
            np.count_nonzero(self._windows_per_document(index, np.arange(len(shard.document_offsets) - 1)))
            for index, shard in enumerate(self._shards)
        ]
        return int(sum(counts))

    def _cumulative_block_counts(self, shard_index: int) -> Indices:
        """Return for each block of documents the number of windows up to its end [blocks]."""
        shard = self._shards[shard_index]
        documents = len(shard.document_offsets) - 1
        block_counts = []
        for first in range(0, documents, _DOCUMENTS_PER_PASS):
            counts = self._windows_per_document(
                shard_index, np.arange(first, min(first + _DOCUMENTS_PER_PASS, documents))
            )
            block_counts.append(np.add.reduceat(counts, np.arange(0, len(counts), _BLOCK_DOCUMENTS)))
        return np.concatenate(block_counts).cumsum()

    def _windows_per_document(self, shard_index: int, documents: Indices) -> Indices:
        """Return the number of windows of each document, in the shape of `documents`."""
        offsets, objective = self._shards[shard_index].document_offsets, self._objective
        counts = self._window_counts((offsets[documents + 1] - offsets[documents]).astype(np.int64))
        if objective.text_fraction == 1:
            return counts
        # Without the seed of the samples, so that runs with other seeds have the same text.
        drawn = uniform(random_bits(0, 0, Stream.TEXT_FRACTION, shard_index, documents))
        return np.where(drawn < objective.text_fraction, counts, 0)

    def _window_counts(self, lengths: Indices) -> Indices:
        """Return the number of windows for each document length, in the shape of `lengths`."""
        with_excess = -(-(lengths + self.max_text_tokens // 2) // self.max_text_tokens)
        return np.where(
            lengths >= MIN_DOCUMENT_TOKENS, np.where(lengths > self.max_text_tokens, with_excess, 1), 0
        )

    def lookup(self, epoch: int, indices: Indices) -> WindowArrays:
        """Return the windows at some indices of an epoch's training order."""
        order = Permutation(len(self), int(random_bits(self._objective.seed, epoch, Stream.WINDOW_ORDER)[0]))
        numbers = order[indices]
        shards = np.searchsorted(self._shard_ends, numbers, side="right")
        windows = WindowArrays(*np.empty((5, len(indices)), np.int64))
        for shard_index in np.unique(shards).tolist():
            rows = np.flatnonzero(shards == shard_index)
            shard_numbers = numbers[rows] - (self._shard_ends[shard_index - 1] if shard_index else 0)
            shard_windows = self._shard_windows(shard_index, shard_numbers, epoch)
            for name, values in vars(shard_windows).items():
                getattr(windows, name)[rows] = values
        return windows

    def _shard_windows(self, shard_index: int, numbers: Indices, epoch: int) -> WindowArrays:
        """Return some windows of one shard, given by their number in text order [windows]."""
        shard, seed = self._shards[shard_index], self._objective.seed
        document, window_in_document = self._find_documents(shard_index, numbers)
        document_start, document_end = (
            shard.document_offsets[document + side].astype(np.int64) for side in (0, 1)
        )
        length = document_end - document_start
        excess = self._window_counts(length) * self.max_text_tokens - length
        most = np.minimum(excess, self.max_text_tokens - 1)
        # Without it, the last window would begin beyond the document, or too close to its end.
        least = np.clip(excess - self.max_text_tokens + MIN_DOCUMENT_TOKENS, 0, most)
        shift = least + integers(
            random_bits(seed, epoch, Stream.WINDOW_SLIDE, shard_index, document), most - least + 1
        )
        earliest_start = np.minimum(
            document_start
            + window_in_document * self.max_text_tokens
            - np.where(window_in_document > 0, shift, 0),
            document_end - MIN_DOCUMENT_TOKENS,
        )
        target = self._target_lengths(epoch, shard_index, numbers)
        start = self._window_starts(shard, earliest_start, document_end)
        stop = np.minimum(
            _next_sentence(shard.sentence_starts, start + target, document_end),
            start + target + self.max_text_tokens,  # the last sentence may be very long
        )
        shard_indices = np.full(len(numbers), shard_index)
        return WindowArrays(shard_indices, document, start, np.minimum(stop, document_end), target)

    def _find_documents(self, shard_index: int, numbers: Indices) -> tuple[Indices, Indices]:
        """Return the document of each window, and the window's index in the document [windows]."""
        shard, block_ends = self._shards[shard_index], self._block_ends[shard_index]
        block = np.searchsorted(block_ends, numbers, side="right")
        window_in_block = numbers - np.where(block > 0, block_ends[block - 1], 0)
        # All documents of each window's block, and their window counts [windows, _BLOCK_DOCUMENTS].
        candidates = block[:, None] * _BLOCK_DOCUMENTS + np.arange(_BLOCK_DOCUMENTS)
        documents = len(shard.document_offsets) - 1
        counts = np.where(
            candidates < documents,
            self._windows_per_document(shard_index, np.minimum(candidates, documents - 1)),
            0,
        )
        cumulative = counts.cumsum(axis=1)
        document_in_block = (cumulative <= window_in_block[:, None]).sum(axis=1)
        windows_before = np.take_along_axis(cumulative - counts, document_in_block[:, None], axis=1)[:, 0]
        return block * _BLOCK_DOCUMENTS + document_in_block, window_in_block - windows_before

    def _target_lengths(self, epoch: int, shard_index: int, numbers: Indices) -> Indices:
        """Return the target length of each window [windows].

        It is the maximum length, or with probability `short_seq_prob` a random length.
        """
        objective = self._objective
        full = np.full(len(numbers), self.max_text_tokens)
        if objective.pair == "none":
            return full
        shorter = 2 + integers(
            random_bits(objective.seed, epoch, Stream.SHORT_LENGTHS, shard_index, numbers),
            self.max_text_tokens - 1,
        )
        is_short = (
            uniform(random_bits(objective.seed, epoch, Stream.SHORT_SAMPLES, shard_index, numbers))
            < objective.short_seq_prob
        )
        return np.where(is_short, shorter, full)

    def _window_starts(self, shard: Shard, earliest_start: Indices, document_end: Indices) -> Indices:
        """Return the start of each window [windows].

        It is the first sentence from `earliest_start` on, or the first word if that sentence is too far.
        """
        starts = _next_sentence(shard.sentence_starts, earliest_start, document_end)
        latest_start = np.minimum(earliest_start + self.max_text_tokens, document_end - MIN_DOCUMENT_TOKENS)
        for row in np.flatnonzero(starts > latest_start):
            earliest = int(earliest_start[row])
            stop = min(earliest + self.max_text_tokens, int(document_end[row]) - MIN_DOCUMENT_TOKENS + 1)
            words = np.flatnonzero(shard.word_starts(earliest, stop))
            starts[row] = earliest + (int(words[0]) if len(words) else 0)
        return starts


def _next_sentence(sentence_starts: NDArray[np.uint32], positions: Indices, document_end: Indices) -> Indices:
    """Return the first sentence start at or after each position, or the document's end if there is none."""
    # In the column's type, because numpy would convert the whole column for another one.
    found = np.searchsorted(sentence_starts, positions.astype(sentence_starts.dtype))
    starts = sentence_starts[np.minimum(found, len(sentence_starts) - 1)].astype(np.int64)
    return np.where((found < len(sentence_starts)) & (starts < document_end), starts, document_end)

"""Sample windows: the text of each sample, computed without the samples before it.

A document has one window per stride of `max_text_tokens` tokens, the most text that a
sample holds. Each window gives one sample per epoch. It starts at a sentence and takes
whole sentences until the target length is reached. Windows cover at least half a stride
more than the document; in each epoch all windows but the first are shifted back by another
random part of this excess, so that epochs split a document differently.

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


@dataclass(frozen=True)
class WindowArrays:
    """Some windows, as arrays [windows].

    Attributes:
        shard: index of the shard.
        document: index of the document in the shard.
        start: position of the first token in the shard.
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
        # Cumulative window counts per block: one number for 64 documents is all that is kept in memory.
        self._block_ends = [self._count_blocks(shard) for shard in shards]
        self._shard_ends = np.cumsum([one[-1] for one in self._block_ends])

    def __len__(self) -> int:
        return int(self._shard_ends[-1])

    def _count_blocks(self, shard: Shard) -> Indices:
        documents = len(shard.document_offsets) - 1
        ends = [
            np.add.reduceat(counts, np.arange(0, len(counts), _BLOCK_DOCUMENTS))
            for counts in (
                self._document_windows(
                    shard, np.arange(base, min(base + (_BLOCK_DOCUMENTS << 12), documents))
                )
                for base in range(0, documents, _BLOCK_DOCUMENTS << 12)
            )
        ]
        return np.concatenate(ends).cumsum()

    def _document_windows(self, shard: Shard, documents: Indices) -> Indices:
        """Return the number of windows of each document [documents]."""
        lengths = (shard.document_offsets[documents + 1] - shard.document_offsets[documents]).astype(np.int64)
        return self._window_counts(lengths)

    def _window_counts(self, lengths: Indices) -> Indices:
        """Return the number of windows for each document length: one, or enough to be shifted [documents]."""
        sliding = -(-(lengths + self.max_text_tokens // 2) // self.max_text_tokens)
        return np.where(
            lengths >= MIN_DOCUMENT_TOKENS, np.where(lengths > self.max_text_tokens, sliding, 1), 0
        )

    def lookup(self, epoch: int, indices: Indices) -> WindowArrays:
        """Return the windows at some indices of an epoch's training order."""
        index = Permutation(len(self), int(random_bits(self._objective.seed, epoch, Stream.WINDOW_ORDER)[0]))[
            indices
        ]
        shards = np.searchsorted(self._shard_ends, index, side="right")
        windows = WindowArrays(*np.empty((5, len(indices)), np.int64))
        for shard_index in np.unique(shards).tolist():
            rows = np.flatnonzero(shards == shard_index)
            local = index[rows] - (self._shard_ends[shard_index - 1] if shard_index else 0)
            for row, values in zip(
                vars(windows).values(), self._shard_windows(shard_index, local, epoch), strict=True
            ):
                row[rows] = values
        return windows

    def _shard_windows(self, shard_index: int, index: Indices, epoch: int) -> tuple[Indices, ...]:
        """Return the fields of `WindowArrays` for some windows of one shard."""
        shard, seed = self._shards[shard_index], self._objective.seed
        document, window_in_document = self._find_documents(shard_index, index)
        document_start, document_end = (
            shard.document_offsets[document + side].astype(np.int64) for side in (0, 1)
        )
        slack = self._window_counts(document_end - document_start) * self.max_text_tokens - (
            document_end - document_start
        )
        slide = integers(
            random_bits(seed, epoch, Stream.WINDOW_SLIDE, shard_index, document),
            np.minimum(slack + 1, self.max_text_tokens),
        )
        anchor = np.minimum(
            document_start
            + window_in_document * self.max_text_tokens
            - np.where(window_in_document > 0, slide, 0),
            document_end - MIN_DOCUMENT_TOKENS,
        )
        target = self._target_lengths(epoch, shard_index, index)
        start = self._window_starts(shard, anchor, document_end)
        stop = np.minimum(
            _next_sentence(shard.sentence_starts, start + target, document_end),
            start + target + self.max_text_tokens,
        )
        return np.full(len(index), shard_index), document, start, np.minimum(stop, document_end), target

    def _find_documents(self, shard_index: int, index: Indices) -> tuple[Indices, Indices]:
        """Return the document of each window, and the window's index in the document [windows]."""
        shard, ends = self._shards[shard_index], self._block_ends[shard_index]
        block = np.searchsorted(ends, index, side="right")
        within = index - np.where(block > 0, ends[block - 1], 0)
        candidates = block[:, None] * _BLOCK_DOCUMENTS + np.arange(_BLOCK_DOCUMENTS)
        documents = len(shard.document_offsets) - 1
        counts = np.where(
            candidates < documents, self._document_windows(shard, np.minimum(candidates, documents - 1)), 0
        )
        cumulative = counts.cumsum(axis=1)
        nth = (cumulative <= within[:, None]).sum(axis=1)
        before = np.take_along_axis(cumulative - counts, nth[:, None], axis=1)[:, 0]
        return block * _BLOCK_DOCUMENTS + nth, within - before

    def _target_lengths(self, epoch: int, shard_index: int, index: Indices) -> Indices:
        """Return the target length of each window: full, or with `short_seq_prob` a random one [windows]."""
        objective = self._objective
        full = np.full(len(index), self.max_text_tokens)
        if objective.pair == "none":
            return full
        shorter = 2 + integers(
            random_bits(objective.seed, epoch, Stream.SHORT_LENGTHS, shard_index, index),
            self.max_text_tokens - 1,
        )
        short = (
            uniform(random_bits(objective.seed, epoch, Stream.SHORT_SAMPLES, shard_index, index))
            < objective.short_seq_prob
        )
        return np.where(short, shorter, full)

    def _window_starts(self, shard: Shard, anchor: Indices, end: Indices) -> Indices:
        """Return the start of each window: the next sentence, or a word if the sentence is very long."""
        starts = _next_sentence(shard.sentence_starts, anchor, end)
        for at in np.flatnonzero(
            starts > np.minimum(anchor + self.max_text_tokens, end - MIN_DOCUMENT_TOKENS)
        ):
            start, stop = int(anchor[at]), int(end[at])
            words = np.flatnonzero(
                shard.word_starts(start, min(start + self.max_text_tokens, stop - MIN_DOCUMENT_TOKENS + 1))
            )
            starts[at] = start + (int(words[0]) if len(words) else 0)
        return starts


def _next_sentence(sentences: NDArray[np.uint32], indices: Indices, end: Indices) -> Indices:
    """Return the first sentence start at or after each index, or the document's end if there is none."""
    # Same type as the column: numpy would convert the whole column otherwise.
    found = np.searchsorted(sentences, indices.astype(sentences.dtype))
    starts = sentences[np.minimum(found, len(sentences) - 1)].astype(np.int64)
    return np.where((found < len(sentences)) & (starts < end), starts, end)

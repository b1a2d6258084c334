"""Where samples lie: every document is covered by windows, one sample to a window and epoch.

The reference code walks through a document and makes each next sample of the
sentences that follow. Here the walk is laid out beforehand, so that any sample can
be had without those before it: a document of D pieces has a window for every
`stride` of them, which is as much text as a sample holds. A window begins with a
sentence and takes sentences until there are enough; one that is cut short at random
leaves the rest of its stride to another epoch. There are windows for at least half a
stride more than a document has; by a random part of that, all but the first slide
back, another part in each epoch, so that no two epochs cut a document alike.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from albertine.corpus.settings import ObjectiveSettings
from albertine.corpus.shards import Shard
from albertine.randomness import Permutation, integers, random_bits, uniform

Indices = NDArray[np.int64]

MIN_DOCUMENT_TOKENS = 8  # a shorter document gives no sample
_BLOCK_DOCUMENTS = 64  # documents whose windows are counted together
# What the hash is asked for.
_ORDER_STREAM, _SLIDE_STREAM, _SHORT_STREAM, _TARGET_STREAM = range(4)


@dataclass(frozen=True)
class WindowArrays:
    """Some windows, a row of numbers for each thing that is known of them.

    Attributes:
        shard: number of the shard.
        document: number of the document in it.
        start: place of the first piece in the shard.
        stop: place after the last piece.
        target_length: how many pieces are wanted; sentences are gathered until there are as many.
    """

    shard: Indices
    document: Indices
    start: Indices
    stop: Indices
    target_length: Indices


class SampleWindows:
    """The windows of a split, by epoch and place in the order of training."""

    def __init__(self, shards: list[Shard], objective: ObjectiveSettings):
        self._shards, self._objective = shards, objective
        self.max_text_tokens = objective.max_length - (2 if objective.pair == "none" else 3)
        # How many windows end with each block of documents: all that is kept in memory, and it is little.
        self._blocks = [self._count_blocks(shard) for shard in shards]
        self._shard_ends = np.cumsum([one[-1] for one in self._blocks])

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
        """Count the windows of documents."""
        lengths = (shard.document_offsets[documents + 1] - shard.document_offsets[documents]).astype(np.int64)
        return self._window_counts(lengths)

    def _window_counts(self, lengths: Indices) -> Indices:
        """Return how many windows documents of some lengths have: one, or enough to slide."""
        sliding = -(-(lengths + self.max_text_tokens // 2) // self.max_text_tokens)
        return np.where(
            lengths >= MIN_DOCUMENT_TOKENS, np.where(lengths > self.max_text_tokens, sliding, 1), 0
        )

    def lookup(self, epoch: int, indices: Indices) -> WindowArrays:
        """Return the windows at some places of an epoch's order."""
        index = Permutation(len(self), int(random_bits(self._objective.seed, epoch, _ORDER_STREAM)[0]))[
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
        """Work out windows of one shard: documents, anchors, then sentences."""
        shard, seed = self._shards[shard_index], self._objective.seed
        document, window_in_document = self._find_documents(shard_index, index)
        document_start, document_end = (
            shard.document_offsets[document + side].astype(np.int64) for side in (0, 1)
        )
        slack = self._window_counts(document_end - document_start) * self.max_text_tokens - (
            document_end - document_start
        )
        slide = integers(
            random_bits(seed, epoch, _SLIDE_STREAM, shard_index, document),
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
        """Find the document of each window, and which of the document's it is."""
        shard, ends = self._shards[shard_index], self._blocks[shard_index]
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
        """Draw how long samples shall be: full, or now and then anything shorter."""
        objective = self._objective
        full = np.full(len(index), self.max_text_tokens)
        if objective.pair == "none":
            return full
        shorter = 2 + integers(
            random_bits(objective.seed, epoch, _TARGET_STREAM, shard_index, index), self.max_text_tokens - 1
        )
        short = (
            uniform(random_bits(objective.seed, epoch, _SHORT_STREAM, shard_index, index))
            < objective.short_seq_prob
        )
        return np.where(short, shorter, full)

    def _window_starts(self, shard: Shard, anchor: Indices, end: Indices) -> Indices:
        """Return where windows begin: with the next sentence, or with a word of one that is very long."""
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
    """Return where the first sentence begins at or after each place; the document's end if there is none."""
    # Of the same type as the column, or all of it would be converted to look for one place.
    found = np.searchsorted(sentences, indices.astype(sentences.dtype))
    starts = sentences[np.minimum(found, len(sentences) - 1)].astype(np.int64)
    return np.where((found < len(sentences)) & (starts < end), starts, end)

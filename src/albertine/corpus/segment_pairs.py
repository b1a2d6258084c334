"""Pairs: two segments out of a window, as SOP, NSP or neither wants them.

A window's sentences are cut in two after a random one. Sentence-order prediction
keeps the halves or swaps them, with equal chance; next-sentence prediction keeps
them or takes the second from another document; without either there is one
segment. What is too long loses pieces one by one from its longer half, each time at
the front or at the back.

Where the reference code departs from the paper, the paper is followed: it makes a
pair of two documents, in place of a swap, of a window that is one sentence, and
here the sentence is cut at a word; and it hands the sentences that NSP replaced to
the next sample, while here they wait for another epoch.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.corpus.settings import ObjectiveSettings
from albertine.corpus.shards import Shard
from albertine.randomness import RandomStream

_ATTEMPTS = 8  # to find another document by chance


@dataclass(frozen=True)
class Segment:
    """Pieces that follow each other in a shard."""

    shard: Shard
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def tokens(self) -> NDArray[Any]:
        """Their ids."""
        return self.shard.tokens[self.start : self.stop]

    @cached_property
    def word_starts(self) -> NDArray[np.bool_]:
        """Which of them begin a word; the first one does, here."""
        word_starts = self.shard.word_starts(self.start, self.stop)
        word_starts[:1] = True
        return word_starts


@dataclass(frozen=True)
class SegmentPair:
    """One or two segments.

    Attributes:
        label: 0 for a pair as it stands in the text, 1 for one swapped or put together; 0 without a pair.
    """

    segments: tuple[Segment, ...]
    label: int


def draw_pair(
    window: Segment, max_tokens: int, objective: ObjectiveSettings, shards: list[Shard], rng: RandomStream
) -> SegmentPair:
    """Draw a pair from a window; `max_tokens` pieces is the most that fits."""
    if objective.pair == "none":
        return SegmentPair((_clip_at_word(window, max_tokens, rng),), 0)
    cut = _split_point(window, rng)
    a, b = Segment(window.shard, window.start, cut), Segment(window.shard, cut, window.stop)
    label = rng.integer(2)
    if label and objective.pair == "sop":
        a, b = b, a
    elif label:
        b = _segment_of_other_document(
            a, len(b), shards, rng
        )  # as long as what it replaces: length shall tell nothing
    return SegmentPair(truncate_pair(a, b, max_tokens, rng), label)


def _clip_at_word(window: Segment, max_tokens: int, rng: RandomStream) -> Segment:
    """Take as much as fits from a window, from a random word on."""
    excess = len(window) - max_tokens
    if excess <= 0:
        return window
    words = np.flatnonzero(window.word_starts[: excess + 1])
    start = window.start + int(words[rng.integer(len(words))])
    return Segment(window.shard, start, start + max_tokens)


def _split_point(window: Segment, rng: RandomStream) -> int:
    """Choose where the second segment begins: after a random sentence, or in one that is alone, at a word."""
    candidates = _sentences_between(window.shard, window.start, window.stop)
    if not len(candidates):
        candidates = (
            window.start + 1 + np.flatnonzero(window.shard.word_starts(window.start + 1, window.stop))
        )
    if not len(candidates):
        candidates = np.arange(window.start + 1, window.stop)
    return int(candidates[rng.integer(len(candidates))])


def _sentences_between(shard: Shard, start: int, stop: int) -> NDArray[np.int64]:
    """Return where sentences begin between two places, neither counted."""
    dtype = shard.sentence_starts.dtype.type
    low, high = np.searchsorted(shard.sentence_starts, [dtype(start + 1), dtype(stop)])
    return shard.sentence_starts[low:high].astype(np.int64)


def _segment_of_other_document(a: Segment, length: int, shards: list[Shard], rng: RandomStream) -> Segment:
    """Choose a segment of another document: from a random sentence on, while it lasts."""
    sentence_ends = np.cumsum([len(shard.sentence_starts) for shard in shards])
    own_document = _document_index(a.shard, a.start)
    for _ in range(_ATTEMPTS):
        nth = rng.integer(int(sentence_ends[-1]))
        shard_index = int(np.searchsorted(sentence_ends, nth, side="right"))
        shard = shards[shard_index]
        start = int(shard.sentence_starts[nth - (int(sentence_ends[shard_index - 1]) if shard_index else 0)])
        document = _document_index(shard, start)
        if shard is not a.shard or document != own_document:
            return Segment(shard, start, min(start + length, int(shard.document_offsets[document + 1])))
    # Nearly all of the corpus is this document: the one beside it, from its start.
    if len(a.shard.document_offsets) > 2:
        shard, document = (
            a.shard,
            own_document + 1 if own_document + 2 < len(a.shard.document_offsets) else own_document - 1,
        )
    else:
        shard, document = next(one for one in shards if one is not a.shard), 0
    start = int(shard.document_offsets[document])
    return Segment(shard, start, min(start + length, int(shard.document_offsets[document + 1])))


def _document_index(shard: Shard, token_index: int) -> int:
    dtype = shard.document_offsets.dtype.type
    return int(np.searchsorted(shard.document_offsets, dtype(token_index), side="right")) - 1


def truncate_pair(a: Segment, b: Segment, max_tokens: int, rng: RandomStream) -> tuple[Segment, Segment]:
    """Take what is too much, piece by piece, from the longer; from the second where they are equal."""
    excess = len(a) + len(b) - max_tokens
    if excess <= 0:
        return a, b
    difference = len(a) - len(b)
    # First the longer one gives until they are equal; then they give in turn, the second first.
    from_longer = min(excess, abs(difference))
    from_both = excess - from_longer
    from_a, from_b = (
        (from_longer if difference > 0 else 0) + from_both // 2,
        (from_longer if difference < 0 else 0) + (from_both + 1) // 2,
    )
    return _trimmed(a, from_a, rng), _trimmed(b, from_b, rng)


def _trimmed(segment: Segment, removed: int, rng: RandomStream) -> Segment:
    from_front = rng.binomial(removed) if removed else 0
    return Segment(segment.shard, segment.start + from_front, segment.stop - (removed - from_front))

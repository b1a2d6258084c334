"""Segment pairs for sentence-order prediction (SOP) and next-sentence prediction (NSP).

A window is split in two after a random sentence. SOP swaps the two segments with
probability 1/2; NSP replaces the second by text of another document with probability 1/2.
Neither the length nor the end of the second segment may reveal that label. So the other text is
drawn for both labels, and the second segment is cut to its length. And because a window ends
with a sentence and the other text does not, the second segment is first cut at a random
place in its last sentence.
With `pair = "none"` there is one segment. A pair that is too long loses tokens one by one
from its longer segment, each at the front or at the end at random.

Where the reference code differs from the paper, this module follows the paper:

- A window of one sentence is split at a word. The reference code pairs it with another
  document in place of a swap.
- Text that NSP replaced is used in another epoch. The reference code puts it into the next
  sample.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.corpus.settings import ObjectiveSettings
from albertine.corpus.shards import Shard
from albertine.randomness import RandomStream

_ATTEMPTS = 16  # random sentences that are tried, to find enough text of another document


@dataclass(frozen=True)
class Segment:
    """Consecutive tokens of a shard, from `start` to `stop` (exclusive)."""

    shard: Shard
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    def first(self, length: int) -> "Segment":
        """Return the first `length` tokens."""
        return Segment(self.shard, self.start, self.start + length)

    @property
    def tokens(self) -> NDArray[Any]:
        """Token ids [tokens]."""
        return self.shard.tokens[self.start : self.stop]

    @cached_property
    def word_starts(self) -> NDArray[np.bool_]:
        """Whether each token begins a word [tokens]; the first one always does."""
        word_starts = self.shard.word_starts(self.start, self.stop)
        word_starts[:1] = True
        return word_starts


@dataclass(frozen=True)
class SegmentPair:
    """One or two segments, with the label of the pair.

    Attributes:
        segments: the segments, in the order of the sample.
        label: 0 for segments in text order (or one segment), 1 for a swapped pair or two documents.
    """

    segments: tuple[Segment, ...]
    label: int


def draw_pair(
    window: Segment, max_tokens: int, objective: ObjectiveSettings, shards: list[Shard], rng: RandomStream
) -> SegmentPair:
    """Return a pair drawn from a window, with at most `max_tokens` tokens."""
    if objective.pair == "none":
        return SegmentPair((_clip_at_word(window, max_tokens, rng),), 0)
    cut = _split_point(window, rng)
    a, b = Segment(window.shard, window.start, cut), Segment(window.shard, cut, window.stop)
    label = rng.integer(2)
    if objective.pair == "sop":
        a, b = (b, a) if label else (a, b)
    elif objective.pair == "nsp":
        b = _cut_last_sentence(b, rng)
        other = _segment_of_other_document(a, len(b), shards, rng)
        b = other if label else b.first(len(other))
    else:
        raise ValueError(f"unknown pair: {objective.pair}")
    return SegmentPair(truncate_pair(a, b, max_tokens, rng), label)


def _clip_at_word(window: Segment, max_tokens: int, rng: RandomStream) -> Segment:
    """Return at most `max_tokens` tokens of a window, starting at a random word."""
    excess = len(window) - max_tokens
    if excess <= 0:
        return window
    words = np.flatnonzero(window.word_starts[: excess + 1])
    start = window.start + int(words[rng.integer(len(words))])
    return Segment(window.shard, start, start + max_tokens)


def _split_point(window: Segment, rng: RandomStream) -> int:
    """Return the start of the second segment: a random sentence, or in a single sentence a random word."""
    candidates = _sentences_between(window.shard, window.start, window.stop)
    if not len(candidates):
        candidates = (
            window.start + 1 + np.flatnonzero(window.shard.word_starts(window.start + 1, window.stop))
        )
    if not len(candidates):
        candidates = np.arange(window.start + 1, window.stop)
    return int(candidates[rng.integer(len(candidates))])


def _sentences_between(shard: Shard, start: int, stop: int) -> NDArray[np.int64]:
    """Return the sentence starts between two positions, both exclusive."""
    dtype = shard.sentence_starts.dtype.type  # numpy would convert the whole column for another type
    low, high = np.searchsorted(shard.sentence_starts, [dtype(start + 1), dtype(stop)])
    return shard.sentence_starts[low:high].astype(np.int64)


def _cut_last_sentence(segment: Segment, rng: RandomStream) -> Segment:
    """Return a segment that ends at a random place in its last sentence, before the end of the sentence."""
    starts = _sentences_between(segment.shard, segment.start, segment.stop)
    last_start = int(starts[-1]) if len(starts) else segment.start
    return segment.first(last_start - segment.start + 1 + rng.integer(max(1, segment.stop - last_start - 1)))


def _segment_of_other_document(a: Segment, length: int, shards: list[Shard], rng: RandomStream) -> Segment:
    """Return `length` tokens of another text than that of `a`, from a random sentence on.

    A text may be stored as several documents, all in one shard.

    The segment is shorter if no sentence that was tried has `length` tokens up to the end of its document.
    """
    shard_ends = np.cumsum([len(shard.sentence_starts) for shard in shards])  # in sentences
    own_text = a.shard.text_index(a.start)
    longest: Segment | None = None
    for _ in range(_ATTEMPTS):
        sentence = rng.integer(int(shard_ends[-1]))
        shard_index = int(np.searchsorted(shard_ends, sentence, side="right"))
        shard = shards[shard_index]
        shard_start = int(shard_ends[shard_index - 1]) if shard_index else 0
        start = int(shard.sentence_starts[sentence - shard_start])
        if shard is a.shard and shard.text_index(start) == own_text:
            continue
        stop = min(start + length, int(shard.document_offsets[shard.document_index(start) + 1]))
        if longest is None or stop - start > len(longest):
            longest = Segment(shard, start, stop)
        if len(longest) == length:
            break
    return longest or _segment_of_adjacent_document(a, length, shards)


def _segment_of_adjacent_document(a: Segment, length: int, shards: list[Shard]) -> Segment:
    """Return at most `length` tokens from the start of the nearest other document.

    Used if nearly the whole corpus is the document of `a`.
    """
    texts = a.shard.text_indices
    others = np.flatnonzero(texts != a.shard.text_index(a.start))
    if len(others):
        shard, document = a.shard, int(others[np.abs(others - a.shard.document_index(a.start)).argmin()])
    else:
        shard, document = next(shard for shard in shards if shard is not a.shard), 0
    start, end = int(shard.document_offsets[document]), int(shard.document_offsets[document + 1])
    return Segment(shard, start, min(start + length, end))


def truncate_pair(a: Segment, b: Segment, max_tokens: int, rng: RandomStream) -> tuple[Segment, Segment]:
    """Return both segments, shortened so that together they have at most `max_tokens` tokens.

    Tokens are removed one by one from the longer segment, or from `b` if both are equally long: first from
    the longer one until both are equally long, then alternately.
    """
    excess = len(a) + len(b) - max_tokens
    if excess <= 0:
        return a, b
    difference = len(a) - len(b)
    from_longer = min(excess, abs(difference))
    from_both = excess - from_longer
    from_a = (from_longer if difference > 0 else 0) + from_both // 2
    from_b = (from_longer if difference < 0 else 0) + (from_both + 1) // 2
    return _trimmed(a, from_a, rng), _trimmed(b, from_b, rng)


def _trimmed(segment: Segment, removed: int, rng: RandomStream) -> Segment:
    """Return a segment without `removed` tokens, each removed at the front or at the end at random."""
    from_front = rng.binomial(removed) if removed else 0
    return Segment(segment.shard, segment.start + from_front, segment.stop - (removed - from_front))

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

from albertine.corpus.chance import Stream
from albertine.corpus.settings import Objective
from albertine.corpus.shards import Shard

_ATTEMPTS = 8  # to find another document by chance


@dataclass(frozen=True)
class Segment:
    """Pieces that follow each other in a shard."""

    shard: Shard
    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first

    @property
    def tokens(self) -> NDArray[Any]:
        """Their ids."""
        return self.shard.tokens[self.first : self.last]

    @cached_property
    def starts(self) -> NDArray[np.bool_]:
        """Which of them begin a word; the first one does, here."""
        starts = self.shard.starts(self.first, self.last)
        starts[:1] = True
        return starts


@dataclass(frozen=True)
class Pair:
    """One or two segments.

    Attributes:
        label: 0 for a pair as it stands in the text, 1 for one swapped or put together; 0 without a pair.
    """

    segments: tuple[Segment, ...]
    label: int


def draw_pair(window: Segment, room: int, objective: Objective, shards: list[Shard], chance: Stream) -> Pair:
    """Draw a pair from a window; `room` pieces is the most that fits."""
    if objective.pair == "none":
        return Pair((_part(window, room, chance),), 0)
    cut = _cut(window, chance)
    a, b = Segment(window.shard, window.first, cut), Segment(window.shard, cut, window.last)
    label = chance.below(2)
    if label and objective.pair == "sop":
        a, b = b, a
    elif label:
        b = _elsewhere(a, len(b), shards, chance)  # as long as what it replaces: length shall tell nothing
    return Pair(_shortened(a, b, room, chance), label)


def _part(window: Segment, room: int, chance: Stream) -> Segment:
    """Take as much as fits from a window, from a random word on."""
    excess = len(window) - room
    if excess <= 0:
        return window
    words = np.flatnonzero(window.starts[: excess + 1])
    first = window.first + int(words[chance.below(len(words))])
    return Segment(window.shard, first, first + room)


def _cut(window: Segment, chance: Stream) -> int:
    """Choose where the second segment begins: after a random sentence, or in one that is alone, at a word."""
    places = _sentences_between(window.shard, window.first, window.last)
    if not len(places):
        places = window.first + 1 + np.flatnonzero(window.shard.starts(window.first + 1, window.last))
    if not len(places):
        places = np.arange(window.first + 1, window.last)
    return int(places[chance.below(len(places))])


def _sentences_between(shard: Shard, first: int, last: int) -> NDArray[np.int64]:
    """Return where sentences begin between two places, neither counted."""
    kind = shard.sentences.dtype.type
    low, high = np.searchsorted(shard.sentences, [kind(first + 1), kind(last)])
    return shard.sentences[low:high].astype(np.int64)


def _elsewhere(a: Segment, length: int, shards: list[Shard], chance: Stream) -> Segment:
    """Choose a segment of another document: from a random sentence on, while it lasts."""
    sizes = np.cumsum([len(shard.sentences) for shard in shards])
    mine = _document(a.shard, a.first)
    for _ in range(_ATTEMPTS):
        nth = chance.below(int(sizes[-1]))
        number = int(np.searchsorted(sizes, nth, side="right"))
        shard = shards[number]
        first = int(shard.sentences[nth - (int(sizes[number - 1]) if number else 0)])
        document = _document(shard, first)
        if shard is not a.shard or document != mine:
            return Segment(shard, first, min(first + length, int(shard.documents[document + 1])))
    # Nearly all of the corpus is this document: the one beside it, from its start.
    if len(a.shard.documents) > 2:
        shard, document = a.shard, mine + 1 if mine + 2 < len(a.shard.documents) else mine - 1
    else:
        shard, document = next(one for one in shards if one is not a.shard), 0
    first = int(shard.documents[document])
    return Segment(shard, first, min(first + length, int(shard.documents[document + 1])))


def _document(shard: Shard, place: int) -> int:
    kind = shard.documents.dtype.type
    return int(np.searchsorted(shard.documents, kind(place), side="right")) - 1


def _shortened(a: Segment, b: Segment, room: int, chance: Stream) -> tuple[Segment, Segment]:
    """Take what is too much, piece by piece, from the longer; from the second where they are equal."""
    excess = len(a) + len(b) - room
    if excess <= 0:
        return a, b
    ahead = len(a) - len(b)
    # First the longer one gives until they are equal; then they give in turn, the second first.
    alone = min(excess, abs(ahead))
    both = excess - alone
    from_a, from_b = (alone if ahead > 0 else 0) + both // 2, (alone if ahead < 0 else 0) + (both + 1) // 2
    return _clipped(a, from_a, chance), _clipped(b, from_b, chance)


def _clipped(segment: Segment, gone: int, chance: Stream) -> Segment:
    front = chance.heads(gone) if gone else 0
    return Segment(segment.shard, segment.first + front, segment.last - (gone - front))

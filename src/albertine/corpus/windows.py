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

from albertine.corpus.chance import Order, ask, below, uniform
from albertine.corpus.settings import Objective
from albertine.corpus.shards import Shard

Places = NDArray[np.int64]

LEAST = 8  # a shorter document gives no sample
_BLOCK = 64  # documents whose windows are counted together
# What the hash is asked for.
_ORDER, _SLIDE, _SHORT, _TARGET = range(4)


@dataclass(frozen=True)
class Laid:
    """Some windows, a row of numbers for each thing that is known of them.

    Attributes:
        shard: number of the shard.
        document: number of the document in it.
        first: place of the first piece in the shard.
        last: place after the last piece.
        target: how many pieces are wanted; sentences are gathered until there are as many.
    """

    shard: Places
    document: Places
    first: Places
    last: Places
    target: Places


class Windows:
    """The windows of a split, by epoch and place in the order of training."""

    def __init__(self, shards: list[Shard], objective: Objective):
        self._shards, self._objective = shards, objective
        self.room = objective.max_length - (2 if objective.pair == "none" else 3)
        # How many windows end with each block of documents: all that is kept in memory, and it is little.
        self._blocks = [self._block_ends(shard) for shard in shards]
        self._ends = np.cumsum([one[-1] for one in self._blocks])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def _block_ends(self, shard: Shard) -> Places:
        documents = len(shard.documents) - 1
        ends = [
            np.add.reduceat(counts, np.arange(0, len(counts), _BLOCK))
            for counts in (
                self._counts(shard, np.arange(base, min(base + (_BLOCK << 12), documents)))
                for base in range(0, documents, _BLOCK << 12)
            )
        ]
        return np.concatenate(ends).cumsum()

    def _counts(self, shard: Shard, documents: Places) -> Places:
        """Count the windows of documents."""
        lengths = (shard.documents[documents + 1] - shard.documents[documents]).astype(np.int64)
        return self._numbers(lengths)

    def _numbers(self, lengths: Places) -> Places:
        """Return how many windows documents of some lengths have: one, or enough to slide."""
        several = -(-(lengths + self.room // 2) // self.room)
        return np.where(lengths >= LEAST, np.where(lengths > self.room, several, 1), 0)

    def at(self, epoch: int, places: Places) -> Laid:
        """Return the windows at some places of an epoch's order."""
        index = Order(len(self), int(ask(self._objective.seed, epoch, _ORDER)[0]))[places]
        shards = np.searchsorted(self._ends, index, side="right")
        laid = Laid(*np.empty((5, len(places)), np.int64))
        for number in np.unique(shards).tolist():
            mine = np.flatnonzero(shards == number)
            local = index[mine] - (self._ends[number - 1] if number else 0)
            for row, values in zip(vars(laid).values(), self._in_shard(number, local, epoch), strict=True):
                row[mine] = values
        return laid

    def _in_shard(self, number: int, index: Places, epoch: int) -> tuple[Places, ...]:
        """Work out windows of one shard: documents, anchors, then sentences."""
        shard, seed = self._shards[number], self._objective.seed
        document, turn = self._documents(number, index)
        begin, end = (shard.documents[document + side].astype(np.int64) for side in (0, 1))
        spare = self._numbers(end - begin) * self.room - (end - begin)
        slide = below(ask(seed, epoch, _SLIDE, number, document), np.minimum(spare + 1, self.room))
        anchor = np.minimum(begin + turn * self.room - np.where(turn > 0, slide, 0), end - LEAST)
        target = self._targets(epoch, number, index)
        first = self._first(shard, anchor, end)
        last = np.minimum(_next(shard.sentences, first + target, end), first + target + self.room)
        return np.full(len(index), number), document, first, np.minimum(last, end), target

    def _documents(self, number: int, index: Places) -> tuple[Places, Places]:
        """Find the document of each window, and which of the document's it is."""
        shard, ends = self._shards[number], self._blocks[number]
        block = np.searchsorted(ends, index, side="right")
        within = index - np.where(block > 0, ends[block - 1], 0)
        inside = block[:, None] * _BLOCK + np.arange(_BLOCK)
        documents = len(shard.documents) - 1
        counts = np.where(inside < documents, self._counts(shard, np.minimum(inside, documents - 1)), 0)
        upto = counts.cumsum(axis=1)
        nth = (upto <= within[:, None]).sum(axis=1)
        before = np.take_along_axis(upto - counts, nth[:, None], axis=1)[:, 0]
        return block * _BLOCK + nth, within - before

    def _targets(self, epoch: int, number: int, index: Places) -> Places:
        """Draw how long samples shall be: full, or now and then anything shorter."""
        objective = self._objective
        full = np.full(len(index), self.room)
        if objective.pair == "none":
            return full
        shorter = 2 + below(ask(objective.seed, epoch, _TARGET, number, index), self.room - 1)
        short = uniform(ask(objective.seed, epoch, _SHORT, number, index)) < objective.short
        return np.where(short, shorter, full)

    def _first(self, shard: Shard, anchor: Places, end: Places) -> Places:
        """Return where windows begin: with the next sentence, or with a word of one that is very long."""
        first = _next(shard.sentences, anchor, end)
        for at in np.flatnonzero(first > np.minimum(anchor + self.room, end - LEAST)):
            start, stop = int(anchor[at]), int(end[at])
            words = np.flatnonzero(shard.starts(start, min(start + self.room, stop - LEAST + 1)))
            first[at] = start + (int(words[0]) if len(words) else 0)
        return first


def _next(sentences: NDArray[np.uint32], places: Places, end: Places) -> Places:
    """Return where the first sentence begins at or after each place; the document's end if there is none."""
    # Of the same type as the column, or all of it would be converted to look for one place.
    found = np.searchsorted(sentences, places.astype(sentences.dtype))
    begins = sentences[np.minimum(found, len(sentences) - 1)].astype(np.int64)
    return np.where((found < len(sentences)) & (begins < end), begins, end)

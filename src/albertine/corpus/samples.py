"""Samples: what the network sees, each a pure function of corpus, objective, seed, epoch and place.

    [CLS] a a a [SEP] b b b b [SEP]      with some pieces to be predicted

Nothing is kept from one sample to the next, so any of them can be drawn at once, by
any process, as often as one likes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.corpus.chance import Stream, ask
from albertine.corpus.corpus import Corpus
from albertine.corpus.manifest import Split
from albertine.corpus.masks import budget, choose, hide
from albertine.corpus.pairs import Pair, Segment, draw_pair
from albertine.corpus.settings import Objective
from albertine.corpus.windows import Laid, Windows
from albertine.errors import InputError

_SAMPLE = 4  # what the hash is asked for; windows ask for 0 to 3


@dataclass(frozen=True)
class Sample:
    """One sequence, masked.

    Attributes:
        tokens: ids as the network sees them.
        types: 0 for the first segment, 1 for the second.
        masked: places of the pieces to predict, in order.
        labels: what stood there.
        label: of the pair (see `pairs`).
    """

    tokens: NDArray[np.int32]
    types: NDArray[np.int32]
    masked: NDArray[np.int64]
    labels: NDArray[np.int32]
    label: int

    def __len__(self) -> int:
        return len(self.tokens)

    def original(self) -> NDArray[np.int32]:
        """Return the ids as they stood in the text."""
        tokens = self.tokens.copy()
        tokens[self.masked] = self.labels
        return tokens


class Sampler:
    """Draws the samples of a split.

    Attributes:
        objective: how they are drawn.
    """

    def __init__(self, corpus: Corpus, objective: Objective, split: Split = "train"):
        self._corpus, self._split, self.objective = corpus, split, objective
        self._shards = corpus.shards(split)
        self._windows = Windows(self._shards, objective)
        if not len(self._windows):
            raise InputError(f"{corpus.folder}: no document of {split} is long enough for a sample")
        if objective.pair == "nsp" and corpus.manifest.documents[split] < 2:
            raise InputError(f"{corpus.folder}: nsp takes a second document, and {split} has one")
        special = corpus.tokenizer.special
        self._opening, self._closing, self._mask = special.opening, special.closing, special.mask
        self._ordinary = np.setdiff1d(np.arange(len(corpus.tokenizer)), list(vars(special).values()))

    def __reduce__(self) -> tuple[Any, ...]:
        # A process that draws samples opens the files itself.
        return _reopened, (self._corpus.folder, self.objective, self._split)

    def __len__(self) -> int:
        """Return how many samples an epoch has."""
        return len(self._windows)

    def lengths(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many pieces samples have at most, by place counted on through all epochs.

        Exactly as many, but for a pair of `nsp` whose other document ends early.
        """
        extra = self.objective.max_length - self._windows.room
        lengths = np.empty(len(places), np.int64)
        for epoch, mine in self._by_epoch(places):
            laid = self._windows.at(epoch, places[mine] % len(self))
            lengths[mine] = np.minimum(laid.last - laid.first, self._windows.room) + extra
        return lengths

    def draw(self, places: NDArray[np.int64]) -> list[Sample]:
        """Draw the samples at some places, counted on through all epochs: place N is the second's first."""
        drawn: dict[int, Sample] = {}
        for epoch, mine in self._by_epoch(places):
            within = places[mine] % len(self)
            laid = self._windows.at(epoch, within)
            keys = ask(self.objective.seed, epoch, _SAMPLE, within)
            for row, at in enumerate(mine.tolist()):
                drawn[at] = self._draw(laid, row, int(keys[row]))
        return [drawn[at] for at in range(len(places))]

    def _by_epoch(self, places: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        epochs = places // len(self)
        for epoch in np.unique(epochs).tolist():
            yield epoch, np.flatnonzero(epochs == epoch)

    def _draw(self, laid: Laid, row: int, key: int) -> Sample:
        window = Segment(self._shards[laid.shard[row]], int(laid.first[row]), int(laid.last[row]))
        room = self._windows.room
        chance = Stream(key, 64 + room // 8 + 4 * min(len(window), room))
        pair = draw_pair(window, room, self.objective, self._shards, chance)
        tokens, types = self._laid_out(pair)
        self._corpus.refuse_strange(tokens)
        places = choose(*_words(pair), budget(len(tokens), self.objective), self.objective.ngram, chance)
        labels = tokens[places]
        hide(tokens, places, self._mask, self._ordinary, chance)
        return Sample(tokens, types, places, labels, pair.label)

    def _laid_out(self, pair: Pair) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Put the special pieces around the segments."""
        size = 1 + sum(len(segment) + 1 for segment in pair.segments)
        tokens, types = np.empty(size, np.int32), np.zeros(size, np.int32)
        tokens[0], at = self._opening, 1
        for kind, segment in enumerate(pair.segments):
            end = at + len(segment)
            tokens[at:end] = segment.tokens
            tokens[end] = self._closing
            types[at : end + 1] = kind
            at = end + 1
        return tokens, types


def _words(pair: Pair) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return where the words of a sample begin and end, and for each the first word of the next segment."""
    # Every place where something begins: [CLS], a word, [SEP]. What a word ends at is the next of them.
    marks = np.concatenate([_ONE, *(part for one in pair.segments for part in (one.starts, _ONE))])
    places = np.flatnonzero(marks)
    counts = [int(np.count_nonzero(one.starts)) for one in pair.segments]
    is_word = np.ones(len(places), np.bool_)
    is_word[[0, counts[0] + 1, -1]] = False
    limits = np.full(sum(counts), sum(counts))
    limits[: counts[0]] = counts[0]
    words = np.flatnonzero(is_word)
    return places[words], places[words + 1], limits


_ONE = np.ones(1, np.bool_)


def _reopened(folder: Path, objective: Objective, split: Split) -> Sampler:
    return Sampler(Corpus(folder), objective, split)

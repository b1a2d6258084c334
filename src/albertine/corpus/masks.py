"""Masking: which pieces of a sample are to be predicted, and what stands in their place.

Runs of one to `ngram` whole words, a run of n with chance in proportion to 1/n, at
random places, none over another, until the budget is spent; a run that would pass
it is made shorter, or left out. Of the pieces chosen 80% become [MASK], 10% stay,
10% become any ordinary piece, each drawn by itself.

The reference code lets a run cross from one segment into the next, and puts
special pieces in as random ones; the paper says neither, and here neither happens.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.corpus.chance import Stream, below, uniform
from albertine.corpus.settings import Objective


def budget(length: int, objective: Objective) -> int:
    """Return how many pieces of a sample of some length are to be predicted."""
    return min(objective.most_masked, max(1, round(length * objective.masked)))


def choose(
    begins: NDArray[np.int64],
    ends: NDArray[np.int64],
    limits: NDArray[np.int64],
    wanted: int,
    ngram: int,
    chance: Stream,
) -> NDArray[np.int64]:
    """Choose the pieces of a sample to predict; return their places, in order.

    Args:
        begins: where each word begins.
        ends: where each word ends.
        limits: for each word, the number of the first word of the next segment, which no run may reach.
        wanted: how many pieces at most.
        ngram: longest run, in words.
        chance: where randomness comes from.
    """
    count = len(begins)
    draws = chance.words(2 * count)
    room = np.minimum(limits - np.arange(count), ngram)
    runs = _lengths(uniform(draws[count:]), room, ngram).tolist()
    begin, end, taken = begins.tolist(), ends.tolist(), bytearray(count)
    chosen: list[int] = []
    left = wanted
    for word in np.argsort(draws[:count]).tolist():
        if not left:
            break
        run = runs[word]
        while run and end[word + run - 1] - begin[word] > left:
            run -= 1
        if run and 1 not in taken[word : word + run]:
            taken[word : word + run] = b"\1" * run
            chosen += range(begin[word], end[word + run - 1])
            left = wanted - len(chosen)
    return np.sort(np.array(chosen, np.int64))


def _lengths(chances: NDArray[np.float64], room: NDArray[np.int64], ngram: int) -> NDArray[np.int64]:
    """Draw how many words each run has: n with chance in proportion to 1/n, where there is room for n."""
    sums = np.cumsum(1.0 / np.arange(1, ngram + 1))
    drawn = np.searchsorted(sums, chances * sums[room - 1], side="right") + 1
    return np.minimum(drawn, room)


def hide(
    tokens: NDArray[Any], places: NDArray[np.int64], mask: int, ordinary: NDArray[Any], chance: Stream
) -> None:
    """Put [MASK], the piece itself, or any ordinary piece where pieces are to be predicted."""
    count = len(places)
    what = uniform(chance.words(count))
    others = ordinary[below(chance.words(count), len(ordinary))]
    tokens[places] = np.where(what < 0.8, mask, np.where(what < 0.9, tokens[places], others))

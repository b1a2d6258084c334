"""Masking: which pieces of a sample are to be predicted, and what stands in their place.

Runs of one to `ngram` whole words, a run of n with chance in proportion to 1/n, at
random places, none over another, until the budget is spent; a run that would pass
it is made shorter, or left out. Of the pieces chosen 80% become [MASK], 10% stay,
10% become any ordinary piece, each drawn by itself.

The reference code lets a run cross from one segment into the next, and puts
special pieces in as random ones; the paper says neither, and here neither happens.
"""

from functools import cache
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
    order = np.argsort(draws[:count])
    taken = bytearray(count)
    chosen: list[int] = []
    # Twice as many words as pieces are wanted nearly always do; the rest is looked at only then.
    for words in (order[: 2 * wanted], order[2 * wanted :]):
        if len(chosen) == wanted:
            break
        runs = _lengths(uniform(draws[count:][words]), np.minimum(limits[words] - words, ngram), ngram)
        lasts = ends[words + runs - 1]
        for word, run, begin, end in zip(
            words.tolist(), runs.tolist(), begins[words].tolist(), lasts.tolist(), strict=True
        ):
            left = wanted - len(chosen)
            if not left:
                break
            while run and end - begin > left:
                run -= 1
                end = int(ends[word + run - 1]) if run else begin
            if run and 1 not in taken[word : word + run]:
                taken[word : word + run] = b"\1" * run
                chosen += range(begin, end)
    return np.sort(np.array(chosen, np.int64))


@cache
def _sums(ngram: int) -> NDArray[np.float64]:
    return np.cumsum(1.0 / np.arange(1, ngram + 1))


def _lengths(chances: NDArray[np.float64], room: NDArray[np.int64], ngram: int) -> NDArray[np.int64]:
    """Draw how many words each run has: n with chance in proportion to 1/n, where there is room for n."""
    sums = _sums(ngram)
    return np.minimum(np.searchsorted(sums, chances * sums[room - 1], side="right") + 1, room)


def hide(
    tokens: NDArray[Any], places: NDArray[np.int64], mask: int, ordinary: NDArray[Any], chance: Stream
) -> None:
    """Put [MASK], the piece itself, or any ordinary piece where pieces are to be predicted."""
    count = len(places)
    what = uniform(chance.words(count))
    others = ordinary[below(chance.words(count), len(ordinary))]
    tokens[places] = np.where(what < 0.8, mask, np.where(what < 0.9, tokens[places], others))

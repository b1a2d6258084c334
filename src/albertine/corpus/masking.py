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

from albertine.corpus.settings import ObjectiveSettings
from albertine.randomness import RandomStream, integers, uniform


def prediction_count(length: int, objective: ObjectiveSettings) -> int:
    """Return how many pieces of a sample of some length are to be predicted."""
    return min(objective.max_predictions, max(1, round(length * objective.mlm_probability)))


def choose_masked_positions(
    word_starts: NDArray[np.int64],
    word_ends: NDArray[np.int64],
    segment_ends: NDArray[np.int64],
    max_predictions: int,
    ngram: int,
    rng: RandomStream,
) -> NDArray[np.int64]:
    """Choose the pieces of a sample to predict; return their places, in order.

    Args:
        word_starts: where each word begins.
        word_ends: where each word ends.
        segment_ends: for each word, the number of the first word of the next segment, which no run may reach.
        max_predictions: how many pieces at most.
        ngram: longest run, in words.
        rng: where randomness comes from.
    """
    count = len(word_starts)
    bits = rng.bits(2 * count)
    order = np.argsort(bits[:count])
    taken = bytearray(count)
    chosen: list[int] = []
    # Twice as many words as pieces are wanted nearly always do; the rest is looked at only then.
    for words in (order[: 2 * max_predictions], order[2 * max_predictions :]):
        if len(chosen) == max_predictions:
            break
        run_lengths = _run_lengths(
            uniform(bits[count:][words]), np.minimum(segment_ends[words] - words, ngram), ngram
        )
        run_ends = word_ends[words + run_lengths - 1]
        for word, run_length, start, end in zip(
            words.tolist(), run_lengths.tolist(), word_starts[words].tolist(), run_ends.tolist(), strict=True
        ):
            remaining = max_predictions - len(chosen)
            if not remaining:
                break
            while run_length and end - start > remaining:
                run_length -= 1
                end = int(word_ends[word + run_length - 1]) if run_length else start
            if run_length and 1 not in taken[word : word + run_length]:
                taken[word : word + run_length] = b"\1" * run_length
                chosen += range(start, end)
    return np.sort(np.array(chosen, np.int64))


@cache
def _harmonic_sums(ngram: int) -> NDArray[np.float64]:
    return np.cumsum(1.0 / np.arange(1, ngram + 1))


def _run_lengths(draws: NDArray[np.float64], longest: NDArray[np.int64], ngram: int) -> NDArray[np.int64]:
    """Draw how many words each run has: n with chance in proportion to 1/n, where there is room for n."""
    sums = _harmonic_sums(ngram)
    return np.minimum(np.searchsorted(sums, draws * sums[longest - 1], side="right") + 1, longest)


def mask_tokens(
    tokens: NDArray[Any],
    positions: NDArray[np.int64],
    mask_id: int,
    ordinary_ids: NDArray[Any],
    rng: RandomStream,
) -> None:
    """Put [MASK], the piece itself, or any ordinary piece where pieces are to be predicted."""
    count = len(positions)
    draws = uniform(rng.bits(count))
    random_ids = ordinary_ids[integers(rng.bits(count), len(ordinary_ids))]
    tokens[positions] = np.where(draws < 0.8, mask_id, np.where(draws < 0.9, tokens[positions], random_ids))

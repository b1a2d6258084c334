"""N-gram masking: chooses the tokens of a sample to predict, and replaces them.

Runs of 1 to `ngram` whole words are chosen at random positions without overlap until the
prediction budget is used; a run of n words has probability proportional to 1/n. A run that
exceeds the budget is shortened or dropped. Of the chosen tokens 80% become [MASK], 10%
stay, and 10% become a random ordinary token, each drawn independently.

Unlike the reference code, a run stays within its segment, and a random token is never a
special one. The paper describes neither.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.corpus.settings import ObjectiveSettings
from albertine.randomness import RandomStream, integers, uniform


def prediction_count(length: int, objective: ObjectiveSettings) -> int:
    """Return the number of tokens to predict in a sample of `length` tokens."""
    return min(objective.max_predictions, max(1, round(length * objective.mlm_probability)))


def choose_masked_positions(
    word_starts: NDArray[np.int64],
    word_ends: NDArray[np.int64],
    segment_ends: NDArray[np.int64],
    max_predictions: int,
    ngram: int,
    rng: RandomStream,
) -> NDArray[np.int64]:
    """Return the positions of the tokens to predict, ascending [masked].

    Args:
        word_starts: position of the first token of each word [words].
        word_ends: position after the last token of each word [words].
        segment_ends: index of the first word after each word's segment; a run stops there [words].
        max_predictions: maximum number of tokens.
        ngram: longest run, in words.
        rng: source of randomness.
    """
    count = len(word_starts)
    bits = rng.next_bits(2 * count)
    order = np.argsort(bits[:count])
    taken = bytearray(count)
    chosen: list[int] = []
    # Twice as many words as tokens are nearly always enough; the others are used only if they are not.
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
    """Return the words of each run, up to `longest`; n words have probability proportional to 1/n [runs]."""
    sums = _harmonic_sums(ngram)
    return np.minimum(np.searchsorted(sums, draws * sums[longest - 1], side="right") + 1, longest)


def mask_tokens(
    tokens: NDArray[Any],
    positions: NDArray[np.int64],
    mask_id: int,
    ordinary_ids: NDArray[Any],
    rng: RandomStream,
) -> None:
    """Replace `tokens` in place at `positions`: 80% [MASK], 10% unchanged, 10% a random ordinary id."""
    count = len(positions)
    draws = uniform(rng.next_bits(count))
    random_ids = ordinary_ids[integers(rng.next_bits(count), len(ordinary_ids))]
    tokens[positions] = np.where(draws < 0.8, mask_id, np.where(draws < 0.9, tokens[positions], random_ids))

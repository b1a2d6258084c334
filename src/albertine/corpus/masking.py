"""N-gram masking: chooses the tokens of a sample to predict, and replaces them.

N-grams of 1 to `max_ngram` whole words are chosen at random positions without overlap until
the prediction budget is used; n words have probability proportional to 1/n. An n-gram that
exceeds the budget is shortened or dropped. What has more than `MAX_WORD_TOKENS` tokens between
spaces is text without spaces, an address or a number: each of its tokens counts as a word. If
no word fits into the budget, the beginning of one is chosen. Of the chosen tokens 80% become
[MASK], 10% stay unchanged, and 10% become a random ordinary token, each drawn independently.

In the reference code an n-gram may cross from one segment into the other, and a random token
may be a special one. Here neither happens; the paper leaves both open.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.corpus.settings import ObjectiveSettings
from albertine.randomness import RandomStream, integers, uniform

MAX_WORD_TOKENS = 16


def prediction_count(length: int, objective: ObjectiveSettings) -> int:
    """Return the number of tokens to predict in a sample of `length` tokens."""
    count = max(1, round(length * objective.mlm_probability))
    return count if objective.max_predictions is None else min(objective.max_predictions, count)


def choose_masked_positions(
    word_starts: NDArray[np.int64],
    word_ends: NDArray[np.int64],
    segment_ends: NDArray[np.int64],
    max_predictions: int,
    max_ngram: int,
    rng: RandomStream,
) -> NDArray[np.int64]:
    """Return the positions of the tokens to predict, ascending [masked].

    Args:
        word_starts: position of the first token of each word [words].
        word_ends: position after the last token of each word [words].
        segment_ends: index of the first word after each word's segment, where an n-gram ends [words].
        max_predictions: maximum number of tokens.
        max_ngram: maximum number of words in an n-gram.
        rng: source of randomness.
    """
    count = len(word_starts)
    bits = rng.next_bits(2 * count)
    order = np.argsort(bits[:count])
    is_chosen = bytearray(count)
    positions: list[int] = []
    # N-grams at 2 * max_predictions random words nearly always use the budget; others are computed if not.
    for first_words in (order[: 2 * max_predictions], order[2 * max_predictions :]):
        if len(positions) == max_predictions:
            break
        lengths = _ngram_lengths(
            uniform(bits[count:][first_words]),
            np.minimum(segment_ends[first_words] - first_words, max_ngram),
            max_ngram,
        )
        starts, ends = word_starts[first_words], word_ends[first_words + lengths - 1]
        for word, length, start, end in zip(
            first_words.tolist(), lengths.tolist(), starts.tolist(), ends.tolist(), strict=True
        ):
            remaining = max_predictions - len(positions)
            if not remaining:
                break
            while length and end - start > remaining:
                length -= 1
                end = int(word_ends[word + length - 1]) if length else start
            if length and 1 not in is_chosen[word : word + length]:
                is_chosen[word : word + length] = b"\1" * length
                positions += range(start, end)
    if not positions and count and max_predictions:
        first_word = order[0]
        end = min(int(word_ends[first_word]), int(word_starts[first_word]) + max_predictions)
        positions += range(int(word_starts[first_word]), end)
    return np.sort(np.array(positions, np.int64))


def split_long_words(
    starts: NDArray[np.int64], ends: NDArray[np.int64], segment_ends: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return word boundaries in which each token of a long word is a word.

    Arguments and results are those that `choose_masked_positions` takes.
    """
    lengths = ends - starts
    if not len(lengths) or lengths.max() <= MAX_WORD_TOKENS:
        return starts, ends, segment_ends
    is_long = lengths > MAX_WORD_TOKENS
    num_parts = np.where(is_long, lengths, 1)
    first_parts = np.concatenate([[0], np.cumsum(num_parts)])
    words = np.repeat(np.arange(len(starts)), num_parts)
    part_starts = starts[words] + np.arange(len(words)) - first_parts[words]
    part_ends = np.where(is_long[words], part_starts + 1, ends[words])
    return part_starts, part_ends, first_parts[segment_ends[words]]


@cache
def _harmonic_sums(max_ngram: int) -> NDArray[np.float64]:
    return np.cumsum(1.0 / np.arange(1, max_ngram + 1))


def _ngram_lengths(
    draws: NDArray[np.float64], longest: NDArray[np.int64], max_ngram: int
) -> NDArray[np.int64]:
    """Return the number of words of each n-gram, 1 to `longest`, with probability proportional to 1/n.

    Args:
        draws: uniform random numbers [n-grams].
        longest: maximum words of each n-gram [n-grams].
        max_ngram: maximum of `longest`.
    """
    sums = _harmonic_sums(max_ngram)
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

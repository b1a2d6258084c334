"""Pairs and masks by the algorithm of Google's reference code, in plain Python.

`albertine bench corpus` measures Albertine's sampling against it, and tests compare the
two. The algorithm collects sentences of a document until they fill a sample, splits them
into two segments, swaps these or not, truncates token by token, and masks n-gram by n-gram.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CLS, SEP, MASK = 2, 3, 4
_FIRST_ORDINARY_ID = 5


@dataclass(frozen=True)
class ReferenceInstance:
    """One sample as the reference code writes it."""

    tokens: list[int]
    segments: list[int]
    masked_positions: list[int]
    labels: list[int]
    is_swapped: bool


# Sentences of (token id, whether the token starts a word).
ReferenceDocument = Sequence[Sequence[tuple[int, bool]]]


def reference_instances(
    document: ReferenceDocument,
    *,
    max_length: int,
    short_fraction: float,
    max_masked: int,
    vocab_size: int,
    rng: random.Random,
) -> list[ReferenceInstance]:
    """Return the samples of a document, with sentence order as the second objective."""
    max_tokens = max_length - 3
    created = []
    chunk: list[Sequence[tuple[int, bool]]] = []
    size = 0
    target = rng.randint(2, max_tokens) if rng.random() < short_fraction else max_tokens
    for number, sentence in enumerate(document):
        chunk.append(sentence)
        size += len(sentence)
        if number == len(document) - 1 or size >= target:
            if len(chunk) > 1:
                cut = rng.randint(1, len(chunk) - 1)
                a = [token for cut_sentence in chunk[:cut] for token in cut_sentence]
                b = [token for cut_sentence in chunk[cut:] for token in cut_sentence]
                swapped = rng.random() < 0.5
                if swapped:
                    a, b = b, a
                truncate_pair(a, b, max_tokens, rng)
                created.append(_create_instance(a, b, swapped, max_masked, vocab_size, rng))
            chunk, size = [], 0
            target = rng.randint(2, max_tokens) if rng.random() < short_fraction else max_tokens
    return created


def truncate_pair(
    a: list[tuple[int, bool]], b: list[tuple[int, bool]], max_tokens: int, rng: random.Random
) -> None:
    """Remove tokens from the longer of two segments, one by one, at its start or end."""
    while len(a) + len(b) > max_tokens:
        longer = a if len(a) > len(b) else b
        if rng.random() < 0.5:
            del longer[0]
        else:
            longer.pop()


def _create_instance(
    a: list[tuple[int, bool]],
    b: list[tuple[int, bool]],
    is_swapped: bool,
    max_masked: int,
    vocab_size: int,
    rng: random.Random,
) -> ReferenceInstance:
    tokens = [CLS, *(token for token, _ in a), SEP, *(token for token, _ in b), SEP]
    segments = [0] * (len(a) + 2) + [1] * (len(b) + 1)
    words: list[list[int]] = []
    for segment, base in ((a, 1), (b, len(a) + 2)):
        for position, (_, starts_word) in enumerate(segment):
            if starts_word or not position:
                words.append([])
            words[-1].append(base + position)
    masked_positions = choose_masked_positions(words, len(tokens), max_masked, rng)
    labels = [tokens[position] for position in masked_positions]
    for position in masked_positions:
        if rng.random() < 0.8:
            tokens[position] = MASK
        elif rng.random() >= 0.5:
            tokens[position] = rng.randint(_FIRST_ORDINARY_ID, vocab_size - 1)
    return ReferenceInstance(tokens, segments, masked_positions, labels, is_swapped)


def choose_masked_positions(
    words: list[list[int]], length: int, max_masked: int, rng: random.Random
) -> list[int]:
    """Return the positions of n-grams of one to three words, up to 15% of the tokens or `max_masked`.

    As in the reference code, the n-grams that start at each word are listed first; numpy draws their sizes.
    """
    target_count = min(max_masked, max(1, round(0.15 * length)))
    sizes = np.arange(1, 4)
    weights = 1.0 / sizes
    ngrams = [[words[first : first + size] for size in range(1, 4)] for first in range(len(words))]
    for first, ngram_choices in enumerate(ngrams):
        del ngram_choices[max(1, len(words) - first) :]
    rng.shuffle(ngrams)
    covered: set[int] = set()
    for ngram_choices in ngrams:
        if len(covered) >= target_count:
            break
        if any(position in covered for position in ngram_choices[0][0]):
            continue
        max_size = len(ngram_choices)
        size = int(np.random.choice(sizes[:max_size], p=weights[:max_size] / weights[:max_size].sum()))
        positions = [position for word in ngram_choices[size - 1] for position in word]
        while size > 1 and len(covered) + len(positions) > target_count:
            size -= 1
            positions = [position for word in ngram_choices[size - 1] for position in word]
        if len(covered) + len(positions) > target_count or any(position in covered for position in positions):
            continue
        covered.update(positions)
    return sorted(covered)

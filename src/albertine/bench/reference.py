"""The reference code's way to pairs and masks, in plain Python, from its description.

What `albertine bench corpus` times ours against, and what the tests hold ours beside.
It walks through a document, gathers sentences until there are enough, cuts, swaps,
shortens piece by piece and masks run by run.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

OPENING, CLOSING, MASK = 2, 3, 4
_SPECIAL = 5


@dataclass(frozen=True)
class Instance:
    """One sequence as the reference code writes it."""

    tokens: list[int]
    types: list[int]
    masked: list[int]
    labels: list[int]
    swapped: bool


Document = Sequence[Sequence[tuple[int, bool]]]  # sentences of pieces, each with whether it begins a word


def instances(
    document: Document, *, length: int, short: float, most_masked: int, vocab_size: int, draw: random.Random
) -> list[Instance]:
    """Walk through a document and make its instances, with sentence order as the second task."""
    room = length - 3
    found = []
    chunk: list[Sequence[tuple[int, bool]]] = []
    size = 0
    target = draw.randint(2, room) if draw.random() < short else room
    for number, sentence in enumerate(document):
        chunk.append(sentence)
        size += len(sentence)
        if number == len(document) - 1 or size >= target:
            if len(chunk) > 1:
                cut = draw.randint(1, len(chunk) - 1)
                a = [piece for one in chunk[:cut] for piece in one]
                b = [piece for one in chunk[cut:] for piece in one]
                swapped = draw.random() < 0.5
                if swapped:
                    a, b = b, a
                shorten(a, b, room, draw)
                found.append(_instance(a, b, swapped, most_masked, vocab_size, draw))
            chunk, size = [], 0
            target = draw.randint(2, room) if draw.random() < short else room
    return found


def shorten(a: list[tuple[int, bool]], b: list[tuple[int, bool]], room: int, draw: random.Random) -> None:
    """Take pieces off the longer of two, one by one, in front or at the back."""
    while len(a) + len(b) > room:
        longer = a if len(a) > len(b) else b
        if draw.random() < 0.5:
            del longer[0]
        else:
            longer.pop()


def _instance(
    a: list[tuple[int, bool]],
    b: list[tuple[int, bool]],
    swapped: bool,
    most_masked: int,
    vocab_size: int,
    draw: random.Random,
) -> Instance:
    tokens = [OPENING, *(piece for piece, _ in a), CLOSING, *(piece for piece, _ in b), CLOSING]
    types = [0] * (len(a) + 2) + [1] * (len(b) + 1)
    words: list[list[int]] = []
    for segment, base in ((a, 1), (b, len(a) + 2)):
        for place, (_, begins) in enumerate(segment):
            if begins or not place:
                words.append([])
            words[-1].append(base + place)
    masked = masks(words, len(tokens), most_masked, draw)
    labels = [tokens[place] for place in masked]
    for place in masked:
        if draw.random() < 0.8:
            tokens[place] = MASK
        elif draw.random() >= 0.5:
            tokens[place] = draw.randint(_SPECIAL, vocab_size - 1)
    return Instance(tokens, types, masked, labels, swapped)


def masks(words: list[list[int]], length: int, most_masked: int, draw: random.Random) -> list[int]:
    """Choose runs of one to three words until the budget is spent.

    As in the reference code, every run from every word is listed first, and numpy draws among them.
    """
    wanted = min(most_masked, max(1, round(0.15 * length)))
    sizes = np.arange(1, 4)
    chances = 1.0 / sizes
    runs = [[words[first : first + size] for size in range(1, 4)] for first in range(len(words))]
    for first, choices in enumerate(runs):
        del choices[max(1, len(words) - first) :]
    draw.shuffle(runs)
    covered: set[int] = set()
    for choices in runs:
        if len(covered) >= wanted:
            break
        if any(place in covered for place in choices[0][0]):
            continue
        most = len(choices)
        size = int(np.random.choice(sizes[:most], p=chances[:most] / chances[:most].sum()))
        pieces = [place for word in choices[size - 1] for place in word]
        while size > 1 and len(covered) + len(pieces) > wanted:
            size -= 1
            pieces = [place for word in choices[size - 1] for place in word]
        if len(covered) + len(pieces) > wanted or any(place in covered for place in pieces):
            continue
        covered.update(pieces)
    return sorted(covered)

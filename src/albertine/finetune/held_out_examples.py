"""The part of the training examples that is held out for evaluation; equal texts stay together.

A model may have memorized the label of a text that is also in the training data, which raises the score.
"""

from collections.abc import Sequence

import numpy as np

from albertine.errors import InputError
from albertine.randomness import Stream, random_bits, uniform
from albertine.tasks.examples import Example


def hold_out(
    examples: Sequence[Example], fraction: float, seed: int, data: str
) -> tuple[list[Example], list[Example]]:
    """Return the examples for training and those for evaluation, both in order.

    Args:
        examples: all examples.
        fraction: of the examples to hold out; at least one is, and at least one is left. It can be less
            where many texts are equal, and more where nearly all are.
        seed: selects the examples; without equal texts, the smallest of their random numbers are held out.
        data: name of the data, for messages.
    """
    groups = _groups_of_equal_texts(examples)
    if len(groups) < 2:
        texts = "only one example" if len(examples) == 1 else "all examples have the same text"
        raise InputError(f"{data}: {texts}, so none can be held out; give --dev")
    random_values = uniform(random_bits(seed, Stream.HELD_OUT_EXAMPLES, np.arange(len(examples))))
    groups.sort(key=lambda indices: random_values[indices[0]])
    count = min(len(examples) - 1, max(1, round(fraction * len(examples))))
    held_out: set[int] = set()
    for indices in groups:
        if len(held_out) + len(indices) <= count:
            held_out.update(indices)
    if len(held_out) < count / 2:  # the other groups are larger than what is wanted
        smallest = sorted((indices for indices in groups if indices[0] not in held_out), key=len)[0]
        if not held_out or 2 * (len(held_out) + len(smallest)) <= len(examples):
            held_out.update(smallest)
    return (
        [example for index, example in enumerate(examples) if index not in held_out],
        [example for index, example in enumerate(examples) if index in held_out],
    )


def count_repeated(examples: Sequence[Example]) -> int:
    """Return how many examples have the texts of an earlier one."""
    return len(examples) - len({example.all_texts for example in examples})


def count_shared(train: Sequence[Example], dev: Sequence[Example]) -> int:
    """Return how many examples for evaluation have the texts of a training example."""
    known = {example.all_texts for example in train}
    return sum(example.all_texts in known for example in dev)


def _groups_of_equal_texts(examples: Sequence[Example]) -> list[list[int]]:
    """Return the indices of the examples, those of equal texts together."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for index, example in enumerate(examples):
        groups.setdefault(example.all_texts, []).append(index)
    return list(groups.values())

"""The part of the training examples that is held out for evaluation; equal texts stay together.

A model may have memorized the label of a text that is also in the training data, which raises the score.
So may answers about a passage: its questions stay together too, if there are enough passages for it.

A label with all its texts held out could not be learned, so one of them stays in the training data, unless
that would leave nothing to evaluate on.
"""

from collections.abc import Callable, Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

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
            where many texts are equal or many labels are rare, and more where nearly all are.
        seed: selects the examples; without equal texts, the smallest of their random numbers are held out.
        data: name of the data, for messages.
    """
    groups = _groups(examples, lambda example: example.all_texts)
    if len(groups) < 2:
        texts = "only one example" if len(examples) == 1 else "all examples have the same text"
        raise InputError(f"{data}: {texts}, so none can be held out; give --dev")
    random_values = uniform(random_bits(seed, Stream.HELD_OUT_EXAMPLES, np.arange(len(examples))))
    count = min(len(examples) - 1, max(1, round(fraction * len(examples))))
    passages = _groups(examples, lambda example: example.passage or example.all_texts)
    held_out: set[int] = set()
    if len(passages) > 1:
        held_out = _choose(passages, random_values, count)
    if not count / 2 <= len(held_out) <= 2 * count:  # too few passages
        held_out = _choose(groups, random_values, count)
    held_out = _keep_all_labels(examples, groups, random_values, held_out)
    return (
        [example for index, example in enumerate(examples) if index not in held_out],
        [example for index, example in enumerate(examples) if index in held_out],
    )


def _choose(groups: list[list[int]], random_values: NDArray[np.float64], count: int) -> set[int]:
    """Return the indices of whole groups, about `count`, in the order of their random numbers."""
    in_order = sorted(groups, key=lambda indices: random_values[indices[0]])
    chosen: set[int] = set()
    for indices in in_order:
        if len(chosen) + len(indices) <= count:
            chosen.update(indices)
    if len(chosen) < count / 2:  # the other groups are larger than what is wanted
        smallest = sorted((indices for indices in in_order if indices[0] not in chosen), key=len)[0]
        if not chosen or 2 * (len(chosen) + len(smallest)) <= sum(map(len, groups)):
            chosen.update(smallest)
    return chosen


def _keep_all_labels(
    examples: Sequence[Example],
    groups: list[list[int]],
    random_values: NDArray[np.float64],
    held_out: set[int],
) -> set[int]:
    """Return the held-out indices without a group for each label that the rest lacks; one group is left."""
    known = {
        label for i, example in enumerate(examples) if i not in held_out for label in example.label_names
    }
    kept = set(held_out)
    chosen = [indices for indices in groups if indices[0] in held_out]
    for indices in sorted(chosen, key=lambda indices: random_values[indices[0]], reverse=True):
        labels = {label for index in indices for label in examples[index].label_names}
        if not labels <= known and len(kept) > len(indices):
            kept.difference_update(indices)
            known |= labels
    return kept


def count_shared_passages(train: Sequence[Example], dev: Sequence[Example]) -> int:
    """Return how many examples for evaluation are about the passage of a training example."""
    known = {example.passage for example in train} - {""}
    return sum(example.passage in known for example in dev)


def count_repeated(examples: Sequence[Example]) -> int:
    """Return how many examples have the texts of an earlier one."""
    return len(examples) - len({example.all_texts for example in examples})


def count_shared(train: Sequence[Example], dev: Sequence[Example]) -> int:
    """Return how many examples for evaluation have the texts of a training example."""
    known = {example.all_texts for example in train}
    return sum(example.all_texts in known for example in dev)


def _groups(examples: Sequence[Example], key: Callable[[Example], Hashable]) -> list[list[int]]:
    """Return the indices of the examples, those of equal keys together."""
    groups: dict[Hashable, list[int]] = {}
    for index, example in enumerate(examples):
        groups.setdefault(key(example), []).append(index)
    return list(groups.values())

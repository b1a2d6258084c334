"""Edits of trees: the lists, dicts and scalars of a parsed document."""

import copy
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from tests.campaign.hostile_input.hostile_values import HostileValues

_STOP_PROBABILITY = 0.15  # that an edit changes a container itself instead of a node inside it
_MANY = 20_000
_MAX_WRITTEN_SIZE = 20_000_000  # characters and values
_MAX_REPEATED_CHARACTERS = 20_000  # of a dict or a long list


def edited_tree(tree: Any, rng: random.Random, values: HostileValues) -> Any:
    """Return a tree with one edit at a random node; may change `tree` itself."""
    holder = [tree]
    container, key = _random_node(holder, rng)
    _EDITS[rng.choice(_EDIT_NAMES)](container, key, rng, values)
    return holder[0] if holder else None


def _random_node(holder: list[Any], rng: random.Random) -> tuple[Any, Any]:
    """Return the container of a random node and the key of the node in it.

    A walk from the root picks one child at each level, so that a container with many children does not
    get most of the edits.
    """
    container: Any = holder
    key: Any = 0
    while isinstance(container[key], dict | list) and container[key]:
        if container is not holder and rng.random() < _STOP_PROBABILITY:
            break
        container = container[key]
        key = rng.choice(list(container)) if isinstance(container, dict) else rng.randrange(len(container))
    return container, key


Edit = Callable[[Any, Any, random.Random, HostileValues], None]


def _delete(container: Any, key: Any, rng: random.Random, values: HostileValues) -> None:
    del container[key]


def _replace_by_scalar(container: Any, key: Any, rng: random.Random, values: HostileValues) -> None:
    container[key] = rng.choice(values.scalars)


def _replace_by_tree(container: Any, key: Any, rng: random.Random, values: HostileValues) -> None:
    container[key] = copy.deepcopy(rng.choice(values.trees))


def _swap(container: Any, key: Any, rng: random.Random, values: HostileValues) -> None:
    other = rng.choice(list(container)) if isinstance(container, dict) else rng.randrange(len(container))
    container[key], container[other] = container[other], container[key]


def _wrap(container: Any, key: Any, rng: random.Random, values: HostileValues) -> None:
    container[key] = rng.choice([[container[key]], {"0": container[key]}, [[[container[key]]]]])


def _insert(container: Any, key: Any, rng: random.Random, values: HostileValues) -> None:
    if isinstance(container, dict):
        container[rng.choice(values.texts)] = copy.deepcopy(rng.choice(values.trees))
    else:
        container.insert(key, copy.deepcopy(rng.choice(values.trees)))


def _duplicate(container: Any, key: Any, rng: random.Random, values: HostileValues) -> None:
    if isinstance(container, dict):
        container[str(key) + rng.choice(["", " ", "_", "2"])] = copy.deepcopy(container[key])
    else:
        container.insert(key, copy.deepcopy(container[key]))


def _repeat(container: Any, key: Any, rng: random.Random, values: HostileValues) -> None:
    """Repeat a text or a list, negate a number, or replace another value by many copies of it."""
    value = container[key]
    count = rng.choice([2, 100, _MANY])
    if isinstance(value, str | list) and len(value) * count < 1 << 22:
        container[key] = value * count
    elif isinstance(value, int | float):
        container[key] = -value
    elif len(str(value)) < _MAX_REPEATED_CHARACTERS:
        container[key] = [copy.deepcopy(value)] * min(count, 100)


_NUMBER_CHANGES: tuple[Callable[[Any], Any], ...] = (
    lambda value: value + 1,
    lambda value: value - 1,
    lambda value: -value,
    lambda value: value * 2,
    lambda value: value * 1000,
    lambda value: value / 2,
    float,
)


def _nudge(container: Any, key: Any, rng: random.Random, values: HostileValues) -> None:
    """Change a value a little, so that it keeps its type."""
    value = container[key]
    if isinstance(value, bool):
        container[key] = not value
    elif isinstance(value, int | float):
        with suppress(OverflowError):  # integers that no float can hold
            container[key] = rng.choice(_NUMBER_CHANGES)(value)
    elif isinstance(value, str):
        at = rng.randint(0, len(value))
        container[key] = value[:at] + rng.choice(values.texts) + value[at + rng.randint(0, 3) :]
    elif isinstance(value, list):
        rng.shuffle(value)
    else:
        container[key] = str(value)


def _retype(container: Any, key: Any, rng: random.Random, values: HostileValues) -> None:
    value = container[key]
    container[key] = rng.choice([str(value), [], {}, None, not value, 0, 1.5, -1])


_EDITS: dict[str, Edit] = {
    "delete": _delete,
    "replace by scalar": _replace_by_scalar,
    "replace by tree": _replace_by_tree,
    "swap": _swap,
    "wrap": _wrap,
    "insert": _insert,
    "duplicate": _duplicate,
    "repeat": _repeat,
    "nudge": _nudge,
    "retype": _retype,
}
# Small edits keep most of a document valid, so commands read on and reach more code: they are more frequent.
_EDIT_NAMES = [*_EDITS, "nudge", "nudge", "replace by scalar", "replace by scalar", "retype"]


def is_writable(tree: Any) -> bool:
    """Return whether a tree is small enough to be written; edits may repeat what others have repeated."""
    size, remaining = 0, [tree]
    while remaining:
        part = remaining.pop()
        size += len(part) if isinstance(part, str | bytes) else 1
        if size > _MAX_WRITTEN_SIZE:
            return False
        if isinstance(part, dict):
            remaining += [*part, *part.values()]
        elif isinstance(part, list | tuple):
            remaining += part
    return True

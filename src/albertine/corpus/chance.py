"""Randomness without state: a number for every question, the same whenever it is asked.

A question is a row of whole numbers, such as (seed, epoch, index, purpose). The
answer is a hash of it (SplitMix64), worked out for many questions at once. Nothing
of numpy's own generators is used, whose streams may change with a version: a sample
is the same years later.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
_GOLDEN = 0x9E3779B97F4A7C15


def ask(*question: Any) -> Words:
    """Return a random word for each question; parts of it are numbers, or arrays that go together."""
    mixed = np.zeros(1, np.uint64)
    for part in question:
        mixed = _mixed(mixed * np.uint64(_GOLDEN) + np.asarray(part).astype(np.uint64))
    return mixed


def _mixed(words: Words) -> Words:
    """Change every bit of a word by every other (the finish of SplitMix64)."""
    words = (words + np.uint64(_GOLDEN)).astype(np.uint64)
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))


def uniform(words: Words) -> NDArray[np.float64]:
    """Return numbers from 0 up to 1, not included."""
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def below(words: Words, bound: Any) -> NDArray[np.int64]:
    """Return whole numbers from 0 up to a bound, not included."""
    drawn: NDArray[np.int64] = np.minimum((uniform(words) * bound).astype(np.int64), np.asarray(bound) - 1)
    return drawn


@lru_cache(maxsize=8)
def _steps(size: int) -> Words:
    return np.arange(size, dtype=np.uint64) * np.uint64(_GOLDEN)


class Stream:
    """The random words of one sample, handed out in the order they are asked for."""

    def __init__(self, key: int, size: int):
        self._words = _mixed(np.uint64(key) + _steps(size))
        self._at = 0

    def words(self, count: int) -> Words:
        """Return the next words."""
        self._at += count
        assert self._at <= len(self._words)
        return self._words[self._at - count : self._at]

    def uniform(self) -> float:
        """Return a number from 0 up to 1, not included."""
        return (int(self.words(1)[0]) >> 11) * 2.0**-53

    def below(self, bound: int) -> int:
        """Return a whole number from 0 up to a bound, not included."""
        return min(int(self.uniform() * bound), bound - 1)

    def heads(self, tosses: int) -> int:
        """Return how many of so many tosses of a coin are heads."""
        words = self.words((tosses + 63) // 64)
        bits = int.from_bytes(words.tobytes(), "little")
        return (bits & ((1 << tosses) - 1)).bit_count()


class Order:
    """A shuffled order of 0 to N - 1 that is never written down.

    A Feistel network shuffles the numbers of some bits, keyed; numbers that fall
    outside N go through it again until they fall inside.
    """

    _ROUNDS = 6

    def __init__(self, count: int, key: int):
        self._count = count
        self._half = np.uint64(max(1, (max(1, count - 1).bit_length() + 1) // 2))
        self._low = np.uint64((1 << int(self._half)) - 1)
        self._keys = [ask(key, turn) for turn in range(self._ROUNDS)]

    def __getitem__(self, places: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what stands at some places."""
        found = self._shuffled(places.astype(np.uint64))
        while (outside := found >= self._count).any():
            found[outside] = self._shuffled(found[outside])
        return found.astype(np.int64)

    def _shuffled(self, words: Words) -> Words:
        left, right = words >> self._half, words & self._low
        for key in self._keys:
            left, right = right, left ^ (_mixed(right ^ key) & self._low)
        return (left << self._half) | right

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

RandomBits = NDArray[np.uint64]
_GOLDEN_GAMMA = 0x9E3779B97F4A7C15


def random_bits(*key: Any) -> RandomBits:
    """Return a random word for each question; parts of it are numbers, or arrays that go together."""
    mixed = np.zeros(1, np.uint64)
    for part in key:
        mixed = _splitmix64(mixed * np.uint64(_GOLDEN_GAMMA) + np.asarray(part).astype(np.uint64))
    return mixed


def _splitmix64(bits: RandomBits) -> RandomBits:
    """Change every bit of a word by every other (the finish of SplitMix64)."""
    bits = (bits + np.uint64(_GOLDEN_GAMMA)).astype(np.uint64)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def uniform(bits: RandomBits) -> NDArray[np.float64]:
    """Return numbers from 0 up to 1, not included."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def integers(bits: RandomBits, high: Any) -> NDArray[np.int64]:
    """Return whole numbers from 0 up to a bound, not included."""
    drawn: NDArray[np.int64] = np.minimum((uniform(bits) * high).astype(np.int64), np.asarray(high) - 1)
    return drawn


@lru_cache(maxsize=8)
def _counter(size: int) -> RandomBits:
    return np.arange(size, dtype=np.uint64) * np.uint64(_GOLDEN_GAMMA)


class RandomStream:
    """The random words of one sample, handed out in the order they are asked for."""

    def __init__(self, key: int, size: int):
        self._bits = _splitmix64(np.uint64(key) + _counter(size))
        self._next = 0

    def bits(self, count: int) -> RandomBits:
        """Return the next words."""
        self._next += count
        assert self._next <= len(self._bits)
        return self._bits[self._next - count : self._next]

    def uniform(self) -> float:
        """Return a number from 0 up to 1, not included."""
        return (int(self.bits(1)[0]) >> 11) * 2.0**-53

    def integer(self, high: int) -> int:
        """Return a whole number from 0 up to a bound, not included."""
        return min(int(self.uniform() * high), high - 1)

    def binomial(self, trials: int) -> int:
        """Return how many of so many tosses of a coin are heads."""
        drawn = self.bits((trials + 63) // 64)
        mask = int.from_bytes(drawn.tobytes(), "little")
        return (mask & ((1 << trials) - 1)).bit_count()


class Permutation:
    """A shuffled order of 0 to N - 1 that is never written down.

    A Feistel network shuffles the numbers of some bits, keyed; numbers that fall
    outside N go through it again until they fall inside.
    """

    _ROUNDS = 6

    def __init__(self, count: int, key: int):
        self._count = count
        self._half_bits = np.uint64(max(1, (max(1, count - 1).bit_length() + 1) // 2))
        self._low_mask = np.uint64((1 << int(self._half_bits)) - 1)
        self._round_keys = [random_bits(key, round_index) for round_index in range(self._ROUNDS)]

    def __getitem__(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return what stands at some places."""
        found = self._permute_bits(indices.astype(np.uint64))
        while (outside := found >= self._count).any():
            found[outside] = self._permute_bits(found[outside])
        return found.astype(np.int64)

    def _permute_bits(self, bits: RandomBits) -> RandomBits:
        left, right = bits >> self._half_bits, bits & self._low_mask
        for key in self._round_keys:
            left, right = right, left ^ (_splitmix64(right ^ key) & self._low_mask)
        return (left << self._half_bits) | right

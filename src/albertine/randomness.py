"""Stateless random numbers: a hash of a key of integers, such as (seed, epoch, stream, index).

Equal keys give equal bits, in any order of calls and on any machine. A stream is a
constant that separates the random numbers of one purpose from those of another. The hash
is SplitMix64, computed for many keys at once. numpy's generators are not used, because
their output may change between versions; samples must stay the same for years.
"""

import hashlib
from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch

RandomBits = NDArray[np.uint64]
UniformRandom = Callable[[], float]  # draws from [0, 1)
_GOLDEN_GAMMA = 0x9E3779B97F4A7C15


class Stream(IntEnum):
    """Purposes of random numbers; as part of a key, they keep the draws for each purpose independent.

    Every hash depends on these values, so they must never change.
    """

    WINDOW_ORDER = 0
    WINDOW_SLIDE = 1
    SHORT_SAMPLES = 2
    SHORT_LENGTHS = 3
    SAMPLES = 4
    BATCH_POOL = 5
    FINETUNING_ORDER = 9
    HELD_OUT_EXAMPLES = 11
    HELD_OUT_PASSAGES = 12
    BASELINE_EXAMPLES = 13
    SAMPLED_EXAMPLES = 14
    TEXT_FRACTION = 15
    REPORT_SENTENCES = 16
    REPORT_EXAMPLES = 17
    REPORT_DECISIONS = 18
    CAUSAL_TARGETS = 19


def random_bits(*key: Any) -> RandomBits:
    """Return 64 random bits for a key [1], or for each of many keys.

    Args:
        key: integers, or arrays of integers, which broadcast; each element of the result has its own key.
    """
    bits = np.zeros(1, np.uint64)
    for part in key:
        bits = _splitmix64(bits * np.uint64(_GOLDEN_GAMMA) + np.asarray(part).astype(np.uint64))
    return bits


def _splitmix64(bits: RandomBits) -> RandomBits:
    """Return the next output of SplitMix64 for each state."""
    bits = (bits + np.uint64(_GOLDEN_GAMMA)).astype(np.uint64)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def uniform(bits: RandomBits) -> NDArray[np.float64]:
    """Return uniform numbers in [0, 1)."""
    return (bits >> np.uint64(11)).astype(np.float64) * 2.0**-53


def integers(bits: RandomBits, high: Any) -> NDArray[np.int64]:
    """Return uniform integers in [0, high)."""
    # `minimum`, because the product can be rounded up to `high`.
    drawn: NDArray[np.int64] = np.minimum((uniform(bits) * high).astype(np.int64), np.asarray(high) - 1)
    return drawn


def choose(choices: Sequence[Any], random: UniformRandom) -> Any:
    """Return one of the choices, drawn uniformly."""
    return choices[int(random() * len(choices))]


def named_generator(name: str) -> "torch.Generator":
    """Return a generator for torch, seeded with the hash of a name."""
    import torch

    digest = hashlib.sha256(name.encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "big", signed=True))


@lru_cache(maxsize=8)
def _generator_states(size: int) -> RandomBits:
    """Return the first states of SplitMix64 with seed 0; its state grows by a constant per step."""
    return np.arange(size, dtype=np.uint64) * np.uint64(_GOLDEN_GAMMA)


class RandomStream:
    """A sequence of up to `size` 64-bit random numbers from one key, consumed in order."""

    def __init__(self, key: int, size: int):
        self._bits = _splitmix64(np.uint64(key) + _generator_states(size))
        self._next = 0

    def next_bits(self, count: int) -> RandomBits:
        """Return the next `count` numbers, `[count]`."""
        self._next += count
        assert self._next <= len(self._bits)
        return self._bits[self._next - count : self._next]

    def uniform(self) -> float:
        """Return a uniform number in [0, 1)."""
        return (int(self.next_bits(1)[0]) >> 11) * 2.0**-53

    def integer(self, high: int) -> int:
        """Return a uniform integer in [0, high)."""
        return min(int(self.uniform() * high), high - 1)

    def binomial(self, trials: int) -> int:
        """Return the number of heads in `trials` tosses of a fair coin."""
        drawn = self.next_bits((trials + 63) // 64)
        tosses = int.from_bytes(drawn.tobytes(), "little")
        return (tosses & ((1 << trials) - 1)).bit_count()


class Permutation:
    """A random permutation of 0 to N - 1 that is computed element by element and never stored.

    A keyed Feistel network permutes the integers of a fixed number of bits. A result of N or
    more is permuted again until it is less than N (cycle walking).
    """

    _ROUNDS = 6

    def __init__(self, count: int, key: int):
        self._count = count
        self._half_bits = np.uint64(max(1, (max(1, count - 1).bit_length() + 1) // 2))
        self._low_mask = np.uint64((1 << int(self._half_bits)) - 1)
        self._round_keys = [random_bits(key, round_index) for round_index in range(self._ROUNDS)]

    def __getitem__(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the elements of the permutation at `indices`."""
        elements = self._permute_bits(indices.astype(np.uint64))
        while (too_large := elements >= self._count).any():
            elements[too_large] = self._permute_bits(elements[too_large])
        return elements.astype(np.int64)

    def _permute_bits(self, bits: RandomBits) -> RandomBits:
        """Return each element, an integer of `2 * _half_bits` bits, permuted by the Feistel network."""
        left, right = bits >> self._half_bits, bits & self._low_mask
        for round_key in self._round_keys:
            left, right = right, left ^ (_splitmix64(right ^ round_key) & self._low_mask)
        return (left << self._half_bits) | right

"""The scores of recent texts, so that a text that repeats is computed once."""

import base64
from collections import OrderedDict
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

LogLikelihoods: TypeAlias = NDArray[np.float32]


class ScoreCache:
    """Log-probabilities of the tokens of texts; if there are too many, the least recently used ones leave."""

    def __init__(self, max_tokens: int):
        self._max_tokens, self._num_tokens = max_tokens, 0
        self._entries: OrderedDict[bytes, tuple[LogLikelihoods, ...]] = OrderedDict()  # oldest use first

    def get(self, key: bytes) -> tuple[LogLikelihoods, ...] | None:
        """Return what `add` stored for a text, one array `[tokens]` for each method; None if it is gone."""
        if key in self._entries:
            self._entries.move_to_end(key)
        return self._entries.get(key)

    def add(self, key: bytes, log_likelihoods: tuple[LogLikelihoods, ...]) -> None:
        """Store the log-probabilities of a text, one array `[tokens]` for each method."""
        self._num_tokens -= _size(self._entries.pop(key, None))
        # Copies, because a view would keep the array of a whole group of texts in memory.
        self._entries[key] = tuple(values.copy() for values in log_likelihoods)
        self._num_tokens += _size(log_likelihoods)
        while self._num_tokens > self._max_tokens:
            _, removed = self._entries.popitem(last=False)
            self._num_tokens -= _size(removed)

    def state(self) -> list[Any]:
        """Return the entries as a JSON value, in the order of their use."""
        return [
            [_text(key), *(_text(values.tobytes()) for values in log_likelihoods)]
            for key, log_likelihoods in self._entries.items()
        ]

    def restore(self, state: list[Any]) -> None:
        """Add the entries of a state; in an empty cache, the result is the one that the state is of."""
        for key, *values in state:
            arrays = tuple(np.frombuffer(base64.b64decode(value), np.float32) for value in values)
            self.add(base64.b64decode(key), arrays)


def _size(log_likelihoods: tuple[LogLikelihoods, ...] | None) -> int:
    """Return the tokens of an entry; at least 1, so that texts without tokens leave, too."""
    return 0 if log_likelihoods is None else max(1, sum(map(len, log_likelihoods)))


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()

"""Heartbeats of workers: the event loop of each counts up, and the supervisor sees whose count has stopped.

A worker that is stopped, or whose event loop is blocked, answers nobody, but does not end by itself.
"""

import asyncio
import time

import numpy as np
from numpy.typing import NDArray

from albertine.deploy.metrics import HEARTBEATS, ServerMetrics

HANG_SECONDS = 10.0
_BEAT_SECONDS = 1.0
_MAX_STEP_SECONDS = 1.0


async def send_heartbeats(metrics: ServerMetrics) -> None:
    """Count up while the event loop runs."""
    while True:
        metrics.add(HEARTBEATS, 1)
        await asyncio.sleep(_BEAT_SECONDS)


class HeartbeatWatch:
    """Measures for how long the count of each worker has been the same.

    Only time counts in which the supervisor runs, too: if the whole server was stopped, as by Ctrl-Z, its
    workers are not taken for hung when it continues.
    """

    def __init__(self, values: NDArray[np.float64]):
        """Store where the counts are.

        Args:
            values: the metrics of all workers, `[workers, MAX_VALUES]`.
        """
        self._counts = values[:, HEARTBEATS]
        self._last_counts = self._counts.copy()
        self._silent_seconds = np.zeros(len(values))
        self._last_update = time.monotonic()

    def update(self) -> None:
        """Look at all counts."""
        now = time.monotonic()
        passed, self._last_update = min(now - self._last_update, _MAX_STEP_SECONDS), now
        is_same = self._counts == self._last_counts
        self._silent_seconds = np.where(is_same, self._silent_seconds + passed, 0.0)
        self._last_counts = self._counts.copy()

    def is_silent(self, worker: int) -> bool:
        """Return whether a worker has not counted for too long."""
        return bool(self._silent_seconds[worker] > HANG_SECONDS)

    def are_all_silent(self) -> bool:
        """Return whether no worker has counted for too long, because they hang, or load the model."""
        return bool(self._silent_seconds.min() > HANG_SECONDS)

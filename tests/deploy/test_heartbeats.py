"""Tests of heartbeats: they follow the event loop, and only time counts in which the supervisor runs."""

import asyncio
import time

import pytest

from albertine.deploy import heartbeats
from albertine.deploy.heartbeats import HANG_SECONDS, HeartbeatWatch, send_heartbeats
from albertine.deploy.metrics import HEARTBEATS, ServerMetrics, new_values


def test_a_blocked_event_loop_sends_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeats, "_BEAT_SECONDS", 0.01)
    metrics, counts = ServerMetrics([], []), []

    async def serve() -> None:
        task = asyncio.create_task(send_heartbeats(metrics))
        await asyncio.sleep(0.2)
        counts.append(metrics.total(HEARTBEATS))
        time.sleep(0.2)  # blocks the event loop
        counts.append(metrics.total(HEARTBEATS))
        task.cancel()

    asyncio.run(serve())
    assert counts[0] == counts[1] > 1


class Clock:
    """A clock that the tests move, in place of the module `time`."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def test_a_worker_is_silent_when_its_count_stays_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(heartbeats, "time", clock)
    values = new_values(2)
    watch = HeartbeatWatch(values)

    def pass_time(*beating: int, steps: int = int(2 * HANG_SECONDS)) -> list[bool]:
        for _ in range(steps):
            clock.seconds += 0.75
            values[list(beating), HEARTBEATS] += 1
            watch.update()
        return [watch.is_silent(0), watch.is_silent(1), watch.are_all_silent()]

    assert pass_time(0, 1) == [False, False, False]
    assert pass_time(0) == [False, True, False]
    assert pass_time() == [True, True, True]
    assert pass_time(1, steps=1) == [True, False, False]
    assert pass_time(0, steps=1) == [False, False, False]


def test_time_in_which_the_supervisor_was_stopped_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(heartbeats, "time", clock)
    watch = HeartbeatWatch(new_values(1))
    for _ in range(3):
        clock.seconds += 3_600
        watch.update()
    assert not watch.is_silent(0)

"""Tests of shutdown signals: one, two at once, and a later second one."""

import os
import signal

import pytest

from albertine.train import shutdown
from albertine.train.shutdown import ShutdownSignal


def test_simultaneous_signals_count_once_and_a_later_one_stops_immediately(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("albertine.train.shutdown.time.monotonic", lambda: now)
    asked = ShutdownSignal()
    with asked.handlers_installed():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert asked.received == signal.SIGINT
        now += 1.5
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_interruptible_blocks_are_interrupted() -> None:
    asked = ShutdownSignal()
    with asked.handlers_installed():
        with pytest.raises(shutdown.ShutdownRequested), asked.interruptible(True):
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(shutdown.ShutdownRequested), asked.interruptible(True):
            pytest.fail("nothing new begins")
        with asked.interruptible(False):
            pass
    assert asked.received == signal.SIGTERM

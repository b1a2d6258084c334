"""Tests of shutdown signals: a single one, two at once, and a second one later."""

import os
import signal

import pytest

from albertine.train.shutdown import ShutdownRequested, ShutdownSignal


def test_simultaneous_signals_count_once_and_a_later_one_stops_immediately(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr("albertine.train.shutdown.time.monotonic", lambda: now)
    shutdown_signal = ShutdownSignal()
    with shutdown_signal.handlers_installed():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert shutdown_signal.received == signal.SIGINT
        now += 1.5
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_signal_interrupts_only_interruptible_blocks() -> None:
    shutdown_signal = ShutdownSignal()
    with shutdown_signal.handlers_installed():
        with pytest.raises(ShutdownRequested), shutdown_signal.interruptible(when=True):
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(ShutdownRequested), shutdown_signal.interruptible(when=True):
            pytest.fail("the block must not run after a signal")
        with shutdown_signal.interruptible(when=False):
            pass
    assert shutdown_signal.received == signal.SIGTERM

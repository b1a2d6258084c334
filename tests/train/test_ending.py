"""Being asked to end: once, twice at once, and again."""

import os
import signal

import pytest

from albertine.train import ending
from albertine.train.ending import Ending


def test_twice_at_once_is_once_and_again_is_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("albertine.train.ending.time.monotonic", lambda: now)
    asked = Ending()
    with asked.listening():
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        assert asked.signal == signal.SIGINT
        now += 1.5
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_what_may_be_dropped_is_dropped() -> None:
    asked = Ending()
    with asked.listening():
        with pytest.raises(ending.Asked), asked.may_drop(True):
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(ending.Asked), asked.may_drop(True):
            pytest.fail("nothing new begins")
        with asked.may_drop(False):
            pass
    assert asked.signal == signal.SIGTERM

"""Tests of lost processes: a peer that ends or freezes gives one clear line, never a hang."""

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch

from albertine.errors import ExitStatus, InputError
from albertine.file_lock import file_lock
from albertine.train.distributed import LostPeer, init_distributed, restart_wait_seconds

# A process that joins, takes part in one sum, and then ends or freezes.
PEER = """
import os, signal, sys
from torch import distributed, float64, ones
print("imported", flush=True)
distributed.init_process_group("gloo")
distributed.all_reduce(ones(1, dtype=float64))
os.kill(os.getpid(), getattr(signal, sys.argv[1]))
"""


def start_peer(end: str, monkeypatch: pytest.MonkeyPatch) -> subprocess.Popen[bytes]:
    """Start rank 1 of 2, and make this process rank 0."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    group = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    for name, value in {**group, "RANK": "0"}.items():
        monkeypatch.setenv(name, value)
    peer = subprocess.Popen(
        [sys.executable, "-c", PEER, end], env={**os.environ, **group, "RANK": "1"}, stdout=subprocess.PIPE
    )
    assert peer.stdout
    assert peer.stdout.readline() == b"imported\n"  # the import can take longer than the timeout
    return peer


@pytest.mark.slow
@pytest.mark.parametrize(
    ("end", "message"),
    [
        ("SIGKILL", r"^rank 0 of 2: lost the connection to another process at \[127.0.0.1\]:\d+, which has"),
        ("SIGSTOP", "^rank 0 of 2: another process did not respond for 0.2 minutes"),
    ],
)
def test_a_lost_process_gives_one_line(end: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = start_peer(end, monkeypatch)
    try:
        with pytest.raises(LostPeer, match=message) as raised, init_distributed("cpu", 0.2) as distributed:
            distributed.all_reduce_sum([1.0])
            started = time.monotonic()
            distributed.all_reduce_sum([1.0])
        assert time.monotonic() - started < 60  # the timeout is 12 s
    finally:
        peer.kill()
        peer.communicate()
    assert raised.value.status == ExitStatus.FAILED
    assert "\n" not in str(raised.value)
    assert "resumes from the last checkpoint" in str(raised.value)
    assert not torch.distributed.is_initialized()


def test_a_defect_is_not_reported_as_a_lost_process(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        monkeypatch.setenv("MASTER_PORT", str(listener.getsockname()[1]))
    for name, value in {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RuntimeError, match="shape") as raised, init_distributed("cpu"):
        torch.ones(2).reshape(3)
    assert not isinstance(raised.value, LostPeer)


def test_only_a_run_that_can_restart_waits_for_its_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TORCHELASTIC_MAX_RESTARTS", raising=False)
    assert restart_wait_seconds(10.0) == 0
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "0")
    assert restart_wait_seconds(10.0) == 0
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    assert 0 < restart_wait_seconds(10.0) < 600


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    lock, is_held, release = tmp_path / "lock", threading.Event(), threading.Event()

    def hold() -> None:
        with file_lock(lock, "busy"):
            is_held.set()
            release.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait()
    with pytest.raises(InputError, match="busy"), file_lock(lock, "busy", wait_seconds=0.2):
        pass
    threading.Timer(0.3, release.set).start()
    with file_lock(lock, "busy", wait_seconds=30):
        assert release.is_set()
    holder.join()

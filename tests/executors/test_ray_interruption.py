"""Tests of real commands on Ray: signals, clusters that run already, and what is left afterwards."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

pytest.importorskip("ray")  # it is not built for every platform

LONG = ["--stories", "2000000", "--extra", "0", "--other", "0", "--train", "0", "--cluster", "ray"]
SHORT = ["--stories", "20", "--extra", "0", "--other", "0", "--train", "0", "--cluster", "ray"]


def start(out: Path, options: list[str], **environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "albertine", "world", "write", str(out), *options]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RAY_ADDRESS": "local", **environment},
        start_new_session=True,
    )


def wait_until_jobs_run(command: subprocess.Popen[str], out: Path) -> list[psutil.Process]:
    """Wait for the first file of a job; return the processes that the command has started."""
    deadline = time.monotonic() + 300
    while not list(out.parent.glob("*/text/*.txt")):
        assert command.poll() is None, command.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    processes: list[psutil.Process] = psutil.Process(command.pid).children(recursive=True)
    return processes


def cluster_folders(command: subprocess.Popen[str]) -> list[Path]:
    """Return the folders of the cluster that a command has started."""
    return [session.parent for session in Path("/tmp").glob(f"albertine-ray-*/session_*_{command.pid}")]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "status", "whole_group"),
    [
        (signal.SIGINT, 130, False),
        (signal.SIGINT, 130, True),  # as Ctrl-C in a terminal
        (signal.SIGTERM, 143, False),
        (signal.SIGTERM, 143, True),  # as a job scheduler does
    ],
)
def test_a_signal_ends_the_command_and_its_cluster(
    tmp_path: Path, number: signal.Signals, status: int, whole_group: bool
) -> None:
    command = start(tmp_path / "world", LONG)
    processes = wait_until_jobs_run(command, tmp_path / "world")
    assert len(processes) >= 3
    # A signal to the group of the command must reach none of them: without a raylet, Ray ends the command.
    for process in processes:
        with suppress(ProcessLookupError):  # it has ended
            assert os.getpgid(process.pid) != command.pid
    assert len(cluster_folders(command)) == 1
    (os.killpg if whole_group else os.kill)(command.pid, number)
    output, errors = command.communicate(timeout=120)
    assert command.returncode == status, errors
    assert output == ""
    assert errors.splitlines()[-1] == "albertine: interrupted"
    assert "Traceback" not in errors
    assert not psutil.wait_procs(processes, timeout=10)[1]
    assert list(tmp_path.iterdir()) == []
    assert not cluster_folders(command)


@pytest.mark.long
@pytest.mark.slow
def test_a_killed_command_leaves_no_process(tmp_path: Path) -> None:
    command = start(tmp_path / "world", LONG)
    processes = wait_until_jobs_run(command, tmp_path / "world")
    command.kill()
    command.communicate()
    assert not psutil.wait_procs(processes, timeout=120)[1]
    for folder in cluster_folders(command):
        shutil.rmtree(folder)


@pytest.mark.slow
def test_a_killed_raylet_ends_the_command_with_one_line(tmp_path: Path) -> None:
    command = start(tmp_path / "world", LONG)
    processes = wait_until_jobs_run(command, tmp_path / "world")
    [raylet] = [process for process in processes if process.name() == "raylet"]
    raylet.kill()
    _, errors = command.communicate(timeout=120)
    assert command.returncode == 1, errors
    [message] = [line for line in errors.splitlines() if line.startswith("albertine: ")]
    assert "run the same command again" in message
    assert "Traceback" not in errors
    assert not psutil.wait_procs(processes, timeout=60)[1]
    assert list(tmp_path.iterdir()) == []
    assert not cluster_folders(command)


@pytest.fixture
def folder() -> Iterator[Path]:
    """Yield a folder with a short path, because Ray has sockets in it."""
    path = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.mark.long
@pytest.mark.slow
def test_a_running_cluster_is_joined_and_stays(tmp_path: Path, folder: Path) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    script = "import sys; from ray.scripts.scripts import main; sys.exit(main())"
    options = ["--head", f"--port={port}", "--num-cpus=2", "--include-dashboard=false", "--block"]
    environment = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_TMPDIR": str(folder), "RAY_AUTH_MODE": "disabled"}
    with subprocess.Popen(
        [sys.executable, "-c", script, "start", *options],
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as head:
        try:
            deadline = time.monotonic() + 120
            while not (folder / "ray" / "ray_current_cluster").exists():
                assert time.monotonic() < deadline
                time.sleep(0.2)
            for number, address in enumerate(("", f"127.0.0.1:{port}")):
                out = tmp_path / str(number)
                command = start(out, SHORT, RAY_ADDRESS=address, **environment)
                _, errors = command.communicate(timeout=200)
                assert command.returncode == 0, errors
                assert (out / "world.json").exists()
            assert head.poll() is None
            logs = folder / "ray" / "session_latest" / "logs"
            assert len(list(logs.glob("python-core-driver-*"))) == 2  # both commands were there
        finally:
            head.terminate()
            head.wait(60)

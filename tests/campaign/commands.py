"""Runs commands of Albertine within limits, and returns what they print, how they end and what they use.

`run_forked` runs a command in a fork of this process, which has imported everything once, so that
the command starts in milliseconds. This process must stay single-threaded, because a fork does not
inherit threads. `run_process` starts a new Python process instead, as a user does.
"""

import gc
import importlib
import os
import pkgutil
import resource
import select
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

import torch

import albertine
from albertine.cli import app
from albertine.command import run_command
from albertine.errors import ExitStatus
from albertine.interruptions import InterruptHandler

_POLL_SECONDS, _FAST_POLL_SECONDS = 0.01, 0.001
_CRASHED = 99  # status of a fork whose command raised an exception


@dataclass(frozen=True)
class Limits:
    """What a command may use; a command that exceeds the seconds or the memory is killed.

    Attributes:
        seconds: elapsed time.
        memory: resident bytes in addition to those of a process that has only imported Albertine.
        file_size: maximum bytes of a file that the command writes; None for no limit.
    """

    seconds: float = 10.0
    memory: int = 1 << 30
    file_size: int | None = None


@dataclass(frozen=True)
class Outcome:
    """How a command ended.

    Attributes:
        status: its exit status; negative if a signal ended it.
        stdout: what it printed on standard output.
        stderr: what it printed on standard error.
        seconds: elapsed time.
        cpu_seconds: processor time of the process, and of its child processes that have ended.
        memory: peak of its resident bytes, less those that it started with.
        exceeded: the limit that it exceeded, so that it was killed: "seconds", "memory" or "".
        process_group: the process group of the command; processes that it started may still run.
    """

    status: int
    stdout: bytes
    stderr: bytes
    seconds: float
    cpu_seconds: float
    memory: int
    exceeded: str
    process_group: int


def import_all() -> None:
    """Import all modules of Albertine, so that forks need not import them."""
    for module in pkgutil.walk_packages(albertine.__path__, "albertine."):
        importlib.import_module(module.name)
    with torch.device("meta"):
        torch.nn.Embedding(1, 1)  # imports torch's compiler


def command_text(arguments: Sequence[str], folder: Path) -> str:
    """Return the shell command that runs a command of Albertine in a folder."""
    words = ["albertine", *map(_quoted, arguments)]
    return f"cd {shlex.quote(str(folder))} && {' '.join(words)}"


def _quoted(word: str) -> str:
    """Return a word in shell syntax, with escapes if it is not printable."""
    if word.isprintable():
        return shlex.quote(word)
    return "$'" + "".join(f"\\x{byte:02x}" for byte in os.fsencode(word)) + "'"


def run_forked(
    arguments: Sequence[str],
    folder: Path,
    limits: Limits = Limits(),
    *,
    in_child: Callable[[], object] | None = None,
    on_poll: Callable[[int], object] | None = None,
) -> Outcome:
    """Run a command in a fork of this process, in a process group of its own.

    Args:
        arguments: the arguments of the command.
        folder: its working directory.
        limits: what it may use.
        in_child: called in the fork before the command.
        on_poll: called about every millisecond while the command runs, with its process id, which is also
            the id of its process group.
    """

    def start(stdout: IO[bytes], stderr: IO[bytes]) -> int:
        pid = os.fork()
        if pid:
            return pid
        status = _CRASHED
        try:
            gc.freeze()  # the last line collects only what the command has left
            os.setsid()
            os.chdir(folder)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(stdout.fileno(), 1)
            os.dup2(stderr.fileno(), 2)
            _limit_file_size(limits)
            torch.set_num_threads(1)
            signal.signal(signal.SIGTERM, InterruptHandler())
            if in_child:
                in_child()
            status = run_command(app, arguments)
        except KeyboardInterrupt:  # between the end of the command and the next line; as in `__main__.py`
            status = ExitStatus.TERMINATED
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as at Python's exit
            gc.collect()  # else, unlike at Python's exit, semaphores of process pools would be leaked
            sys.stderr.flush()
            os._exit(status)

    return _run_within_limits(start, limits, on_poll)


def run_process(
    arguments: Sequence[str],
    folder: Path,
    limits: Limits = Limits(),
    *,
    on_poll: Callable[[int], object] | None = None,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Outcome:
    """Run a command in a new Python process, in a process group of its own; see `run_forked`.

    Args:
        arguments: the arguments of the command.
        folder: its working directory.
        limits: what it may use.
        on_poll: see `run_forked`.
        environment: environment variables besides those of this process.
    """

    def start(stdout: IO[bytes], stderr: IO[bytes]) -> int:
        return subprocess.Popen(
            [sys.executable, "-m", "albertine", *arguments],
            cwd=folder,
            env={**os.environ, "OMP_NUM_THREADS": "1", **environment},  # as in a fork; results depend on it
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            preexec_fn=lambda: _limit_file_size(limits),
        ).pid

    return _run_within_limits(start, limits, on_poll)


def resident_bytes(pid: int | str = "self") -> int:
    """Return the resident memory of a process; 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0
    return pages * resource.getpagesize()


def _limit_file_size(limits: Limits) -> None:
    if limits.file_size is not None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # writes then fail with EFBIG
        resource.setrlimit(resource.RLIMIT_FSIZE, (limits.file_size, limits.file_size))


def _run_within_limits(
    start: Callable[[IO[bytes], IO[bytes]], int], limits: Limits, on_poll: Callable[[int], object] | None
) -> Outcome:
    """Start a process and wait for its end; kill its process group if it exceeds a limit.

    Args:
        start: starts the process with two files as its standard output and error; returns its id.
        limits: what it may use.
        on_poll: called with the process id at short intervals.
    """
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        base_memory, started = resident_bytes(), time.monotonic()
        pid = start(stdout, stderr)
        handle = os.pidfd_open(pid)
        exceeded, peak = "", 0
        poll_seconds = _FAST_POLL_SECONDS if on_poll else _POLL_SECONDS
        while not select.select([handle], [], [], poll_seconds)[0]:
            if on_poll:
                on_poll(pid)
            peak = max(peak, resident_bytes(pid) - base_memory)
            if time.monotonic() - started > limits.seconds:
                exceeded = "seconds"
            elif peak > limits.memory:
                exceeded = "memory"
            if exceeded:
                os.killpg(pid, signal.SIGKILL)
                break
        os.close(handle)
        _, raw_status, usage = os.wait4(pid, 0)
        peak = max(peak, usage.ru_maxrss * 1024 - base_memory)
        stdout.seek(0)
        stderr.seek(0)
        return Outcome(
            os.waitstatus_to_exitcode(raw_status),
            stdout.read(),
            stderr.read(),
            time.monotonic() - started,
            usage.ru_utime + usage.ru_stime,
            peak,
            exceeded,
            pid,
        )

"""`--workers`: a process that starts the workers, replaces one that dies or hangs, and stops them all.

The workers share one listening socket, so the kernel gives a connection to a worker that waits for one, and
connections in the queue survive the death of a worker. Each loads its own copy of the model. See
docs/decisions/server-workers.md for uvicorn's own supervisor.
"""

import ctypes
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from albertine import progress
from albertine.deploy.heartbeats import HANG_SECONDS, HeartbeatWatch
from albertine.deploy.http_server import ServerJob
from albertine.deploy.metrics import HANGS, LOADED, MAX_VALUES, RESTARTS
from albertine.deploy.refusals import Refusals
from albertine.deploy.server_log import ServerLog
from albertine.errors import SAME_REQUEST_SECONDS, InputError, WorkError
from albertine.interruptions import InterruptHandler
from albertine.processes import block_signals
from albertine.settings.engine import EngineName

_CONTEXT = multiprocessing.get_context("spawn")  # a fork of a process with threads may hang, and has no GPU
_POLL_SECONDS = 0.2
# A worker that dies within this time is replaced later, so that a model that kills them does not do so all
# the time.
_MIN_LIFE_SECONDS = 10.0
_MAX_DELAY_SECONDS = 30.0
# What a worker reports when it is ready: the paths of POST requests, and the library that runs the model.
_Ready: TypeAlias = tuple[Sequence[str], EngineName | None]


@dataclass
class _Worker:
    """A worker process.

    Attributes:
        index: its number, and its row of the metrics.
        process: the process.
        connection: gets the paths and the library of the model when the worker is ready, or the error that
            ended it.
        started: time of its start, or when it was ready.
        is_ready: whether it has loaded the model.
        is_hung: whether it was killed because it hung.
        num_failures: number of short-lived processes before this one.
    """

    index: int
    process: SpawnProcess
    connection: Connection
    started: float
    is_ready: bool = False
    is_hung: bool = False
    num_failures: int = 0


class Supervisor:
    """Runs the workers of a server.

    Attributes:
        values: the metrics of all workers, `[workers, MAX_VALUES]`.
    """

    def __init__(self, job: ServerJob, listener: socket.socket, log: ServerLog):
        self._job, self._listener, self._log = job, listener, log
        size = job.settings.workers * MAX_VALUES
        self._memory = _CONTEXT.RawArray(ctypes.c_double, size)
        self.values = _as_rows(self._memory)
        self._heartbeats = HeartbeatWatch(self.values)
        self._refusals = Refusals(listener, log)
        self._workers: dict[int, _Worker] = {}
        self._due: dict[int, tuple[float, int]] = {}  # by index: time of the next start, and failures
        self._last_signal: float | None = None

    def run(self, on_ready: Callable[[Sequence[str], EngineName | None], None]) -> None:
        """Start all workers, call `on_ready` when they have loaded the model, and run until a signal."""
        try:
            ready = self._start_all()
            handlers = {number: self._handle_signal(number) for number in (signal.SIGTERM, signal.SIGINT)}
            try:
                on_ready(*ready)
                while self._last_signal is None:
                    self._poll()
                self._listener.close()  # the workers close theirs; new connections are then refused
                self._heartbeats = HeartbeatWatch(self.values)  # measure anew, also for workers that load
                while self._workers:  # each finishes its requests and ends
                    self._kill_hung(also_loading=True)
                    self._collect_ended()
            finally:
                for number, handler in handlers.items():
                    signal.signal(number, handler)
        finally:
            self._kill_all()

    def _start_all(self) -> _Ready:
        """Start all workers, and return what they report when they are ready.

        With `--engine auto`, the first one measures the libraries, and all others get its choice.
        """
        settings = self._job.settings
        self._start(0)
        if settings.engine == "auto":
            _, engine = self._wait_until_ready()
            if engine is None:
                raise InputError(
                    "--engine auto: different libraries are the fastest for the members of this ensemble; "
                    "name one with --engine, or give --workers 1"
                )
            self._job = replace(self._job, settings=replace(settings, engine=engine))
        for index in range(1, settings.workers):
            self._start(index)
        return self._wait_until_ready()

    def _start(self, index: int, num_failures: int = 0) -> None:
        """Start a worker."""
        receiving, sending = _CONTEXT.Pipe(duplex=False)
        arguments = (self._job, self._listener, self._memory, index, sending)
        process = _CONTEXT.Process(target=_work, args=arguments, name=f"worker-{index}")
        with block_signals(signal.SIGINT):  # Ctrl-C is for this process, which stops the workers
            process.start()
            self._workers[index] = _Worker(
                index, process, receiving, time.monotonic(), num_failures=num_failures
            )
        sending.close()
        if self._last_signal is not None:  # it came while the worker was started
            process.terminate()

    def _wait_until_ready(self) -> _Ready:
        """Wait until all workers have loaded the model, and return what they report, or raise an error."""
        ready: _Ready = ((), "torch")
        while not all(worker.is_ready for worker in self._workers.values()):
            for worker in self._waiting():
                message = self._receive(worker)
                if isinstance(message, BaseException):
                    raise message
                if message is None:
                    raise _died_while_loading(worker.process)
                ready = message
        return ready

    def _waiting(self) -> list[_Worker]:
        """Return workers that have sent a message, or died, before they were ready; wait a little."""
        loading: dict[Any, _Worker] = {
            worker.connection: worker for worker in self._workers.values() if not worker.is_ready
        }
        return [loading[connection] for connection in wait(list(loading), _POLL_SECONDS)]

    def _receive(self, worker: _Worker) -> Any:
        """Return the report of a worker that is ready, the error that ended it, or None if it died."""
        try:
            message = worker.connection.recv()
        except EOFError:
            worker.process.join()
            return None
        if not isinstance(message, BaseException):
            worker.is_ready, worker.started = True, time.monotonic()
        return message

    def _poll(self) -> None:
        """Start workers that are due, note those that are ready, kill those that hang, collect the dead."""
        for index, (due, num_failures) in list(self._due.items()):
            if time.monotonic() >= due and self._last_signal is None:
                del self._due[index]
                self._start(index, num_failures)
        for worker in self._waiting():
            message = self._receive(worker)
            if worker.is_ready:
                continue
            if not any(one.is_ready for one in self._workers.values()):
                raise message or _died_while_loading(worker.process)
            if message is not None:
                self._log.error(f"a new worker failed: {message}")
        self._kill_hung(also_loading=False)
        self._refusals.update(is_refusing=self._heartbeats.are_all_silent())
        self._collect_ended()

    def _kill_hung(self, *, also_loading: bool) -> None:
        """Kill workers that hang; they are then replaced like any that has died."""
        self._heartbeats.update()
        for worker in self._workers.values():
            may_hang = (worker.is_ready or also_loading) and not worker.is_hung
            if may_hang and self._heartbeats.is_silent(worker.index):
                worker.is_hung = True
                self._log.error(
                    f"worker {worker.process.pid} has not answered for {HANG_SECONDS:.0f} s; it is killed"
                )
                self.values[worker.index, LOADED] = 0.0
                self.values[worker.index, HANGS] += 1
                worker.process.kill()

    def _collect_ended(self) -> None:
        """Remove workers that have ended, or wait a little; unless the server is stopping, plan others."""
        sentinels = wait([one.process.sentinel for one in self._workers.values()], _POLL_SECONDS)
        for worker in [one for one in self._workers.values() if one.process.sentinel in sentinels]:
            worker.process.join()
            self._report_error(worker)
            worker.connection.close()
            del self._workers[worker.index]
            self.values[worker.index, LOADED] = 0.0
            if self._last_signal is not None:
                continue
            is_short = time.monotonic() - worker.started < _MIN_LIFE_SECONDS
            num_failures = worker.num_failures + 1 if is_short else 0
            delay = min(_MAX_DELAY_SECONDS, 2.0 ** (num_failures - 1)) if is_short else 0.0
            self._due[worker.index] = (time.monotonic() + delay, num_failures)
            self.values[worker.index, RESTARTS] += 1
            self._log.error(
                f"worker {worker.process.pid} died ({_reason(worker.process)}); "
                f"another one starts{f' in {delay:.0f} s' if delay else ''}"
            )

    def _report_error(self, worker: _Worker) -> None:
        """Print the error that ended a worker after it was ready, if it has sent one."""
        with suppress(EOFError, OSError):
            if worker.is_ready and worker.connection.poll():
                self._log.error(f"worker {worker.process.pid}: {worker.connection.recv()}")

    def _handle_signal(self, number: signal.Signals) -> Any:
        """Handle a signal by stopping the workers; return the handler before, which stays if it ignores."""
        before = signal.getsignal(number)
        if before is signal.SIG_IGN:  # SIGINT in a background job of a script
            return before

        def stop(_number: int, _frame: object) -> None:
            is_repeated = (
                self._last_signal is not None and time.monotonic() - self._last_signal < SAME_REQUEST_SECONDS
            )
            if not is_repeated:
                self._last_signal = time.monotonic()
                for worker in list(self._workers.values()):
                    worker.process.terminate()

        signal.signal(number, stop)
        return before

    def _kill_all(self) -> None:
        for worker in self._workers.values():
            worker.process.kill()
            worker.process.join()


def _died_while_loading(process: SpawnProcess) -> WorkError:
    return WorkError(
        f"a worker died while it loaded the model ({_reason(process)}), probably for lack of memory; "
        "use fewer --workers"
    )


def _as_rows(memory: Any) -> NDArray[np.float64]:
    """Return shared memory as metrics, [workers, `MAX_VALUES`]."""
    return np.frombuffer(memory, np.float64).reshape(-1, MAX_VALUES)


def _reason(process: SpawnProcess) -> str:
    """Return how a process has ended."""
    code = process.exitcode or 0
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"


def _work(job: ServerJob, listener: socket.socket, memory: Any, index: int, connection: Connection) -> None:
    """Serve a model as one of several workers."""
    signal.signal(signal.SIGTERM, InterruptHandler())
    threading.Thread(target=_stop_with_parent, daemon=True).start()
    progress.set_quiet(job.quiet)
    values = _as_rows(memory)
    try:
        from albertine.deploy.model_server import serve_model

        serve_model(job, listener, values, lambda *ready: connection.send(ready), index)
    except KeyboardInterrupt:  # stopped before it was ready
        sys.exit(1)
    except Exception as error:
        try:
            connection.send(error)
        except Exception:  # some errors cannot be pickled
            connection.send(WorkError(f"{type(error).__name__}: {error}"))
        sys.exit(1)


def _stop_with_parent() -> None:
    """Stop when the parent process is gone, even if it was killed: the port must become free."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

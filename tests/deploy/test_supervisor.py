"""Tests of several workers: a dead one and one that hangs are replaced, and a signal stops them all."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from albertine.deploy import heartbeats, supervisor
from albertine.deploy.http_server import ServerJob, bind_socket
from albertine.deploy.metrics import ANSWERED, HANGS, LOADED, RESTARTS
from albertine.deploy.server_log import ServerLog
from albertine.deploy.settings import ServeSettings
from albertine.errors import InputError, WorkError
from tests.deploy import fake_workers
from tests.deploy.test_authorization import TOKEN

WAIT_SECONDS = 90.0  # for a worker that imports torch on a busy machine


def wait_until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@contextmanager
def two_workers(
    model: Path, *options: str, **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run `albertine serve --workers 2`; yield the process and its address."""
    arguments = ["serve", str(model), "--port", "0", "--device", "cpu", "--workers", "2", *options]
    with subprocess.Popen(
        [sys.executable, "-m", "albertine", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def children(pid: int) -> list[int]:
    """Return the ids of the processes that a process has started, without those of multiprocessing."""
    ids = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in ids if "spawn_main" in Path(f"/proc/{one}/cmdline").read_text()]


def ends(pid: int) -> bool:
    """Return whether a process has ended, or is a zombie that nobody has collected yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def post(address: str, content: Any) -> Any:
    body = json.dumps(content).encode()
    with urlopen(
        Request(f"{address}predict", body, {"Content-Type": "application/json"}), timeout=60
    ) as response:
        return json.load(response)


def metric(address: str, name: str) -> str:
    with urlopen(f"{address}metrics", timeout=30) as response:
        lines = response.read().decode().splitlines()
    return next(str(line.split()[1]) for line in lines if line.startswith(f"albertine_{name} "))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc")
@pytest.mark.parametrize("whole_group", [False, True])
def test_a_dead_worker_is_replaced_and_a_signal_stops_all(whole_group: bool, models: dict[str, Path]) -> None:
    with two_workers(models["classify"], "--log-format", "json") as (process, address):
        first, second = workers = children(process.pid)
        assert post(address, [{"text": "ka"}] * 3)[0]["label"] in ("x", "y")
        os.kill(first, signal.SIGKILL)
        for _ in range(20):  # the other one answers meanwhile
            assert post(address, {"text": "ka"})
        wait_until(lambda: metric(address, "worker_restarts_total") == "1")
        wait_until(lambda: metric(address, "workers_loaded") == "2" and ends(first))
        assert metric(address, "items_total") == "23"
        assert second in children(process.pid)
        if whole_group:  # as systemd does, and Ctrl-C in a terminal
            os.killpg(process.pid, signal.SIGINT)
            os.killpg(process.pid, signal.SIGTERM)
        else:
            process.send_signal(signal.SIGTERM)
        stdout, stderr = process.communicate(timeout=WAIT_SECONDS)
    assert (process.returncode, stdout) == (0, "")
    assert all(map(ends, workers))
    messages = [line["message"] for line in map(json.loads, stderr.splitlines()) if "message" in line]
    assert messages == [
        f"{models['classify']}: POST /predict; 2 workers; open the address above in a browser to try it; "
        "stop with Ctrl-C",
        f"worker {first} died (signal SIGKILL); another one starts in 1 s",
        "stopped; answered: 23",
    ]


def health(address: str) -> Any:
    with urlopen(f"{address}health", timeout=30) as response:
        return json.load(response)


def stop(pid: int) -> None:
    """Stop a process, which then exists but does nothing."""
    os.kill(pid, signal.SIGSTOP)
    wait_until(lambda: Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc")
def test_a_worker_that_hangs_is_replaced(models: dict[str, Path]) -> None:
    complete = {"status": "ok", "workers": 2, "workers_loaded": 2}
    with two_workers(models["classify"], "--log-format", "json") as (process, address):
        first, second = children(process.pid)
        assert health(address) == complete
        stop(first)
        for _ in range(20):  # the other one answers meanwhile
            assert post(address, {"text": "ka"})["label"] in ("x", "y")
        wait_until(lambda: health(address)["status"] == "degraded")
        assert metric(address, "worker_hangs_total") == "1"
        wait_until(lambda: health(address) == complete)
        assert metric(address, "worker_restarts_total") == "1"
        stop(second)
        process.send_signal(signal.SIGTERM)  # which the stopped worker does not get
        _, stderr = process.communicate(timeout=WAIT_SECONDS)
    assert process.returncode == 0
    assert ends(first)
    assert ends(second)
    messages = [line["message"] for line in map(json.loads, stderr.splitlines()) if "message" in line]
    assert messages[1:] == [
        f"worker {first} has not answered for 10 s; it is killed",
        f"worker {first} died (signal SIGKILL); another one starts",
        f"worker {second} has not answered for 10 s; it is killed",
        "stopped; answered: 20",
    ]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc")
def test_without_a_worker_that_answers_requests_get_503(models: dict[str, Path]) -> None:
    with two_workers(models["classify"]) as (process, address):
        for worker in children(process.pid):
            stop(worker)
        started = time.monotonic()
        with pytest.raises(HTTPError, match="503") as refused:
            post(address, {"text": "ka"})
        assert time.monotonic() - started < 2 * heartbeats.HANG_SECONDS
        assert json.load(refused.value)["error"].startswith("no worker of the server answers")

        def is_answered() -> bool:
            try:
                return bool(post(address, {"text": "ka"}))
            except HTTPError:
                return False

        wait_until(is_answered)
        wait_until(lambda: health(address)["workers_loaded"] == 2)
        assert metric(address, "worker_hangs_total") == "2"


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="reads /proc")
def test_workers_end_with_a_killed_parent_and_hide_the_token(models: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "token").write_text(TOKEN)
    options = ("--token-file", str(tmp_path / "token"))
    with two_workers(models["classify"], *options) as (process, address):
        workers = children(process.pid)
        for one in (process.pid, *workers):
            assert TOKEN not in Path(f"/proc/{one}/cmdline").read_text()
        process.kill()
        wait_until(lambda: all(map(ends, workers)))
        port = int(address.rstrip("/").rpartition(":")[2])
        bind_socket("127.0.0.1", port).close()  # the port is free
        assert TOKEN not in "".join(process.communicate())


@pytest.mark.slow
def test_a_wrong_model_is_one_error_and_no_process_stays(tmp_path: Path) -> None:
    with two_workers(tmp_path) as (process, address):
        _, stderr = process.communicate(timeout=WAIT_SECONDS)
        assert (process.returncode, address) == (2, "")
    assert stderr.count("\n") == 1
    assert "config.json" in stderr


# The supervisor with small processes in place of workers.


@pytest.fixture
def new_supervisor() -> Iterator[supervisor.Supervisor]:
    job = ServerJob("model", ServeSettings(workers=2), None, False, False)
    with bind_socket("127.0.0.1", 0) as listener:
        yield supervisor.Supervisor(job, listener, ServerLog("text"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("work", "error", "message"),
    [(fake_workers.fail, InputError, "no model"), (fake_workers.die, WorkError, "SIGKILL")],
)
def test_a_worker_that_fails_at_the_start_stops_the_server(
    work: Callable[..., None],
    error: type[Exception],
    message: str,
    new_supervisor: supervisor.Supervisor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(supervisor, "_work", work)
    with pytest.raises(error, match=message):
        new_supervisor.run(lambda *_: pytest.fail("not ready"))


@pytest.mark.slow
def test_with_engine_auto_the_first_worker_chooses_for_all(
    new_supervisor: supervisor.Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_work", fake_workers.report_engine)
    settings = replace(new_supervisor._job.settings, engine="auto", workers=2)
    new_supervisor._job = replace(new_supervisor._job, settings=settings)

    def stop_all(*ready: Any) -> None:
        assert ready == (["/predict"], "openvino")
        handler = signal.getsignal(signal.SIGTERM)  # called here: a signal could end the tests
        assert callable(handler)
        handler(signal.SIGTERM, None)

    new_supervisor.run(stop_all)
    engines = [fake_workers.ENGINES[int(one)] for one in new_supervisor.values[:, ANSWERED]]
    assert engines == ["auto", "openvino"]


def test_engine_auto_refuses_an_ensemble_with_several_libraries(
    new_supervisor: supervisor.Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_work", fake_workers.report_several_engines)
    job = new_supervisor._job
    new_supervisor._job = replace(job, settings=replace(job.settings, engine="auto"))
    with pytest.raises(InputError, match="different libraries are the fastest for the members"):
        new_supervisor.run(lambda *_: None)


@pytest.mark.slow
def test_engine_auto_is_measured_once_for_all_workers(models: dict[str, Path]) -> None:
    with two_workers(models["classify"], "--engine", "auto") as (process, address):
        assert health(address) == {"status": "ok", "workers": 2, "workers_loaded": 2}
        assert post(address, {"text": "ka"})["label"] in ("x", "y")
        process.send_signal(signal.SIGTERM)
        _, stderr = process.communicate(timeout=WAIT_SECONDS)
    assert stderr.count("is the fastest here") == 1


def test_a_worker_that_starts_after_the_signal_is_stopped(
    new_supervisor: supervisor.Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_work", fake_workers.answer_then_wait)
    new_supervisor._last_signal = time.monotonic()
    new_supervisor._start(0)
    process = new_supervisor._workers[0].process
    process.join(WAIT_SECONDS)
    assert process.exitcode == -signal.SIGTERM


def test_after_a_signal_new_connections_are_refused(
    new_supervisor: supervisor.Supervisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "_work", fake_workers.finish_slowly)
    address, refused_after = new_supervisor._listener.getsockname(), list[float]()

    def connect_until_refused() -> None:
        started = time.monotonic()
        while time.monotonic() - started < 10:
            try:
                socket.create_connection(address, timeout=10).close()
            except ConnectionRefusedError:
                break
            time.sleep(0.05)
        refused_after.append(time.monotonic() - started)

    client = threading.Thread(target=connect_until_refused)

    def stop_all(*_ready: Any) -> None:
        handler = signal.getsignal(signal.SIGTERM)  # called here: a signal could end the tests
        assert callable(handler)
        handler(signal.SIGTERM, None)
        client.start()

    new_supervisor.run(stop_all)
    client.join()
    assert refused_after[0] < fake_workers.FINISH_SECONDS


@pytest.mark.slow
def test_a_worker_that_dies_again_is_replaced_later_each_time(
    new_supervisor: supervisor.Supervisor,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(supervisor, "_work", fake_workers.answer_then_wait)
    start, starts = supervisor.Supervisor._start, list[float]()

    def noting_start(self: supervisor.Supervisor, index: int, num_failures: int = 0) -> None:
        starts.append(time.monotonic())
        start(self, index, num_failures)
        if len(starts) > 2:
            self.values[index, LOADED] = 1
            self._workers[index].process.kill()
            if len(starts) == 4:
                handler = signal.getsignal(signal.SIGTERM)  # called here: a signal could end the tests
                assert callable(handler)
                handler(signal.SIGTERM, None)

    def kill_first(*ready: Any) -> None:
        assert ready == (["/predict"], "torch")
        new_supervisor._workers[0].process.kill()

    monkeypatch.setattr(supervisor.Supervisor, "_start", noting_start)
    before = signal.getsignal(signal.SIGTERM)
    new_supervisor.run(kill_first)
    assert signal.getsignal(signal.SIGTERM) is before
    assert new_supervisor.values[0, RESTARTS] == 2
    assert not new_supervisor.values[:, LOADED].any()
    first_delay, second_delay = starts[2] - starts[1], starts[3] - starts[2]
    assert first_delay >= 1 <= second_delay - 0.9
    lines = capsys.readouterr().err.splitlines()
    assert [line.rpartition("; ")[2] for line in lines] == [
        "another one starts in 1 s",
        "another one starts in 2 s",
    ]


def test_a_worker_that_hangs_is_killed(
    new_supervisor: supervisor.Supervisor,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(supervisor, "_work", fake_workers.answer_then_hang)
    monkeypatch.setattr(heartbeats, "HANG_SECONDS", 0.5)
    start, starts = supervisor.Supervisor._start, list[int]()

    def noting_start(self: supervisor.Supervisor, index: int, num_failures: int = 0) -> None:
        starts.append(index)
        start(self, index, num_failures)
        if len(starts) == 3:
            handler = signal.getsignal(signal.SIGTERM)
            assert callable(handler)
            handler(signal.SIGTERM, None)

    monkeypatch.setattr(supervisor.Supervisor, "_start", noting_start)
    new_supervisor.run(lambda *_: None)
    assert starts == [0, 1, 0]
    assert new_supervisor.values[:, HANGS].tolist() == [1, 0]
    hung, died = capsys.readouterr().err.splitlines()[:2]
    assert "has not answered for" in hung
    assert "died (signal SIGKILL); another one starts" in died

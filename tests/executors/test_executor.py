"""Tests of the order and number of jobs in flight, and of the choice of an executor."""

import socket
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from threading import Thread

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.executors.jobs import fail_at_start, fail_with_two_arguments, slow_if_first, square

from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.executors import ray_address, ray_cluster, ray_worker
from albertine.executors.cluster import open_cluster
from albertine.executors.executor import run_window
from albertine.executors.process_pool import ProcessPool
from albertine.executors.ray_address import running_cluster
from albertine.executors.ray_worker import JobSetup
from albertine.extras import install_command
from albertine.processes import num_cores


class SimulatedWork:
    """Work that finishes in a given order of choices; records how many jobs were pending at a time."""

    def __init__(self, choose: Callable[[int], int]):
        self._choose, self.pending, self.most_pending = choose, 0, 0

    def submit(self, job: int) -> str:
        self.pending += 1
        self.most_pending = max(self.most_pending, self.pending)
        return f"job {job}"

    def wait(self, handles: Collection[str]) -> Collection[str]:
        return [list(handles)[self._choose(len(handles))]]


@given(st.data(), st.integers(0, 30), st.integers(1, 5), st.booleans())
def test_every_job_is_yielded_once_and_few_are_pending(
    data: st.DataObject, number: int, limit: int, in_order: bool
) -> None:
    work = SimulatedWork(lambda count: data.draw(st.integers(0, count - 1)))
    yielded = []
    for job, handle in run_window(range(number), work.submit, work.wait, lambda: limit, in_order=in_order):
        assert handle == f"job {job}"
        yielded.append(job)
        work.pending -= 1
    assert sorted(yielded) == list(range(number))
    assert not in_order or yielded == sorted(yielded)
    assert work.most_pending <= limit


def test_a_limit_of_none_does_not_end_the_work() -> None:
    """No job is pending at the moments when none may be, and there are more."""
    limits = iter([1, 0, 0, 2, 2, 2])
    work = SimulatedWork(lambda _: 0)
    window = run_window(range(3), work.submit, work.wait, lambda: next(limits), in_order=True)
    assert [job for job, _ in window] == [0, 1, 2]


def test_jobs_are_taken_as_they_are_needed() -> None:
    taken = []

    def jobs() -> Iterator[int]:
        for number in range(1_000_000):
            taken.append(number)
            yield number

    work = SimulatedWork(lambda _: 0)
    next(run_window(jobs(), work.submit, work.wait, lambda: 3, in_order=True))
    assert taken == [0, 1, 2]


def test_a_pool_keeps_the_order_if_asked() -> None:
    results = list(ProcessPool(2).run(slow_if_first, range(4), in_order=True, advice=""))
    assert results == [(number, number) for number in range(4)]


def test_a_pool_yields_what_is_finished() -> None:
    results = list(ProcessPool(2).run(square, range(6), advice=""))
    assert sorted(results) == [(number, number * number) for number in range(6)]


def test_errors_of_workers_keep_their_message() -> None:
    with pytest.raises(InputError, match=r"a\.txt: no such file"):
        list(ProcessPool(1).run(square, [1], initializer=fail_at_start, advice=""))
    with pytest.raises(RuntimeError, match="TwoArgumentsError: b is empty"):
        list(ProcessPool(1).run(fail_with_two_arguments, [1], advice=""))


def test_without_a_name_there_is_no_cluster() -> None:
    with open_cluster(None) as executor:
        assert executor is None


def test_missing_ray_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ray_cluster, "find_spec", lambda _: None)
    assert run_command(app, ["world", "write", str(tmp_path / "world"), "--cluster", "ray"]) == 2
    expected = f"albertine: --cluster ray: needs an extra; {install_command('scale')}\n"
    assert capsys.readouterr().err == expected
    assert not (tmp_path / "world").exists()


def test_a_cluster_that_starts_too_slowly_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ray = pytest.importorskip("ray")  # it is not built for every platform

    def too_slow(*_: object, **__: object) -> None:
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", too_slow)
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert run_command(app, ["world", "write", str(tmp_path / "world"), "--cluster", "ray"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "timed out during startup; if this machine is busy, run the same command again later" in line


@pytest.mark.parametrize("address", ["nonsense", "ray://head:10001", "head:port", ":6379"])
def test_an_address_that_is_not_host_and_port_is_refused(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(InputError, match=f"RAY_ADDRESS={address}: expected HOST:PORT"):
        running_cluster()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.0.0.1:99999", "head..example.org:6379"])
def test_a_cluster_that_does_not_answer_is_refused(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(InputError, match=f"RAY_ADDRESS={address}: no cluster answers"):
        running_cluster()


def test_a_cluster_that_accepts_connections_and_is_silent_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_address, "_ANSWER_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as frozen:  # as of a process that is stopped
        address = f"127.0.0.1:{frozen.getsockname()[1]}"
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(InputError, match=r"no cluster answers \(timed out\)"):
            running_cluster()


def test_a_proxy_is_no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{server.getsockname()[1]}")
        answering = Thread(target=_answer_once, args=(server, b"HTTP/1.1 404 Not Found\r\n\r\n"))
        answering.start()
        with pytest.raises(
            InputError, match=r"no cluster answers \(an HTTP server answers\); start it, or set"
        ):
            running_cluster()
        answering.join()


def test_the_file_of_ray_start_is_of_a_cluster_that_may_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert running_cluster() is None
    file = tmp_path / "ray" / "ray_current_cluster"
    file.parent.mkdir()
    file.write_text("127.0.0.1:1")
    assert running_cluster() is None
    assert "127.0.0.1:1: that cluster has ended without ray stop; starting one" in capsys.readouterr().err
    file.write_text("256.0.0.1:1")  # not of this machine
    with pytest.raises(
        InputError, match=r"ray_current_cluster: 256.0.0.1:1: no cluster answers .*ray stop to forget it"
    ):
        running_cluster()
    with socket.create_server(("127.0.0.1", 0)) as server:
        file.write_text(f"127.0.0.1:{server.getsockname()[1]}")
        answering = Thread(target=_answer_once, args=(server,))
        answering.start()
        assert running_cluster() == "auto"
        answering.join()
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert running_cluster() is None


def _answer_once(server: socket.socket, answer: bytes = b"\0") -> None:
    with server.accept()[0] as connection:
        connection.sendall(answer)


def test_a_worker_of_another_version_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    setup = JobSetup(square, None, (), tmp_path)
    monkeypatch.setattr(ray_worker, "__version__", "0.0.1")
    with pytest.raises(InputError, match=r"has Albertine 0.0.1, the command .*; install the same version"):
        setup.prepare_worker()


def test_a_worker_without_the_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="missing: No such file or directory; all nodes"):
        JobSetup(square, None, (), tmp_path / "missing").prepare_worker()


def test_cores_are_those_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 3}, raising=False)
    assert num_cores() == 2

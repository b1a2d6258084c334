"""Tests of jobs on a local Ray cluster: results, errors, lost workers, stopping."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.executors import jobs

from albertine.errors import InputError, WorkError
from albertine.executors.ray_cluster import RayCluster

pytest.importorskip("ray")  # it is not built for every platform

ADVICE = "use less text"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RayCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_ADDRESS", "local")
        one = RayCluster()
        list(one.run(jobs.square, [1], cores=2, advice=""))  # starts it with two cores
        yield one
        one.close()


def wait_for(file: Path) -> None:
    deadline = time.monotonic() + 120
    while not file.exists():
        assert time.monotonic() < deadline, file
        time.sleep(0.1)


def test_results_come_with_their_jobs(cluster: RayCluster) -> None:
    results = list(cluster.run(jobs.square, range(20), advice=""))
    assert sorted(results) == [(number, number * number) for number in range(20)]


def test_results_keep_the_order_if_asked(cluster: RayCluster) -> None:
    results = list(cluster.run(jobs.slow_if_first, range(6), in_order=True, advice=""))
    assert results == [(number, number) for number in range(6)]


def test_workers_are_prepared_once_for_each_call(cluster: RayCluster) -> None:
    for name in ("first", "second"):
        results = cluster.run(
            jobs.started_names, range(8), initializer=jobs.remember, initargs=(name,), advice=""
        )
        for _, names in results:
            assert names[-1] == name
            assert names.count(name) == 1


def test_relative_paths_are_those_of_the_command(
    cluster: RayCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert list(cluster.run(jobs.absolute, [Path("a.txt")], advice="")) == [
        (Path("a.txt"), tmp_path / "a.txt")
    ]


def test_an_error_of_a_job_is_raised_unchanged(cluster: RayCluster) -> None:
    with pytest.raises(InputError, match=r"^b.txt: empty; give more text$"):
        list(cluster.run(jobs.fail, range(3), advice=""))


def test_jobs_are_stopped_while_others_end(cluster: RayCluster) -> None:
    """Ray 2.60 aborts the process if it cancels a job that it hands to a worker at this moment."""
    for _ in range(100):
        with pytest.raises(InputError, match="empty"):
            list(cluster.run(jobs.fail_among_short_jobs, range(6), advice=""))


def test_a_bug_in_a_job_has_its_traceback(cluster: RayCluster) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        list(cluster.run(jobs.fail_by_a_bug, [0], advice=""))
    assert "return 1 // number" in caught.value.__notes__[0]


def test_the_job_of_a_killed_worker_runs_again(
    cluster: RayCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    markers = [tmp_path / str(number) for number in range(3)]
    results = dict(cluster.run(jobs.die_once, markers, advice=""))
    assert results == {marker: marker.name for marker in markers}
    assert "a worker of the Ray cluster was lost; its job runs again\n" in capsys.readouterr().err


def test_a_worker_killed_from_outside_is_replaced(cluster: RayCluster, tmp_path: Path) -> None:
    marker = tmp_path / "pid"

    def kill() -> None:
        wait_for(marker)
        time.sleep(0.2)
        os.kill(int(marker.read_text()), signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    ((_, second),) = cluster.run(jobs.report_pid_and_wait, [marker], advice="")
    thread.join()
    assert second != int(marker.read_text())


def test_a_job_that_kills_every_worker_is_given_up(cluster: RayCluster) -> None:
    expected = f"^4 workers of the Ray cluster died with the same job, .*; {ADVICE}$"
    with pytest.raises(WorkError, match=expected):
        list(cluster.run(jobs.die, [0], advice=ADVICE))


def test_a_job_too_large_for_every_node_is_refused(cluster: RayCluster) -> None:
    with pytest.raises(WorkError, match="no node of the cluster has 1000 cores for a job"):
        list(cluster.run(jobs.square, [1], cores=1000, advice=""))
    with pytest.raises(WorkError, match="no node of the cluster has 1 cores and 99 GPUs for a job"):
        list(cluster.run(jobs.square, [1], gpus=99, advice=""))


def test_jobs_are_interrupted_if_the_caller_stops(cluster: RayCluster, tmp_path: Path) -> None:
    results = cluster.run(
        jobs.sleep_until_interrupted, [tmp_path / "a", tmp_path / "b"], on_poll=lambda: stop(), advice=""
    )

    def stop() -> None:
        if all((tmp_path / f"{name}.started").exists() for name in "ab"):
            raise KeyboardInterrupt

    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        next(results)
    assert time.monotonic() - started < 40  # the jobs take 60 s
    assert all((tmp_path / name).exists() for name in "ab")


def test_the_largest_number_of_jobs_at_a_time(cluster: RayCluster, tmp_path: Path) -> None:
    limited = RayCluster(max_jobs=1)
    limited._is_open = True  # the same cluster
    polls = 0

    def stop_later() -> None:
        nonlocal polls
        polls += bool(list(tmp_path.glob("*.started")))
        if polls == 4:
            raise KeyboardInterrupt

    files = [tmp_path / name for name in "abc"]
    with pytest.raises(KeyboardInterrupt):
        list(limited.run(jobs.sleep_until_interrupted, files, on_poll=stop_later, advice=""))
    assert len(list(tmp_path.glob("*.started"))) == 1


def test_the_handler_of_sigterm_is_kept(cluster: RayCluster) -> None:
    assert getattr(signal.getsignal(signal.SIGTERM), "__module__", None) != "ray._private.worker"

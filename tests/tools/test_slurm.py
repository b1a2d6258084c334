"""Tests of the scripts for Slurm, on a Slurm cluster of two nodes on this machine."""

import glob
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from albertine.storage.cache import waiting_lock
from albertine.train.metrics_log import read_metrics

SCRIPTS = Path(__file__).parents[2] / "recipes" / "slurm"

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(nodes_module: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start Slurm; skip the test where it is not installed."""
    import slurm

    if reason := slurm.missing_programs():
        pytest.skip(f"Slurm: {reason}")
    commands = Path(sys.executable).parent  # with albertine and ray
    monkeypatch.setenv("PATH", f"{commands}{os.pathsep}{os.environ['PATH']}")
    folder = Path(tempfile.mkdtemp(prefix="slurm-", dir="/tmp"))  # short, for the paths of sockets
    monkeypatch.setenv("RAY_TMPDIR", str(folder))  # otherwise the address of the cluster stays in /tmp/ray
    one_at_a_time = waiting_lock(Path("/tmp/albertine-slurm"))  # two clusters disturb each other
    try:
        with one_at_a_time, nodes_module.Nodes(2) as nodes:
            cluster = slurm.SlurmCluster(nodes, folder / "cluster")
            cluster.start()
            yield cluster
    finally:
        shutil.rmtree(folder)


def wait_for(cluster: Any, job: str, states: set[str], log: Path) -> str:
    deadline = time.monotonic() + 480
    while (state := str(cluster.state(job))) not in states:
        assert time.monotonic() < deadline, f"{state}: {log.read_text() if log.exists() else ''}"
        time.sleep(0.5)
    return state


def take_the_nodes(cluster: Any, job: str, folder: Path, log: Path) -> None:
    """Let an urgent job take the nodes of another, which is queued again and may begin at once."""
    (folder / "urgent.sh").write_text("#!/bin/bash\ntrue\n")
    urgent = cluster.submit("--partition", "urgent", "--nodes", "2", "urgent.sh", folder=folder)
    wait_for(cluster, urgent, {"COMPLETED"}, log)
    wait_for(cluster, job, {"PENDING"}, log)
    # A job that is queued again waits two minutes. If it begins in the second in which it ended, the nodes
    # take its new credential for the revoked one, whose time has no fractions of a second.
    time.sleep(2)
    cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")


def begin_run(cluster: Any, corpus: Any, folder: Path, nodes: str, *options: str) -> tuple[str, Path]:
    """Submit a run of 1,500 steps, wait until it trains, and return its job and its log."""
    arguments = [
        "pretrain", "--corpus", str(corpus.folder), "--out", "run", "--device", "cpu",
        "--model.hidden-size", "32", "--model.embedding-size", "16", "--model.layers", "2",
        "--model.heads", "2", "--model.max-length", "64", "--objective.max-length", "32",
        "--train.steps", "1500", "--train.batch-tokens", "512", "--train.evaluate-tokens", "256",
        *options,
    ]  # fmt: skip
    job = cluster.submit("--nodes", nodes, str(SCRIPTS / "train.sh"), *arguments, folder=folder)
    log = folder / f"slurm-{job}.out"
    deadline = time.monotonic() + 120
    while not log.exists() or "\nstep " not in log.read_text():
        assert time.monotonic() < deadline
        time.sleep(0.2)
    return job, log


def check_completed(cluster: Any, job: str, folder: Path, log: Path) -> None:
    """Check that a job ends with a run that has each step once."""
    assert wait_for(cluster, job, {"COMPLETED", "FAILED"}, log) == "COMPLETED", log.read_text()
    steps = [line["step"] for line in read_metrics(folder / "run") if "loss" in line]
    assert steps == list(range(1, 1501))


def test_a_run_whose_nodes_are_taken_is_queued_again_and_resumes(
    cluster: Any, corpus: Any, tmp_path: Path
) -> None:
    job, log = begin_run(cluster, corpus, tmp_path, "2")
    take_the_nodes(cluster, job, tmp_path, log)
    assert "stopped on request" in log.read_text()
    check_completed(cluster, job, tmp_path, log)


def test_a_run_that_loses_a_node_is_queued_again_and_resumes_on_those_left(
    cluster: Any, corpus: Any, tmp_path: Path
) -> None:
    job, log = begin_run(cluster, corpus, tmp_path, "1-2", "--train.save-every", "20")
    assert "NumNodes=2" in cluster.run("scontrol", "show", "job", job)
    cluster.lose_node(1)
    wait_for(cluster, job, {"PENDING"}, log)
    time.sleep(2)  # as in `take_the_nodes`
    cluster.run("scontrol", "update", f"JobId={job}", "StartTime=now")
    check_completed(cluster, job, tmp_path, log)
    assert "NumNodes=1" in cluster.run("scontrol", "show", "job", job)
    assert "resuming after step" in log.read_text()


def test_after_an_error_a_run_is_not_queued_again(cluster: Any, tmp_path: Path) -> None:
    arguments = ["pretrain", "--corpus", "missing", "--out", "run"]
    job = cluster.submit("--nodes", "2", str(SCRIPTS / "train.sh"), *arguments, folder=tmp_path)
    log = tmp_path / f"slurm-{job}.out"
    assert wait_for(cluster, job, {"COMPLETED", "FAILED", "PENDING"}, log) in ("FAILED", "PENDING")
    assert wait_for(cluster, job, {"FAILED"}, log) == "FAILED"
    assert "albertine: missing: " in log.read_text()


def test_the_jobs_of_a_command_run_on_all_nodes_and_are_resumed(cluster: Any, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    arguments = ["study", "table-5", "--scale", "smoke", "--out", "studies"]
    job = cluster.submit("--nodes", "2", str(SCRIPTS / "ray.sh"), *arguments, folder=tmp_path)
    log = tmp_path / f"slurm-{job}.out"
    deadline = time.monotonic() + 120
    # Unlike `Path.glob`, `glob.glob` bears that folders are renamed meanwhile.
    while not glob.glob("studies/**/metrics.jsonl", root_dir=tmp_path, recursive=True):  # noqa: PTH207
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.2)
    take_the_nodes(cluster, job, tmp_path, log)
    assert f"job {job} is queued again" in log.read_text()
    assert wait_for(cluster, job, {"COMPLETED", "FAILED"}, log) == "COMPLETED", log.read_text()
    assert log.read_text().count("Ray runtime started") == 4  # two nodes, twice
    assert "undecided" in log.read_text()

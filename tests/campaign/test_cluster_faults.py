"""Faults of commands on Ray break no promise, and the campaign notices processes that are left behind."""

import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.campaign.faults import cluster
from tests.campaign.faults.cluster import CLUSTER_COMMANDS, CLUSTER_FAULTS, Cluster
from tests.campaign.faults.promises import BrokenPromise
from tests.campaign.faults.writing_commands import WRITING_COMMANDS

_ROOT = Path(__file__).parent.parent.parent
_SLEEP = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"


def test_the_commands_on_a_cluster_are_commands_of_the_campaign() -> None:
    assert set(CLUSTER_COMMANDS) <= WRITING_COMMANDS.keys()


def test_a_process_that_is_left_behind_breaks_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_SURVIVOR_SECONDS", 0.2)
    monkeypatch.setattr(cluster, "_POLL_SECONDS", 0.0)
    command = subprocess.Popen([sys.executable, "-c", _SLEEP])
    found = Cluster()
    while not (children := psutil.Process(command.pid).children()):
        pass
    found.look(command.pid)
    command.kill()
    command.wait()
    with pytest.raises(BrokenPromise, match="1 processes of the cluster survive"):
        found.check_ended()
    assert not psutil.wait_procs(children, timeout=10)[1]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("fault", CLUSTER_FAULTS)
def test_a_fault_of_a_corpus_on_ray_breaks_no_promise(fault: str, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    command = [sys.executable, "-m", "tests.campaign.faults", fault, "corpus build", "--seed", "1"]
    command += ["--out", str(tmp_path / "out")]
    process = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr
    assert f"'faults: {fault}, corpus build': 1" in process.stdout

"""A Ray cluster of two nodes, each a raylet on this machine: the second is lost in the middle of its jobs."""

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.executors import jobs

from albertine.executors.ray_cluster import RayCluster

pytest.importorskip("ray")  # it is not built for every platform

pytestmark = pytest.mark.slow


@pytest.fixture
def nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Start a cluster of two nodes with a core each, which `--cluster ray` joins."""
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        nodes.add_node(num_cpus=1)
        monkeypatch.setenv("RAY_ADDRESS", nodes.address)
        yield nodes
    finally:
        nodes.shutdown()


def test_the_jobs_of_a_lost_node_run_on_the_others(
    nodes: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [second] = nodes.worker_nodes
    head = nodes.head_node.node_id
    markers = [tmp_path / str(number) for number in range(8)]

    def lose_the_second_node() -> None:
        deadline = time.monotonic() + 100
        while not any(marker.exists() for marker in markers):
            if time.monotonic() > deadline:
                return
            time.sleep(0.1)
        nodes.remove_node(second, allow_graceful=False)

    thread = threading.Thread(target=lose_the_second_node)
    thread.start()
    cluster = RayCluster()
    try:
        results = dict(cluster.run(jobs.node_of_job, [(marker, head) for marker in markers], advice=""))
    finally:
        cluster.close()
        thread.join()
    assert not nodes.worker_nodes
    assert results == {(marker, head): head for marker in markers}
    assert "a worker of the Ray cluster was lost; its job runs again\n" in capsys.readouterr().err

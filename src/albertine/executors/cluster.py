"""The choice of the executor of a command: `--cluster`."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from albertine.executors.executor import Executor

ClusterName = Literal["ray"]


@contextmanager
def open_cluster(name: ClusterName | None, max_jobs: int = 0) -> Iterator[Executor | None]:
    """Yield the executor of a cluster, and leave the cluster at the end; without a name, yield None.

    Args:
        name: kind of the cluster; None for this machine alone.
        max_jobs: how many jobs may run at a time; 0 for as many as its cores and GPUs allow.
    """
    if name is None:
        yield None
        return
    from albertine.executors.ray_cluster import RayCluster

    cluster = RayCluster(max_jobs)
    try:
        yield cluster
    finally:
        cluster.close()

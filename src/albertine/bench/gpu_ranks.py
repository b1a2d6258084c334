"""Checks and measures in several processes that communicate: NCCL with one per GPU, gloo on a CPU.

One GPU has one process, which still runs NCCL; the traffic between GPUs is then not measured.
"""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch

from albertine.bench.gpu_paths import PathResult, one_line
from albertine.errors import WorkError
from albertine.executors.process_pool import ProcessPool
from albertine.train.distributed import Distributed, init_distributed

# Called in each process; returns a relative error and the milliseconds of a run.
RankFunction = Callable[[Distributed], tuple[float, float]]


@dataclass(frozen=True)
class _Rank:
    """One of the processes, and the port of their rendezvous."""

    number: int
    world_size: int
    port: int
    device: str


def check_ranks(
    name: str, tolerance: float, function: RankFunction, device: str, processes: int
) -> PathResult:
    """Run a check in several processes, and return the result of rank 0.

    Args:
        name: what is checked, for the report.
        tolerance: largest relative error that is accepted.
        function: the check.
        device: "cuda" or "cpu".
        processes: number of processes.
    """
    library = "NCCL" if device == "cuda" else "gloo"
    name = f"{name}, {library}, {processes} process{'es' if processes > 1 else ''}"
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    ranks = [_Rank(number, processes, port, device) for number in range(processes)]
    error = None
    try:
        results = ProcessPool(processes).run(partial(_run_rank, function), ranks, advice="see its messages")
        error, ms = {rank.number: result for rank, result in results}[0]
        if not error <= tolerance:  # also if it is NaN
            raise WorkError(f"relative error {error:.2g} is larger than {tolerance:g}")
    except Exception as failure:  # whatever a driver raises is a result
        return PathResult(name, "fp32", error, tolerance, failure=one_line(failure))
    return PathResult(name, "fp32", error, tolerance, ms)


def _run_rank(function: RankFunction, rank: _Rank) -> tuple[float, float]:
    """Run the check in this process."""
    os.environ |= {"RANK": str(rank.number), "LOCAL_RANK": str(rank.number)}
    os.environ |= {"WORLD_SIZE": str(rank.world_size)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(rank.port)}
    torch.set_num_threads(1)
    with init_distributed(rank.device, timeout_minutes=2.0) as distributed:
        return function(distributed)

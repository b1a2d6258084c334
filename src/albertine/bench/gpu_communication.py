"""Check and measurement of the communication between processes: NCCL with one process per GPU, gloo on a CPU.

One GPU has one process, which still runs NCCL; the traffic between GPUs is then not measured.
"""

import os
import socket
import statistics
import time
from dataclasses import dataclass

import torch
from torch import distributed as dist

from albertine.bench.gpu_paths import PathResult
from albertine.errors import WorkError
from albertine.processes import run_in_processes
from albertine.train.distributed import init_distributed

_WARM_UP_RUNS, _RUNS = 2, 5
_VALUE = "from the main process"


@dataclass(frozen=True)
class _RankJob:
    """The job of one rank; `size` is the number of values to sum."""

    rank: int
    world_size: int
    port: int
    device: str
    size: int


def check_communication(device: str, gradient_bytes: int, processes: int) -> PathResult:
    """Return the result of summing gradients and exchanging objects between processes.

    Args:
        device: "cuda" or "cpu".
        gradient_bytes: size of the gradients in fp32.
        processes: number of processes.
    """
    name = f"{'NCCL' if device == 'cuda' else 'gloo'}, {processes} process{'es' if processes > 1 else ''}"
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    jobs = [_RankJob(rank, processes, port, device, gradient_bytes // 4) for rank in range(processes)]
    try:
        results = run_in_processes(_run_rank, jobs, processes, advice="see its messages")
        seconds = {job.rank: median for job, median in results}[0]
    except Exception as failure:  # whatever a driver raises is a result
        text = " ".join(str(failure).split())[:300]
        return PathResult(name, "fp32", None, 0.0, failure=f"{type(failure).__name__}: {text}")
    return PathResult(name, "fp32", 0.0, 0.0, 1000 * seconds)


def _run_rank(job: _RankJob) -> float:
    """Run one rank; return the median seconds of a sum over the processes."""
    os.environ |= {"RANK": str(job.rank), "LOCAL_RANK": str(job.rank), "WORLD_SIZE": str(job.world_size)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(job.port)}
    torch.set_num_threads(1)
    with init_distributed(job.device, timeout_minutes=2.0) as distributed:
        _check_values(job, distributed.device)
        buffer = torch.ones(job.size, device=distributed.device)
        seconds = []
        for run in range(_WARM_UP_RUNS + _RUNS):
            started = time.perf_counter()
            dist.all_reduce(buffer)
            float(buffer[0])  # waits for the GPU
            if run >= _WARM_UP_RUNS:
                seconds.append(time.perf_counter() - started)
        return statistics.median(seconds)


def _check_values(job: _RankJob, device: torch.device) -> None:
    """Raise `WorkError` if an exchange gives wrong values; one process calls torch, too."""
    values = torch.full((7,), float(job.rank + 1), device=device)
    dist.all_reduce(values)
    if values.tolist() != [job.world_size * (job.world_size + 1) / 2] * 7:
        raise WorkError(f"all_reduce gave {values.tolist()}")
    received = [_VALUE if job.rank == 0 else None]
    dist.broadcast_object_list(received, src=0, device=device)
    gathered: list[object] = [None] * job.world_size
    dist.all_gather_object(gathered, job.rank)
    if received != [_VALUE] or gathered != list(range(job.world_size)):
        raise WorkError(f"exchanged objects are {received} and {gathered}")

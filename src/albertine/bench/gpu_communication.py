"""Check and measurement of the sum of gradients over the processes, and of the exchange of objects."""

import statistics
import time
from functools import partial

import torch
from torch import distributed as dist

from albertine.bench.gpu_paths import PathResult
from albertine.bench.gpu_ranks import check_ranks
from albertine.errors import WorkError
from albertine.train.distributed import Distributed

NAME = "communication"
_WARM_UP_RUNS, _RUNS = 2, 5
_VALUE = "from the main process"


def check_communication(device: str, gradient_bytes: int, processes: int) -> PathResult:
    """Return the result of summing gradients and exchanging objects between processes.

    Args:
        device: "cuda" or "cpu".
        gradient_bytes: size of the gradients in fp32.
        processes: number of processes.
    """
    return check_ranks(NAME, 0.0, partial(_communicate, gradient_bytes // 4), device, processes)


def _communicate(size: int, distributed: Distributed) -> tuple[float, float]:
    """Return 0, because sums are exact, and the median milliseconds of a sum of `size` values."""
    _check_values(distributed)
    buffer = torch.ones(size, device=distributed.device)
    seconds = []
    for run in range(_WARM_UP_RUNS + _RUNS):
        started = time.perf_counter()
        dist.all_reduce(buffer)
        float(buffer[0])  # waits for the GPU
        if run >= _WARM_UP_RUNS:
            seconds.append(time.perf_counter() - started)
    return 0.0, 1000 * statistics.median(seconds)


def _check_values(distributed: Distributed) -> None:
    """Raise `WorkError` if an exchange gives wrong values; one process calls torch, too."""
    rank, world_size, device = distributed.rank, distributed.world_size, distributed.device
    values = torch.full((7,), float(rank + 1), device=device)
    dist.all_reduce(values)
    if values.tolist() != [world_size * (world_size + 1) / 2] * 7:
        raise WorkError(f"all_reduce gave {values.tolist()}")
    received = [_VALUE if rank == 0 else None]
    dist.broadcast_object_list(received, src=0, device=device)
    gathered: list[object] = [None] * world_size
    dist.all_gather_object(gathered, rank)
    if received != [_VALUE] or gathered != list(range(world_size)):
        raise WorkError(f"exchanged objects are {received} and {gathered}")

"""Runs a function in several processes of this machine that communicate as the ranks of a training do."""

import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch

from albertine.errors import InputError
from albertine.executors.process_pool import ProcessPool
from albertine.train.distributed import Distributed, init_distributed

ResultT = TypeVar("ResultT")


@dataclass(frozen=True)
class _Rank:
    """One of the processes, and the port of their rendezvous."""

    number: int
    world_size: int
    port: int
    device: str


def run_ranks(
    function: Callable[[Distributed], ResultT], processes: int, device: str, *, advice: str
) -> ResultT:
    """Return what a function returns in the process of rank 0.

    Args:
        function: called in each process.
        processes: number of processes.
        device: "cpu", or "cuda", where each process has a GPU of its own.
        advice: what a user can do if a process is killed, for the error message.
    """
    if device == "cuda" and processes > torch.cuda.device_count():
        raise InputError(
            f"{processes} processes on cuda need as many GPUs, and torch sees {torch.cuda.device_count()}; "
            "use fewer processes, or --device cpu"
        )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    ranks = [_Rank(number, processes, port, device) for number in range(processes)]
    results = ProcessPool(processes).run(partial(_run_rank, function), ranks, advice=advice)
    return {rank.number: result for rank, result in results}[0]


def _run_rank(function: Callable[[Distributed], ResultT], rank: _Rank) -> ResultT:
    """Call the function in this process."""
    os.environ |= {"RANK": str(rank.number), "LOCAL_RANK": str(rank.number)}
    os.environ |= {"WORLD_SIZE": str(rank.world_size)}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(rank.port)}
    torch.set_num_threads(1)
    with init_distributed(rank.device, timeout_minutes=2.0) as distributed:
        return function(distributed)

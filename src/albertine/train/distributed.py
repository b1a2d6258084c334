"""Data-parallel training: one process per device, started by `torchrun`; without it, a single process.

Each process computes a part of every batch; gradients and counts are summed over the
processes. All processes apply the same updates to the same weights, so only the main
process, rank 0, writes files and messages.

If a process ends, freezes or cannot be reached, each of the others ends with one line, and `torchrun` can
start them again, also with fewer processes: a checkpoint does not depend on their number.
"""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist

from albertine import progress
from albertine.device import choose_device
from albertine.errors import AlbertineError, RunStopped, WorkError

T = TypeVar("T")

DEFAULT_TIMEOUT_MINUTES = 10.0
# Texts in the errors of gloo, which have no type of their own, and of torch about its store and NCCL.
_TIMEOUT_SIGNS = ("timed out", "timeout")
_LOST_PEER_SIGNS = ("/gloo/", "pair closure", "nccl")


class FailedOnMainRank(RunStopped):
    """The main process failed and has printed its error."""

    already_shown = True


class LostPeer(WorkError):  # noqa: N818  # what happened
    """Another process has ended, is frozen or cannot be reached."""


@dataclass(frozen=True)
class Distributed:
    """The process group, as seen by one of its processes.

    Attributes:
        rank: number of this process, from 0.
        world_size: number of processes.
        device: device of this process.
    """

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and messages."""
        return self.rank == 0

    def all_reduce(self, tensor: Tensor) -> None:
        """Replace a tensor by its sum over all processes."""
        if self.world_size > 1:
            dist.all_reduce(tensor)

    def all_reduce_sum(self, numbers: Sequence[float]) -> list[float]:
        """Return the sum of each number over all processes."""
        if self.world_size == 1:
            return list(numbers)
        # NCCL reduces tensors on a GPU only; fp64 is exact for any count.
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        self.all_reduce(tensor)
        summed: list[float] = tensor.tolist()
        return summed

    def all_reduce_max(self, number: int) -> int:
        """Return the maximum of a number over all processes."""
        if self.world_size == 1:
            return number
        tensor = torch.tensor(number, device=self.device)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return int(tensor)

    def broadcast(self, value: Any) -> Any:
        """Return the value of the main process, a small object that can be pickled."""
        if self.world_size == 1:
            return value
        values = [value]
        dist.broadcast_object_list(values, src=0, device=self.device)
        return values[0]

    def all_gather(self, value: T) -> list[T]:
        """Return the values of all processes by rank, small objects that can be pickled."""
        if self.world_size == 1:
            return [value]
        values: list[Any] = [None] * self.world_size
        dist.all_gather_object(values, value)
        return values

    def run_on_main(self, function: Callable[[], T]) -> T | None:
        """Call a function in the main process and return its result there, None elsewhere.

        If it raises an `AlbertineError`, all processes raise one, and only the main process prints it.
        """
        if self.world_size == 1:
            return function()
        result, failure = None, None
        if self.is_main:
            try:
                result = function()
            except AlbertineError as error:
                failure = error
        error_report = self.broadcast(None if failure is None else (str(failure), failure.status))
        if failure:
            raise failure
        if error_report:
            raise FailedOnMainRank(*error_report)
        return result

    def broadcast_tensors(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of the main process by name, on the CPU.

        The other processes may pass any dictionary; it is ignored.
        """
        if self.world_size == 1:
            return tensors
        shapes = self.broadcast({name: (tensor.shape, tensor.dtype) for name, tensor in tensors.items()})
        received = {}
        for name, (shape, dtype) in shapes.items():
            tensor = tensors[name] if self.is_main else torch.empty(shape, dtype=dtype)
            tensor = tensor.to(self.device)
            dist.broadcast(tensor, src=0)
            received[name] = tensor.cpu()
        return received


def broadcast_parameters(model: nn.Module, distributed: Distributed) -> None:
    """Copy the weights of the main process to all others.

    Random weights can differ in the last bit between machines.
    """
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    main_parameters = distributed.broadcast_tensors(parameters)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(main_parameters[name])


@contextmanager
def init_distributed(device: str, timeout_minutes: float = DEFAULT_TIMEOUT_MINUTES) -> Iterator[Distributed]:
    """Join the processes that `torchrun` has started; without `torchrun`, train in this process only.

    Raises `LostPeer` if one of the other processes ends, or does not respond in time.

    Args:
        device: name of the device.
        timeout_minutes: minutes to wait for the other processes in each exchange.
    """
    torch_device = choose_device(device)
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield Distributed(0, 1, torch_device)
        return
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if torch_device.type == "cuda":
        torch_device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(torch_device)
    backend = "nccl" if torch_device.type == "cuda" else "gloo"
    try:
        dist.init_process_group(backend, timeout=timedelta(minutes=timeout_minutes))
        if rank:
            progress.set_quiet(True)
        yield Distributed(rank, world_size, torch_device)
    except RuntimeError as error:
        if problem := _peer_problem(error, timeout_minutes):
            raise LostPeer(
                f"rank {rank} of {world_size}: {problem}; run the same command again, which resumes from the "
                "last checkpoint, unless torchrun does that"
            ) from error
        raise
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()


def _peer_problem(error: RuntimeError, timeout_minutes: float) -> str:
    """Return what happened to another process, in words; empty if the error has another reason."""
    text = str(error)
    if not (isinstance(error, dist.DistError) or any(sign in text.lower() for sign in _LOST_PEER_SIGNS)):
        return ""
    if any(sign in text.lower() for sign in _TIMEOUT_SIGNS):
        return (
            f"another process did not respond for {timeout_minutes:g} minutes (train.timeout_minutes): it is "
            "frozen, too slow or cut off"
        )
    peer = re.search(r"\[[\w.:]+\]:\d+", text)
    return (
        f"lost the connection to another process{f' at {peer[0]}' if peer else ''}, which has probably ended"
    )


def restart_wait_seconds(timeout_minutes: float) -> float:
    """Return how long to wait for files that a process of an earlier start may still hold.

    `torchrun` can start processes on one node while a process on another one, which no longer responds, is
    still to be killed. The others wait meanwhile, so this is shorter than their timeout.
    """
    can_restart = int(os.environ.get("TORCHELASTIC_MAX_RESTARTS", "0")) > 0
    return 30 * timeout_minutes if can_restart else 0.0

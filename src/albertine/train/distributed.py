"""The processes that train together; one alone is a group of one.

`torchrun` starts them and says in the environment who is who. They compute on shares
of each batch and add up gradients and counts; all of them hold all weights and move
them alike, so only the first one writes and speaks.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch import distributed as dist

from albertine import progress
from albertine.errors import AlbertineError, InputError, RunStopped

T = TypeVar("T")


class FailedOnMainRank(RunStopped):
    """The first process failed, and has said why."""

    already_shown = True


@dataclass(frozen=True)
class Distributed:
    """One process among those that train.

    Attributes:
        rank: its number.
        world_size: how many there are.
        device: where it computes.
    """

    rank: int
    world_size: int
    device: torch.device

    @property
    def is_main(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    def all_reduce(self, tensor: Tensor) -> None:
        """Put the sum over all processes in the place of a tensor."""
        if self.world_size > 1:
            dist.all_reduce(tensor)

    def all_reduce_sum(self, numbers: Sequence[float]) -> list[float]:
        """Return the sums over all processes of some numbers."""
        if self.world_size == 1:
            return list(numbers)
        # NCCL adds up on the GPU alone, and where there is none fp64 is exact for any count.
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        self.all_reduce(tensor)
        summed: list[float] = tensor.tolist()
        return summed

    def all_reduce_max(self, number: int) -> int:
        """Return the largest of what the processes have."""
        if self.world_size == 1:
            return number
        tensor = torch.tensor(number, device=self.device)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return int(tensor)

    def broadcast(self, value: Any) -> Any:
        """Return what the first process has; any small value."""
        if self.world_size == 1:
            return value
        holder = [value]
        dist.broadcast_object_list(holder, src=0, device=self.device)
        return holder[0]

    def all_gather(self, value: T) -> list[T]:
        """Return what all processes have, in their order; any small values."""
        if self.world_size == 1:
            return [value]
        holders: list[Any] = [None] * self.world_size
        dist.all_gather_object(holders, value)
        return holders

    def run_on_main(self, function: Callable[[], T]) -> T | None:
        """Let the first process do something; where it fails, all fail, and only the first says why."""
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
        """Return tensors that only the first process has, by name, on the CPU."""
        if self.world_size == 1:
            return tensors
        shapes = self.broadcast({name: (one.shape, one.dtype) for name, one in tensors.items()})
        received = {}
        for name, (shape, dtype) in shapes.items():
            sent = tensors[name] if self.is_main else torch.empty(shape, dtype=dtype)
            sent = sent.to(self.device)
            dist.broadcast(sent, src=0)
            received[name] = sent.cpu()
        return received


def broadcast_parameters(network: nn.Module, distributed: Distributed) -> None:
    """Give all processes the first one's weights: machines differ in the last bit of what they draw."""
    parameters = {name: one.detach() for name, one in network.named_parameters()}
    sent = distributed.broadcast_tensors(parameters)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(sent[name])


@contextmanager
def init_distributed(device: str) -> Iterator[Distributed]:
    """Join the processes that `torchrun` started, if it did."""
    torch_device = choose_device(device)
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield Distributed(0, 1, torch_device)
        return
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if torch_device.type == "cuda":
        torch_device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(torch_device)
    dist.init_process_group("nccl" if torch_device.type == "cuda" else "gloo")
    if rank:
        progress.set_quiet(True)
    try:
        yield Distributed(rank, world_size, torch_device)
    finally:
        dist.destroy_process_group()


def choose_device(name: str) -> torch.device:
    """Return the device of a name; `auto` is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda: torch sees no GPU here; leave the device out, or install torch for it")
    return torch.device(name)

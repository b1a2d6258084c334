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
from albertine.errors import AlbertineError, InputError, Stopped

T = TypeVar("T")


class Elsewhere(Stopped):
    """The first process failed, and has said why."""

    told = True


@dataclass(frozen=True)
class Ranks:
    """One process among those that train.

    Attributes:
        rank: its number.
        all: how many there are.
        device: where it computes.
    """

    rank: int
    all: int
    device: torch.device

    @property
    def first(self) -> bool:
        """Whether this is the one that writes and speaks."""
        return self.rank == 0

    def add_up(self, tensor: Tensor) -> None:
        """Put the sum over all processes in the place of a tensor."""
        if self.all > 1:
            dist.all_reduce(tensor)

    def total(self, numbers: Sequence[float]) -> list[float]:
        """Return the sums over all processes of some numbers."""
        if self.all == 1:
            return list(numbers)
        # NCCL adds up on the GPU alone, and where there is none fp64 is exact for any count.
        tensor = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        self.add_up(tensor)
        summed: list[float] = tensor.tolist()
        return summed

    def most(self, number: int) -> int:
        """Return the largest of what the processes have."""
        if self.all == 1:
            return number
        tensor = torch.tensor(number, device=self.device)
        dist.all_reduce(tensor, dist.ReduceOp.MAX)
        return int(tensor)

    def from_first(self, value: Any) -> Any:
        """Return what the first process has; any small value."""
        if self.all == 1:
            return value
        holder = [value]
        dist.broadcast_object_list(holder, src=0, device=self.device)
        return holder[0]

    def gathered(self, value: T) -> list[T]:
        """Return what all processes have, in their order; any small values."""
        if self.all == 1:
            return [value]
        holders: list[Any] = [None] * self.all
        dist.all_gather_object(holders, value)
        return holders

    def by_first(self, work: Callable[[], T]) -> T | None:
        """Let the first process do something; where it fails, all fail, and only the first says why."""
        if self.all == 1:
            return work()
        result, failure = None, None
        if self.first:
            try:
                result = work()
            except AlbertineError as error:
                failure = error
        told = self.from_first(None if failure is None else (str(failure), failure.status))
        if failure:
            raise failure
        if told:
            raise Elsewhere(*told)
        return result

    def tensors_from_first(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return tensors that only the first process has, by name, on the CPU."""
        if self.all == 1:
            return tensors
        shapes = self.from_first({name: (one.shape, one.dtype) for name, one in tensors.items()})
        received = {}
        for name, (shape, dtype) in shapes.items():
            sent = tensors[name] if self.first else torch.empty(shape, dtype=dtype)
            sent = sent.to(self.device)
            dist.broadcast(sent, src=0)
            received[name] = sent.cpu()
        return received


def same_everywhere(network: nn.Module, ranks: Ranks) -> None:
    """Give all processes the first one's weights: machines differ in the last bit of what they draw."""
    held = {name: one.detach() for name, one in network.named_parameters()}
    sent = ranks.tensors_from_first(held)
    with torch.no_grad():
        for name, parameter in held.items():
            parameter.copy_(sent[name])


@contextmanager
def joined(device: str) -> Iterator[Ranks]:
    """Join the processes that `torchrun` started, if it did."""
    chosen = choose_device(device)
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        yield Ranks(0, 1, chosen)
        return
    rank, everyone = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    if chosen.type == "cuda":
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(chosen)
    dist.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    if rank:
        progress.be_quiet(True)
    try:
        yield Ranks(rank, everyone, chosen)
    finally:
        dist.destroy_process_group()


def choose_device(name: str) -> torch.device:
    """Return the device of a name; `auto` is a GPU where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if name == "cuda" and not torch.cuda.is_available():
        raise InputError("device cuda: torch sees no GPU here; leave the device out, or install torch for it")
    return torch.device(name)

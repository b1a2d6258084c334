"""Weights spread over the processes (FSDP2), for models that one device cannot hold with their optimizer.

Each process keeps some rows of every parameter, of its gradient and of what the
optimizer remembers; torch gathers the weights for the passes and scatters the gradients
after. The network does not know, and whoever needs a matrix whole asks for it here. A
tensor that is not spread passes through.
"""

from collections.abc import Iterable

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from albertine.train.ranks import Ranks


def spread_out(network: nn.Module, ranks: Ranks) -> None:
    """Spread a network's parameters over the processes."""
    fully_shard(network, mesh=init_device_mesh(ranks.device.type, (ranks.all,)))


def whole(tensor: Tensor) -> Tensor:
    """Return all rows; every process must ask."""
    gathered: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return gathered


def like(tensor: Tensor, other: Tensor) -> Tensor:
    """Return a whole tensor, that every process has, spread as another is."""
    if not isinstance(other, DTensor):
        return tensor
    return distribute_tensor(tensor, other.device_mesh, other.placements, src_data_rank=None)


class SpreadGradients:
    """Gradients of spread weights, with the face of `Gradients`."""

    def __init__(self, network: nn.Module):
        self._parameters = [one for one in network.parameters() if one.requires_grad]

    def clear(self) -> None:
        """Make them 0."""
        for parameter in self._parameters:
            parameter.grad = None

    def add_up(self, ranks: Ranks) -> None:
        """Undo that torch took their mean over the processes, having added them up already."""
        for parameter in self._parameters:
            if parameter.grad is None:  # nothing asked for it; as elsewhere, its gradient is 0
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.mul_(ranks.all)

    def norm(self) -> Tensor:
        """Return the length of the whole gradient."""
        return whole(torch.nn.utils.get_total_norm(self._gradients()))

    def clip(self, norm: float, most: float) -> None:
        """Shorten the whole gradient to `most`, given its length; 0 leaves it as it is."""
        if most and norm > most:
            for gradient in self._gradients():
                gradient.mul_(most / norm)

    def _gradients(self) -> Iterable[Tensor]:
        return [parameter.grad for parameter in self._parameters if parameter.grad is not None]

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

from albertine.train.distributed import Distributed


def shard_model(network: nn.Module, distributed: Distributed) -> None:
    """Spread a network's parameters over the processes."""
    fully_shard(network, mesh=init_device_mesh(distributed.device.type, (distributed.world_size,)))


def full_tensor(tensor: Tensor) -> Tensor:
    """Return all rows; every process must ask."""
    gathered: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return gathered


def shard_like(tensor: Tensor, other: Tensor) -> Tensor:
    """Return a whole tensor, that every process has, spread as another is."""
    if not isinstance(other, DTensor):
        return tensor
    return distribute_tensor(tensor, other.device_mesh, other.placements, src_data_rank=None)


class ShardedGradients:
    """Gradients of spread weights, with the face of `Gradients`."""

    def __init__(self, network: nn.Module):
        self._parameters = [one for one in network.parameters() if one.requires_grad]

    def zero(self) -> None:
        """Make them 0."""
        for parameter in self._parameters:
            parameter.grad = None

    def all_reduce(self, distributed: Distributed) -> None:
        """Undo that torch took their mean over the processes, having added them up already."""
        for parameter in self._parameters:
            if parameter.grad is None:  # nothing asked for it; as elsewhere, its gradient is 0
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.mul_(distributed.world_size)

    def norm(self) -> Tensor:
        """Return the length of the whole gradient."""
        return full_tensor(torch.nn.utils.get_total_norm(self._gradients()))

    def clip(self, gradient_norm: float, max_norm: float) -> None:
        """Shorten the whole gradient to `max_norm`, given its length; 0 leaves it as it is."""
        if max_norm and gradient_norm > max_norm:
            for gradient in self._gradients():
                gradient.mul_(max_norm / gradient_norm)

    def _gradients(self) -> Iterable[Tensor]:
        return [parameter.grad for parameter in self._parameters if parameter.grad is not None]

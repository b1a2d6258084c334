"""The gradients of a model's parameters: clearing, reducing over processes, measuring and clipping them."""

from collections.abc import Iterable
from typing import Protocol

import torch
from torch import Tensor, nn

from albertine.train.distributed import Distributed
from albertine.train.sharding import full_tensor, is_sharded


class Gradients(Protocol):
    """All gradients of a model.

    Attributes:
        is_sharded: whether each process holds only its shard of every gradient.
    """

    is_sharded: bool

    def zero(self) -> None:
        """Set all gradients to 0."""

    def all_reduce(self, distributed: Distributed) -> None:
        """Replace all gradients by their sums over the processes."""

    def norm(self) -> Tensor:
        """Return the norm of the whole gradient, a scalar."""

    def clip(self, gradient_norm: float, max_norm: float) -> None:
        """Scale the whole gradient down to `max_norm` if `gradient_norm` is larger; 0 means no limit."""


def make_gradients(model: nn.Module) -> Gradients:
    """Return the gradients of a model, sharded like its parameters."""
    return ShardedGradients(model) if is_sharded(model) else FlatGradients(model)


class FlatGradients:
    """Gradients in one contiguous buffer, of which each parameter's gradient is a view.

    Clearing, reducing, measuring and clipping are one operation each. If layers share their
    weights, the gradients are complete only at the end of the backward pass, so reducing
    them parameter by parameter during the pass would gain nothing.
    """

    is_sharded = False

    def __init__(self, model: nn.Module):
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        size = sum(parameter.numel() for parameter in parameters)
        self._buffer = torch.zeros(size, device=parameters[0].device)
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.grad = self._buffer[start:end].view_as(parameter)
            start = end

    def zero(self) -> None:
        """Set all gradients to 0."""
        self._buffer.zero_()

    def all_reduce(self, distributed: Distributed) -> None:
        """Replace all gradients by their sums over the processes."""
        distributed.all_reduce(self._buffer)

    def norm(self) -> Tensor:
        """Return the norm of the whole gradient, a scalar."""
        norm: Tensor = torch.linalg.vector_norm(self._buffer)
        return norm

    def clip(self, gradient_norm: float, max_norm: float) -> None:
        """Scale the whole gradient down to `max_norm` if `gradient_norm` is larger; 0 means no limit."""
        if max_norm and gradient_norm > max_norm:
            self._buffer.mul_(max_norm / gradient_norm)


class ShardedGradients:
    """Gradients of parameters that FSDP2 has sharded; each process holds its shard."""

    is_sharded = True

    def __init__(self, model: nn.Module):
        self._parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def zero(self) -> None:
        """Set all gradients to 0."""
        for parameter in self._parameters:
            parameter.grad = None

    def all_reduce(self, distributed: Distributed) -> None:
        """Replace the means over the processes, which FSDP2 has computed, by sums.

        A parameter on which no loss depends gets a gradient of 0.
        """
        for parameter in self._parameters:
            if parameter.grad is None:  # no loss depends on it
                parameter.grad = torch.zeros_like(parameter)
            parameter.grad.mul_(distributed.world_size)

    def norm(self) -> Tensor:
        """Return the norm of the whole gradient, a scalar."""
        return full_tensor(torch.nn.utils.get_total_norm(self._gradients()))

    def clip(self, gradient_norm: float, max_norm: float) -> None:
        """Scale the whole gradient down to `max_norm` if `gradient_norm` is larger; 0 means no limit."""
        if max_norm and gradient_norm > max_norm:
            for gradient in self._gradients():
                gradient.mul_(max_norm / gradient_norm)

    def _gradients(self) -> Iterable[Tensor]:
        return [parameter.grad for parameter in self._parameters if parameter.grad is not None]

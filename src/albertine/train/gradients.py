"""All gradients of a network, end to end in one buffer.

To clear them, to add them up over processes, to measure and to clip them is one
operation each. Where depth shares its weights their gradient is complete only when the
backward pass ends, so there is nothing to win by sending it piece by piece meanwhile.
"""

import torch
from torch import Tensor, nn

from albertine.train.distributed import Distributed


class FlatGradients:
    """The gradients of a network's parameters, which are views into the buffer."""

    def __init__(self, network: nn.Module):
        parameters = [one for one in network.parameters() if one.requires_grad]
        self._buffer = torch.zeros(sum(one.numel() for one in parameters), device=parameters[0].device)
        start = 0
        for parameter in parameters:
            end = start + parameter.numel()
            parameter.grad = self._buffer[start:end].view_as(parameter)
            start = end

    def zero(self) -> None:
        """Make them 0."""
        self._buffer.zero_()

    def all_reduce(self, distributed: Distributed) -> None:
        """Add up what the processes have."""
        distributed.all_reduce(self._buffer)

    def norm(self) -> Tensor:
        """Return the length of the whole gradient."""
        norm: Tensor = torch.linalg.vector_norm(self._buffer)
        return norm

    def clip(self, gradient_norm: float, max_norm: float) -> None:
        """Shorten the whole gradient to `max_norm`, given its length; 0 leaves it as it is."""
        if max_norm and gradient_norm > max_norm:
            self._buffer.mul_(max_norm / gradient_norm)

    @property
    def nbytes(self) -> int:
        """What is sent when they are added up."""
        return self._buffer.numel() * self._buffer.element_size()

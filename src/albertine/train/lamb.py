"""LAMB as in Google's ALBERT code: Adam, with the update of each matrix scaled to the norm of the matrix.

    m <- b1 m + (1 - b1) g            v <- b2 v + (1 - b2) g^2
    u = m / (sqrt(v) + eps) + decay w
    w <- w - rate * |w| / |u| * u

The trust ratio is |w| / |u|. There is no bias correction. Norms and biases have neither
weight decay nor a trust ratio. Queries, keys and values are one matrix here and three in
Google's code, so each third has its own trust ratio.
"""

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from albertine.train.sharding import full_tensor, shard_like

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-6


class Lamb(Optimizer):
    """LAMB.

    Parameter groups may set `is_matrix`, whether weight decay and the trust ratio apply, and
    `matrix_count`, the number of matrices that one parameter stacks.
    """

    def __init__(self, groups: list[dict[str, Any]], lr: float):
        super().__init__(groups, {"lr": lr, "weight_decay": 0.0, "is_matrix": True, "matrix_count": 1})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # no closure
        """Update the weights."""
        for group in self.param_groups:
            for weight in group["params"]:
                update = self._adam_update(weight)
                if group["is_matrix"]:
                    update.add_(weight, alpha=group["weight_decay"])
                    _scale_to_weight_norm(update, weight, group["matrix_count"])
                weight.add_(update, alpha=-group["lr"])

    def _adam_update(self, weight: Tensor) -> Tensor:
        """Update both moving averages and return the update of Adam."""
        state, gradient = self.state[weight], weight.grad
        assert gradient is not None
        if not state:
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
        first_moment, second_moment = state["exp_avg"], state["exp_avg_sq"]
        first_moment.mul_(_BETA1).add_(gradient, alpha=1 - _BETA1)
        second_moment.mul_(_BETA2).addcmul_(gradient, gradient, value=1 - _BETA2)
        update: Tensor = first_moment / second_moment.sqrt().add_(_EPSILON)
        return update


def _scale_to_weight_norm(update: Tensor, weight: Tensor, matrix_count: int) -> None:
    """Scale each matrix of an update to the norm of its weights, unless one of the norms is 0.

    A parameter of three dimensions has a matrix for each layer.
    """
    if update.dim() == 3:
        matrix_count = len(update)
    weight_norms, update_norms = _matrix_norms(weight, matrix_count), _matrix_norms(update, matrix_count)
    trust_ratios = torch.where((weight_norms > 0) & (update_norms > 0), weight_norms / update_norms, 1.0)
    row_ratios = trust_ratios.repeat_interleave(len(update) // matrix_count)
    update.mul_(shard_like(row_ratios.view(-1, *[1] * (update.dim() - 1)), update))


def _matrix_norms(tensor: Tensor, matrix_count: int) -> Tensor:
    """Return the norm of each stacked matrix, `[matrix_count]`."""
    squares = full_tensor(tensor.square().sum(tuple(range(1, tensor.dim()))))  # of each row or layer
    return squares.view(matrix_count, -1).sum(1).sqrt()

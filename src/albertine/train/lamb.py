"""LAMB as the reference code has it: Adam, each matrix moved in proportion to its own length.

    m <- b1 m + (1 - b1) g            v <- b2 v + (1 - b2) g^2
    u = m / (sqrt(v) + eps) + decay w
    w <- w - rate * |w| / |u| * u

There is no bias correction. Norms and biases have neither decay nor the ratio of
lengths. Queries, keys and values are one matrix here and three in the reference, so
each third has a ratio of its own.
"""

from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from albertine.train.sharding import full_tensor, shard_like

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-6


class Lamb(Optimizer):
    """Its groups say `matrix`, whether decay and ratio apply, and `parts`, how many matrices are stacked."""

    def __init__(self, groups: list[dict[str, Any]], lr: float):
        super().__init__(groups, {"lr": lr, "weight_decay": 0.0, "matrix": True, "parts": 1})

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # nobody gives a closure
        """Move the weights."""
        for group in self.param_groups:
            for weight in group["params"]:
                update = self._adam_update(weight)
                if group["matrix"]:
                    update.add_(weight, alpha=group["weight_decay"])
                    _scale_to_weight_norm(update, weight, group["parts"])
                weight.add_(update, alpha=-group["lr"])

    def _adam_update(self, weight: Tensor) -> Tensor:
        """Take the gradient into both averages and return Adam's step."""
        state, gradient = self.state[weight], weight.grad
        assert gradient is not None
        if not state:
            state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(weight), torch.zeros_like(weight)
        first, second = state["exp_avg"], state["exp_avg_sq"]
        first.mul_(_BETA1).add_(gradient, alpha=1 - _BETA1)
        second.mul_(_BETA2).addcmul_(gradient, gradient, value=1 - _BETA2)
        update: Tensor = first / second.sqrt().add_(_EPSILON)
        return update


def _scale_to_weight_norm(update: Tensor, weight: Tensor, matrix_count: int) -> None:
    """Give each matrix of an update the length of the weights it moves; not where either has none."""
    weight_norms, update_norms = _matrix_norms(weight, matrix_count), _matrix_norms(update, matrix_count)
    ratio = torch.where((weight_norms > 0) & (update_norms > 0), weight_norms / update_norms, 1.0)
    rows = ratio.repeat_interleave(len(update) // matrix_count).unsqueeze(1)
    update.mul_(shard_like(rows, update))


def _matrix_norms(tensor: Tensor, matrix_count: int) -> Tensor:
    """Return the length of each of the stacked matrices."""
    squares = full_tensor(tensor.square().sum(1))
    return squares.view(matrix_count, -1).sum(1).sqrt()

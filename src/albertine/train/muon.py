"""Muon: the step of a matrix is its averaged gradient with all directions made equally long.

A gradient's few strong directions drown the rest. Five turns of a polynomial in the
matrix itself bring all its singular values near 1 without computing any, so that what
is rare in the data is learned at the pace of what is common. That costs some matrix
products for each weight matrix and step, whatever the batch; where depth shares its
matrices there are few, which makes Muon cheaper for ALBERT than for anything else.

Only the matrices between hidden states are its; tables, norms and biases are AdamW's.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from albertine.train.sharding import full_tensor, shard_like

_MOMENTUM = 0.95
# Of the polynomial a x + b x^3 + c x^5: as steep at 0 as can be while values near 1 stay there.
_A, _B, _C = 3.4445, -4.7750, 2.0315
_NEWTON_SCHULZ_STEPS = 5
# How far a step of rate 1 turns a hidden state. Counted so, and not by the size of elements, one rate
# suits every width; at a width of 256 the elements are a fifth of AdamW's.
_UPDATE_SCALE = 3.2


class Muon(Optimizer):
    """Its groups say `parts`, how many matrices are stacked in one parameter."""

    def __init__(self, groups: list[dict[str, Any]], lr: float, dtype: torch.dtype):
        super().__init__(groups, {"lr": lr, "weight_decay": 0.0, "parts": 1})
        self._dtype = dtype

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # nobody gives a closure
        """Move the weights."""
        for group in self.param_groups:
            for weight in group["params"]:
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                momentum = full_tensor(self._nesterov_momentum(weight)).unflatten(0, (group["parts"], -1))
                update = orthogonalized(momentum.to(self._dtype)).to(weight.dtype)
                _, rows, columns = update.shape
                scale = _UPDATE_SCALE * math.sqrt(max(1.0, rows / columns))
                weight.add_(shard_like(update.flatten(0, 1), weight), alpha=-group["lr"] * scale)

    def _nesterov_momentum(self, weight: Tensor) -> Tensor:
        """Take the gradient into its average and return what that will be, looked at one step ahead."""
        state, gradient = self.state[weight], weight.grad
        assert gradient is not None
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        momentum: Tensor = state["momentum"]
        momentum.lerp_(gradient, 1 - _MOMENTUM)
        nesterov: Tensor = gradient.lerp(momentum, _MOMENTUM)
        return nesterov


def orthogonalized(matrices: Tensor) -> Tensor:
    """Return matrices [P, m, n] with their singular values brought near 1."""
    tall = matrices.shape[1] > matrices.shape[2]
    x: Tensor = matrices.mT if tall else matrices
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for _ in range(_NEWTON_SCHULZ_STEPS):
        square = x @ x.mT
        x = _A * x + (_B * square + _C * square @ square) @ x
    return x.mT if tall else x

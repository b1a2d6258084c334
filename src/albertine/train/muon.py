"""Muon: the update of a matrix is its momentum with all singular values brought near 1.

A few large singular values dominate a gradient. Five Newton-Schulz steps bring all of
them near 1 without computing them, so rare features are learned as fast as frequent
ones. This costs a few matrix products per weight matrix and step, independent of the
batch. ALBERT has few weight matrices because its layers share them, so Muon costs it less
than other models.

Muon updates only the matrices between hidden states; AdamW updates everything else.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from albertine.train.sharding import full_tensor, shard_like

_MOMENTUM = 0.95
# Coefficients of a x + b x^3 + c x^5: as steep as possible at 0, while values near 1 stay near 1.
_A, _B, _C = 3.4445, -4.7750, 2.0315
NEWTON_SCHULZ_STEPS = 5
# How far an update at learning rate 1 changes a hidden state. Because updates are scaled by this change
# and not by the size of their elements, one learning rate fits every width; at width 256 the elements are
# a fifth of those of AdamW's updates. See docs/decisions/muon-update-scale.md.
_UPDATE_SCALE = 3.2


class Muon(Optimizer):
    """Muon; parameter groups may set `matrix_count`, the number of matrices that one parameter stacks."""

    def __init__(self, groups: list[dict[str, Any]], lr: float, dtype: torch.dtype):
        super().__init__(groups, {"lr": lr, "weight_decay": 0.0, "matrix_count": 1})
        self._dtype = dtype

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]  # no closure
        """Update the weights."""
        for group in self.param_groups:
            for weight in group["params"]:
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                momentum = full_tensor(self._nesterov_momentum(weight)).unflatten(
                    0, (group["matrix_count"], -1)
                )
                update = orthogonalized(momentum.to(self._dtype)).to(weight.dtype)
                _, rows, columns = update.shape
                scale = _UPDATE_SCALE * math.sqrt(max(1.0, rows / columns))
                weight.add_(shard_like(update.flatten(0, 1), weight), alpha=-group["lr"] * scale)

    def _nesterov_momentum(self, weight: Tensor) -> Tensor:
        """Update the momentum and return it one step ahead (Nesterov)."""
        state, gradient = self.state[weight], weight.grad
        assert gradient is not None
        if not state:
            state["momentum"] = torch.zeros_like(weight)
        momentum: Tensor = state["momentum"]
        momentum.lerp_(gradient, 1 - _MOMENTUM)
        nesterov: Tensor = gradient.lerp(momentum, _MOMENTUM)
        return nesterov


def orthogonalized(matrices: Tensor) -> Tensor:
    """Return matrices `[matrices, rows, columns]` with their singular values brought near 1."""
    tall = matrices.shape[1] > matrices.shape[2]
    x: Tensor = matrices.mT if tall else matrices
    x = x / (torch.linalg.matrix_norm(x, keepdim=True) + 1e-7)
    for _ in range(NEWTON_SCHULZ_STEPS):
        square = torch.bmm(x, x.mT)
        polynomial = torch.baddbmm(square, square, square, beta=_B, alpha=_C)  # B s + C s s
        x = torch.baddbmm(x, polynomial, x, beta=_A)  # A x + (B s + C s s) x
    return x.mT if tall else x

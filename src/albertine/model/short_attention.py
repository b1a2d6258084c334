"""Attention of short sequences while training in bf16 on a CPU.

The flash kernel keeps no scores, which saves memory at great length and costs a
second pass over everything in the backward. At the lengths of most sequences the
scores are small: kept, they make the backward four products. Scores and softmax
are fp32, as in the kernel; what is kept of them is bf16.
"""

from math import sqrt
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

LONGEST = 384  # beyond, the kernel's way is as fast and needs less memory


class ShortAttention(torch.autograd.Function):
    """Softmax of scaled scores times values: three tensors [B, L, D] to one, without dropout."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attend, and keep the probabilities."""
        scores = torch.bmm(query.float(), key.float().transpose(1, 2)).div_(sqrt(query.shape[-1]))
        chances = torch.softmax(scores, -1, out=scores).to(query.dtype)
        ctx.save_for_backward(query, key, value, chances)
        return torch.bmm(chances, value)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradients of query, key and value."""
        query, key, value, chances = ctx.saved_tensors
        of_chances = torch.bmm(gradient, value.transpose(1, 2))
        of_scores = torch._softmax_backward_data(of_chances, chances, -1, query.dtype)
        of_scores = of_scores.div_(sqrt(query.shape[-1]))
        return (
            torch.bmm(of_scores, key),
            torch.bmm(of_scores.transpose(1, 2), query),
            torch.bmm(chances.transpose(1, 2), gradient),
        )

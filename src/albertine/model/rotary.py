"""Rotary positions: queries and keys are turned by angles in proportion to their position.

A score then depends on how far apart two tokens are, and not on where they stand (Su et al. 2021,
RoFormer). Each head's elements form pairs, element i of the first half with element i of the second, and
pair i turns by 10,000 ** (-i / pairs) radians per token, as `transformers` has it for many models.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor

_BASE = 10_000.0


class Rotation(NamedTuple):
    """Cosines and sines of the angles of tokens, each [..., pairs], in the precision of the computation."""

    cos: Tensor
    sin: Tensor

    @classmethod
    def of_positions(cls, positions: Tensor, head_size: int, dtype: torch.dtype) -> "Rotation":
        """Return the rotation of tokens at positions, [...]."""
        pairs = head_size // 2
        steps = torch.arange(pairs, device=positions.device, dtype=torch.float32)
        angles = positions[..., None] * _BASE ** (-steps / pairs)
        return cls(angles.cos().to(dtype), angles.sin().to(dtype))

    def of_rows(self, rows: Tensor) -> "Rotation":
        """Return the rotation of some rows."""
        return Rotation(self.cos.index_select(0, rows), self.sin.index_select(0, rows))


def rotate(values: Tensor, rotation: Rotation, width: int, parts: int) -> Tensor:
    """Return queries, keys and values with some of them turned, [..., n * width].

    Args:
        values: one or more matrices side by side, [..., n * width].
        rotation: of the tokens.
        width: width of each matrix.
        parts: how many of them, from the first on, are turned.
    """
    turned: Tensor = _Rotate.apply(values, *rotation, width * parts, 1)  # type: ignore[no-untyped-call]
    return turned


class _Rotate(torch.autograd.Function):
    """Keeps only the rotation for the backward pass, which turns the gradient back."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, cos: Tensor, sin: Tensor, columns: int, direction: int) -> Tensor:
        ctx.save_for_backward(cos, sin)
        ctx.columns, ctx.direction = columns, direction
        return _turned(values, cos, sin, columns, direction)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        cos, sin = ctx.saved_tensors
        turned_back = _Rotate.apply(gradient, cos, sin, ctx.columns, -ctx.direction)  # type: ignore[no-untyped-call]
        return turned_back, None, None, None, None


def _turned(values: Tensor, cos: Tensor, sin: Tensor, columns: int, direction: int) -> Tensor:
    """Return values whose first columns are turned by angles, in one direction or, with -1, the other."""
    pairs = cos.shape[-1]
    # The number of heads is not -1, which would be ambiguous for a strip without tokens.
    halves = values[..., :columns].reshape(*values.shape[:-1], columns // (2 * pairs), 2, pairs)
    first, second = halves.unbind(-2)
    cos, sin = cos.unsqueeze(-2), sin.unsqueeze(-2)
    result = torch.empty_like(values)
    turned_first, turned_second = result[..., :columns].view(*halves.shape).unbind(-2)
    if torch.compiler.is_compiling():  # the compiler fuses these, and cannot trace the others
        turned_first.copy_(first * cos - second * sin * direction)
        turned_second.copy_(second * cos + first * sin * direction)
    else:  # they are limited by the bandwidth of the memory, so each writes into the result
        torch.mul(first, cos, out=turned_first).addcmul_(second, sin, value=-direction)
        torch.mul(second, cos, out=turned_second).addcmul_(first, sin, value=direction)
    result[..., columns:] = values[..., columns:]
    return result

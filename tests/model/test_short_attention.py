"""Attention with its own backward against the same in float64, and against the kernel's accuracy."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from albertine.model.short_attention import ShortAttention


def error(value: Tensor, exact: Tensor) -> float:
    return float((value.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("length", [1, 2, 7, 64, 129])
def test_outputs_and_gradients_are_those_of_float64(length: int) -> None:
    generator = torch.Generator().manual_seed(length)
    parts = [torch.randn(6, length, 16, generator=generator).bfloat16() for _ in range(3)]
    weight = torch.randn(6, length, 16, generator=generator)

    def run(dtype: torch.dtype, kernel: bool) -> list[Tensor]:
        leaves = [part.to(dtype).requires_grad_() for part in parts]
        if kernel:
            out = functional.scaled_dot_product_attention(leaves[0], leaves[1], leaves[2])
        else:
            out = ShortAttention.apply(*leaves)  # type: ignore[no-untyped-call]  # torch's own
        (out.float() * weight).sum().backward() if dtype != torch.float64 else (out * weight).sum().backward()
        return [out.detach(), *(one.grad for one in leaves if one.grad is not None)]

    exact = run(torch.float64, kernel=True)
    ours, kernels = run(torch.bfloat16, kernel=False), run(torch.bfloat16, kernel=True)
    for mine, theirs, right in zip(ours, kernels, exact, strict=True):
        if right.abs().max() > 1e-9:  # over one token nothing depends on query and key
            assert error(mine, right) < max(2 * error(theirs, right), 4e-3)
        else:
            assert mine.abs().max() < 1e-6

"""A linear layer and its GELU in one oneDNN call, for inference in bf16 on CPUs with AVX-512.

GELU by itself takes longer in bf16 than the matrix product before it. The fused call
applies it before the product is rounded. It has no backward pass. See
docs/decisions/fused-gelu-inference.md.
"""

from functools import cache

import torch
from torch import Tensor


def fused_linear_gelu(hidden: Tensor, weight: Tensor, bias: Tensor, approximation: str) -> Tensor:
    """Return gelu(hidden @ weight.T + bias): [..., hidden] to [..., ffn]."""
    # The kernel ignores the bias's strides.
    values: Tensor = torch.ops.mkldnn._linear_pointwise(
        hidden, weight, bias.contiguous(), "gelu", [], approximation
    )
    return values


@cache
def has_fast_linear_gelu() -> bool:
    """Return whether torch has the fused call and the CPU has fast instructions for it in bf16."""
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return False
    zeros = torch.zeros(1, 16, dtype=torch.bfloat16, device="cpu")
    try:
        fused_linear_gelu(zeros, zeros, zeros[0, :1], "tanh")
    except (AttributeError, RuntimeError):  # another version of torch, or ONEDNN_MAX_CPU_ISA excludes bf16
        return False
    return True

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
    # The operation ignores the strides of the bias.
    values: Tensor = torch.ops.mkldnn._linear_pointwise(
        hidden, weight, bias.contiguous(), "gelu", [], approximation
    )
    return values


@cache
def has_fast_linear_gelu() -> bool:
    """Tell whether torch has the call and the CPU has the instructions that make it fast in bf16."""
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return False
    probe = torch.zeros(1, 16, dtype=torch.bfloat16, device="cpu")
    try:
        fused_linear_gelu(probe, probe, probe[0, :1], "tanh")
    except (AttributeError, RuntimeError):  # another torch, or ONEDNN_MAX_CPU_ISA excludes bf16
        return False
    return True

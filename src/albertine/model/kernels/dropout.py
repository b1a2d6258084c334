"""Dropout, whose draws are cheap on a CPU.

torch draws a number of 53 bits for each value there, one after another. Sixteen bits
say as well what stays, and four of those come with every draw.
"""

import torch
from torch import Size, Tensor
from torch.nn import functional


def dropout(values: Tensor, rate: float) -> Tensor:
    """Set values to 0 at a rate, and make the others as much larger."""
    if not rate or not values.is_cpu or torch.compiler.is_compiling():
        return functional.dropout(values, rate)
    return apply_dropout_mask(values, dropout_mask(values.shape, rate), rate)


def dropout_mask(shape: Size, rate: float) -> Tensor:
    """Draw which values stay, from torch's generator; the rate is 0.99 at most, as in all settings."""
    count = shape.numel()
    random_words = torch.empty(-(-count // 4), dtype=torch.int64, device="cpu").random_(-(2**63), None)
    return random_words.view(torch.int16)[:count].view(shape) >= round(rate * 2**16) - 2**15


def apply_dropout_mask(values: Tensor, mask: Tensor, rate: float) -> Tensor:
    """Let those values stay that the mask has, made up for the others."""
    return (values * mask).mul_(1 / (1 - rate))

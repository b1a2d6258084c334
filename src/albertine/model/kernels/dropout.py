"""Dropout that draws 16 random bits per value, for CPUs.

On a CPU torch draws a 53-bit number for every value, one after another. Sixteen bits are
enough to decide whether a value is kept, so one 64-bit draw serves four values.
"""

import torch
from torch import Size, Tensor


def sixteen_bit_dropout(values: Tensor, rate: float) -> Tensor:
    """Return values of which a fraction `rate` is zeroed, and the rest rescaled."""
    return apply_dropout_mask(values, dropout_mask(values.shape, rate), rate)


def dropout_mask(shape: Size, rate: float) -> Tensor:
    """Return a random mask, True where a value is kept; the rate is at most 0.99."""
    count = shape.numel()
    random_int64 = torch.empty(-(-count // 4), dtype=torch.int64, device="cpu").random_(-(2**63), None)
    return random_int64.view(torch.int16)[:count].view(shape) >= round(rate * 2**16) - 2**15


def apply_dropout_mask(values: Tensor, mask: Tensor, rate: float) -> Tensor:
    """Return values with zeros where the mask is False, and the rest rescaled."""
    return (values * mask).mul_(1 / (1 - rate))

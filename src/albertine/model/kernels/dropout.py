"""Dropout that draws 16 random bits per value, for CPUs.

On a CPU torch draws a 53-bit number for every value, one after another. Sixteen bits are
enough to decide whether a value is kept, and one 64-bit draw decides for four values.
"""

import torch
from torch import Size, Tensor


def sixteen_bit_dropout(values: Tensor, rate: float) -> Tensor:
    """Zero values at a rate and rescale the rest."""
    return apply_dropout_mask(values, dropout_mask(values.shape, rate), rate)


def dropout_mask(shape: Size, rate: float) -> Tensor:
    """Draw from torch's generator which values are kept; the rate is at most 0.99."""
    count = shape.numel()
    random_words = torch.empty(-(-count // 4), dtype=torch.int64, device="cpu").random_(-(2**63), None)
    return random_words.view(torch.int16)[:count].view(shape) >= round(rate * 2**16) - 2**15


def apply_dropout_mask(values: Tensor, mask: Tensor, rate: float) -> Tensor:
    """Zero the values whose mask is False and rescale the rest."""
    return (values * mask).mul_(1 / (1 - rate))

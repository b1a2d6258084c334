"""Spare rows: rows after the tokens of a strip that round up its length, for bf16 on CPUs.

oneDNN prepares a kernel for each new shape of a matrix product in bf16, which takes longer
than the product. A strip has as many rows as tokens, so every training step would have new
shapes. With the number of rows rounded up, few shapes occur. Attention ignores the spare rows,
no result contains them, and they have no gradient. See docs/decisions/spare-rows.md.
"""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional

from albertine.model.attention import AttentionLayout

# Row counts are multiples of 16 and, above 512, of a 32nd of the next power of two.
_MIN_ROW_MULTIPLE = 16
_ROW_COUNTS_PER_POWER_OF_TWO = 32


def rounded_row_count(tokens: int) -> int:
    """Return the number of rows for a number of tokens: at most a 16th more, or up to 15 more."""
    multiple = max(_MIN_ROW_MULTIPLE, (1 << max(0, tokens - 1).bit_length()) // _ROW_COUNTS_PER_POWER_OF_TWO)
    return -(-tokens // multiple) * multiple


def pad_to_rounded_count(rows: Tensor) -> Tensor:
    """Return indices of rows with index 0 repeated at the end, up to a rounded number."""
    return functional.pad(rows, (0, rounded_row_count(len(rows)) - len(rows)))


def add_spare_rows(layout: AttentionLayout) -> AttentionLayout:
    """Return the layout with spare rows up to a rounded number; each of them repeats token 0."""
    tokens = sum(count * length for count, length in layout.length_groups)
    spare_rows = rounded_row_count(tokens) - tokens
    if not spare_rows:
        return layout
    identity = torch.arange(tokens)
    token_indices = identity if layout.token_indices is None else layout.token_indices
    row_indices = identity if layout.row_indices is None else layout.row_indices
    return replace(
        layout, token_indices=functional.pad(token_indices, (0, spare_rows)), row_indices=row_indices
    )

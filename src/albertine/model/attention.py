"""Attention over a strip: each token looks at its own sequence.

On CUDA in bf16 there is a kernel for this, variable-length flash attention. On
other machines sequences of equal length, lying side by side, are a dense block:
so the encoder sorts a strip by length once (`Cuts.order`), and each length has a
call of its own, without padding or mask. Only on a CPU, and where gradients are
wanted, short sequences of nearly the same length share one (`short_attention`).

For each new shape of a product in bf16 a CPU's library makes itself ready, which takes
longer than the product. Strips are as long as they are; so there a few spare rows are
put behind a strip's tokens, which nobody looks at, and their number is one of few.
"""

from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional

from albertine.model.kernels.short_attention import (
    LengthRuns,
    ShortAttention,
    max_short_length,
    padded_groups,
)
from albertine.model.strip import Strip

_MAX_FLASH_HEAD_SIZE = 256  # that the CUDA kernel takes; a width is also a multiple of 8
_MIN_ROW_MULTIPLE, _ROW_COUNTS_PER_POWER_OF_TWO = (
    16,
    32,
)  # numbers of rows are multiples of 16, and of a 32nd of the next power of two


@dataclass(frozen=True, eq=False)
class AttentionLayout:
    """Where attention may look, worked out once for all steps of depth.

    Attributes:
        length_runs: (sequences, length) of each run of equal lengths, in sorted order.
        token_order: which token of the strip each row is: sorted by length, then any for spare rows; None
            where rows are the strip as it lies.
        spare_rows: how many rows at the end are nobody's.
        offsets: the offsets in sorted order, on the device, for the CUDA kernel.
    """

    length_runs: LengthRuns
    token_order: Tensor | None
    spare_rows: int
    offsets: Tensor

    @classmethod
    def for_strip(cls, strip: Strip, dtype: torch.dtype = torch.float32) -> "AttentionLayout":
        """Sort a strip's sequences by length, equal ones in their order, to be computed in a precision."""
        lengths, device = strip.lengths, strip.tokens.device
        runs = [(length, len(list(run))) for length, run in groupby(sorted(lengths))]
        length_runs = tuple((count, length) for length, count in runs if length)
        token_count = len(strip.tokens)
        spare_rows = (
            padded_row_count(token_count) - token_count
            if strip.tokens.is_cpu and dtype == torch.bfloat16
            else 0
        )
        if lengths == sorted(lengths) and not spare_rows:
            return cls(length_runs, None, 0, strip.offsets.to(device, torch.int32))
        sequences = sorted(range(len(strip)), key=lengths.__getitem__)
        starts = strip.offsets.tolist()
        token_order = torch.cat([torch.arange(starts[i], starts[i + 1]) for i in sequences])
        offsets = functional.pad(torch.tensor([lengths[i] for i in sequences]).cumsum(0), (1, 0))
        token_order = functional.pad(token_order, (0, spare_rows))
        return cls(length_runs, token_order.to(device), spare_rows, offsets.to(device, torch.int32))

    def restore_order(self, rows: Tensor) -> Tensor:
        """Bring values of the rows, [N + spare, ...], back into the order of the strip, [N, ...]."""
        if self.token_order is None:
            return rows
        order = self.token_order.narrow(0, 0, len(self.token_order) - self.spare_rows)
        restored: Tensor = _RestoreOrder.apply(rows, order)  # type: ignore[no-untyped-call]  # torch's own
        return restored


def padded_row_count(tokens: int) -> int:
    """Return how many rows some tokens are computed as: a few more, a 16th of them or 15 at most."""
    multiple = max(_MIN_ROW_MULTIPLE, (1 << max(0, tokens - 1).bit_length()) // _ROW_COUNTS_PER_POWER_OF_TWO)
    return -(-tokens // multiple) * multiple


class _RestoreOrder(torch.autograd.Function):
    """The first rows in their old order. Each has one source, so its gradient is a copy and not a sum."""

    @staticmethod
    def forward(ctx, rows: Tensor, order: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(order)
        ctx.spare_rows = len(rows) - len(order)
        values = rows.narrow(0, 0, len(order))
        return torch.empty_like(values).index_copy_(0, order, values)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def]
        (order,) = ctx.saved_tensors
        if not ctx.spare_rows:
            return gradient.index_select(0, order), None
        rows = gradient.new_empty(len(order) + ctx.spare, *gradient.shape[1:])
        torch.index_select(gradient, 0, order, out=rows[: len(order)])
        rows[len(order) :].zero_()
        return rows, None


def attend(qkv: Tensor, layout: AttentionLayout, heads: int, dropout: float) -> Tensor:
    """Let every token attend to its sequence: [rows, 3 * H] with queries, keys, values, to [rows, H]."""
    head_size = qkv.shape[1] // 3 // heads
    is_supported_head_size = head_size % 8 == 0 and head_size <= _MAX_FLASH_HEAD_SIZE
    if (
        qkv.is_cuda
        and qkv.dtype in (torch.bfloat16, torch.float16)
        and is_supported_head_size
        and not dropout
    ):
        return _attend_flash(qkv, layout, heads)
    # Without gradients torch's own kernel is the faster one on a CPU too.
    if not (qkv.is_cpu and qkv.requires_grad):
        return _attend_runs(qkv, layout.length_runs, heads, dropout)
    short_runs = tuple(block for block in layout.length_runs if block[1] <= max_short_length(qkv.dtype))
    long_runs = layout.length_runs[len(short_runs) :]
    if not short_runs:
        return _attend_runs(qkv, long_runs, heads, dropout)
    if not long_runs:
        return _attend_short(qkv, short_runs, heads, dropout)
    short_token_count = _token_count(short_runs)
    parts = torch.split(qkv, [short_token_count, len(qkv) - short_token_count])
    attended = (
        _attend_short(parts[0], short_runs, heads, dropout),
        _attend_runs(parts[1], long_runs, heads, dropout),
    )
    return torch.cat(attended)


def _attend_short(qkv: Tensor, length_runs: LengthRuns, heads: int, dropout: float) -> Tensor:
    """Attention of runs of short sequences, in groups."""
    context: Tensor = ShortAttention.apply(  # type: ignore[no-untyped-call]  # torch's own
        qkv, padded_groups(length_runs), heads, dropout
    )
    return context


def _attend_runs(qkv: Tensor, length_runs: LengthRuns, heads: int, dropout: float) -> Tensor:
    """Attention of each run of equal lengths by itself."""
    spare_rows = len(qkv) - _token_count(length_runs)
    if len(length_runs) == 1 and not spare_rows:
        return _attend_equal_lengths(qkv, *length_runs[0], heads, dropout)
    *runs, rest = torch.split(qkv, [*(count * length for count, length in length_runs), spare_rows])
    parts = [
        _attend_equal_lengths(run, *block, heads, dropout)
        for run, block in zip(runs, length_runs, strict=True)
    ]
    width = qkv.shape[1] // 3
    return torch.cat([*parts, rest.new_zeros(spare_rows, width)]) if parts else qkv[:, :width]


def _token_count(length_runs: LengthRuns) -> int:
    return sum(count * length for count, length in length_runs)


def _attend_equal_lengths(qkv: Tensor, count: int, length: int, heads: int, dropout: float) -> Tensor:
    """Attention of `count` sequences of one length."""
    width = qkv.shape[1] // 3
    query, key, value = qkv.view(count, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    context = functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
    return context.transpose(1, 2).reshape(count * length, width)


def _attend_flash(qkv: Tensor, layout: AttentionLayout, heads: int) -> Tensor:
    """Attention of all sequences at once, by the variable-length kernel."""
    from torch.nn.attention.varlen import varlen_attn

    query, key, value = qkv.view(len(qkv), 3, heads, -1).unbind(1)
    max_length = layout.length_runs[-1][1] if layout.length_runs else 0
    context = varlen_attn(query, key, value, layout.offsets, layout.offsets, max_length, max_length)
    return context.reshape(len(qkv), -1)  # type: ignore[union-attr]  # a tensor unless more is asked for

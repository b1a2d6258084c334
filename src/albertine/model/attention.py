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

from albertine.model.short_attention import Blocks, ShortAttention, groups_of, longest
from albertine.model.strip import Strip

_WIDEST_HEAD = 256  # that the CUDA kernel takes; a width is also a multiple of 8
_LEAST_STEP, _STEPS = 16, 32  # numbers of rows are multiples of 16, and of a 32nd of the next power of two


@dataclass(frozen=True, eq=False)
class Cuts:
    """Where attention may look, worked out once for all steps of depth.

    Attributes:
        blocks: (sequences, length) of each run of equal lengths, in sorted order.
        order: which token of the strip each row is: sorted by length, then any for spare rows; None
            where rows are the strip as it lies.
        spare: how many rows at the end are nobody's.
        offsets: the offsets in sorted order, on the device, for the CUDA kernel.
    """

    blocks: Blocks
    order: Tensor | None
    spare: int
    offsets: Tensor

    @classmethod
    def of(cls, strip: Strip, dtype: torch.dtype = torch.float32) -> "Cuts":
        """Sort a strip's sequences by length, equal ones in their order, to be computed in a precision."""
        lengths, device = strip.lengths, strip.tokens.device
        runs = [(length, len(list(run))) for length, run in groupby(sorted(lengths))]
        blocks = tuple((count, length) for length, count in runs if length)
        many = len(strip.tokens)
        spare = rows_for(many) - many if strip.tokens.is_cpu and dtype == torch.bfloat16 else 0
        if lengths == sorted(lengths) and not spare:
            return cls(blocks, None, 0, strip.offsets.to(device, torch.int32))
        sequences = sorted(range(len(strip)), key=lengths.__getitem__)
        starts = strip.offsets.tolist()
        order = torch.cat([torch.arange(starts[i], starts[i + 1]) for i in sequences])
        offsets = functional.pad(torch.tensor([lengths[i] for i in sequences]).cumsum(0), (1, 0))
        order = functional.pad(order, (0, spare))
        return cls(blocks, order.to(device), spare, offsets.to(device, torch.int32))

    def restore(self, rows: Tensor) -> Tensor:
        """Bring values of the rows, [N + spare, ...], back into the order of the strip, [N, ...]."""
        if self.order is None:
            return rows
        order = self.order.narrow(0, 0, len(self.order) - self.spare)
        restored: Tensor = _Restored.apply(rows, order)  # type: ignore[no-untyped-call]  # torch's own
        return restored


def rows_for(tokens: int) -> int:
    """Return how many rows some tokens are computed as: a few more, a 16th of them or 15 at most."""
    step = max(_LEAST_STEP, (1 << max(0, tokens - 1).bit_length()) // _STEPS)
    return -(-tokens // step) * step


class _Restored(torch.autograd.Function):
    """The first rows in their old order. Each has one source, so its gradient is a copy and not a sum."""

    @staticmethod
    def forward(ctx, rows: Tensor, order: Tensor) -> Tensor:  # type: ignore[no-untyped-def]
        ctx.save_for_backward(order)
        ctx.spare = len(rows) - len(order)
        values = rows.narrow(0, 0, len(order))
        return torch.empty_like(values).index_copy_(0, order, values)

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple[Tensor, None]:  # type: ignore[no-untyped-def]
        (order,) = ctx.saved_tensors
        if not ctx.spare:
            return gradient.index_select(0, order), None
        rows = gradient.new_empty(len(order) + ctx.spare, *gradient.shape[1:])
        torch.index_select(gradient, 0, order, out=rows[: len(order)])
        rows[len(order) :].zero_()
        return rows, None


def attend(qkv: Tensor, cuts: Cuts, heads: int, dropout: float) -> Tensor:
    """Let every token attend to its sequence: [rows, 3 * H] with queries, keys, values, to [rows, H]."""
    width = qkv.shape[1] // 3 // heads
    fits = width % 8 == 0 and width <= _WIDEST_HEAD
    if qkv.is_cuda and qkv.dtype in (torch.bfloat16, torch.float16) and fits and not dropout:
        return _attend_flash(qkv, cuts, heads)
    # Without gradients torch's own kernel is the faster one on a CPU too.
    if not (qkv.is_cpu and qkv.requires_grad):
        return _attend_blocks(qkv, cuts.blocks, heads, dropout)
    short = tuple(block for block in cuts.blocks if block[1] <= longest(qkv.dtype))
    long = cuts.blocks[len(short) :]
    if not short:
        return _attend_blocks(qkv, long, heads, dropout)
    if not long:
        return _attend_short(qkv, short, heads, dropout)
    many = _tokens(short)
    parts = torch.split(qkv, [many, len(qkv) - many])
    attended = (
        _attend_short(parts[0], short, heads, dropout),
        _attend_blocks(parts[1], long, heads, dropout),
    )
    return torch.cat(attended)


def _attend_short(qkv: Tensor, blocks: Blocks, heads: int, dropout: float) -> Tensor:
    """Attention of runs of short sequences, in groups."""
    context: Tensor = ShortAttention.apply(  # type: ignore[no-untyped-call]  # torch's own
        qkv, groups_of(blocks), heads, dropout
    )
    return context


def _attend_blocks(qkv: Tensor, blocks: Blocks, heads: int, dropout: float) -> Tensor:
    """Attention of each run of equal lengths by itself."""
    spare = len(qkv) - _tokens(blocks)
    if len(blocks) == 1 and not spare:
        return _attend_block(qkv, *blocks[0], heads, dropout)
    *runs, rest = torch.split(qkv, [*(count * length for count, length in blocks), spare])
    parts = [_attend_block(run, *block, heads, dropout) for run, block in zip(runs, blocks, strict=True)]
    width = qkv.shape[1] // 3
    return torch.cat([*parts, rest.new_zeros(spare, width)]) if parts else qkv[:, :width]


def _tokens(blocks: Blocks) -> int:
    return sum(count * length for count, length in blocks)


def _attend_block(qkv: Tensor, count: int, length: int, heads: int, dropout: float) -> Tensor:
    """Attention of `count` sequences of one length."""
    width = qkv.shape[1] // 3
    query, key, value = qkv.view(count, length, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
    context = functional.scaled_dot_product_attention(query, key, value, dropout_p=dropout)
    return context.transpose(1, 2).reshape(count * length, width)


def _attend_flash(qkv: Tensor, cuts: Cuts, heads: int) -> Tensor:
    """Attention of all sequences at once, by the variable-length kernel."""
    from torch.nn.attention.varlen import varlen_attn

    query, key, value = qkv.view(len(qkv), 3, heads, -1).unbind(1)
    longest = cuts.blocks[-1][1] if cuts.blocks else 0
    context = varlen_attn(query, key, value, cuts.offsets, cuts.offsets, longest, longest)
    return context.reshape(len(qkv), -1)  # type: ignore[union-attr]  # a tensor unless more is asked for

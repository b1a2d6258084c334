"""Variable-length flash attention, for CUDA in half precision: all sequences of a strip in one call."""

from typing import Any

from torch import Tensor

from albertine.model.attention import AttentionLayout

_MAX_HEAD_SIZE = 256


def is_supported_head_size(head_size: int) -> bool:
    """Return whether the kernel accepts heads of this width."""
    return head_size % 8 == 0 and head_size <= _MAX_HEAD_SIZE


def flash_attention(qkv: Tensor, layout: AttentionLayout, heads: int) -> Tensor:
    """Return the attention of each sequence over itself: [rows, 3 * hidden] to [rows, hidden]."""
    from torch.nn.attention.varlen import varlen_attn  # imported only on CUDA

    hidden_size = qkv.shape[1] // 3
    if not layout.length_groups:  # of a process that has no sequences for this micro-batch
        return qkv[:, :hidden_size]
    query, key, value = qkv.view(len(qkv), 3, heads, hidden_size // heads).unbind(1)
    max_length = layout.length_groups[-1][1]
    bounds = layout.offsets, layout.offsets, max_length, max_length
    options: dict[str, Any] = {"window_size": (-1, 0)} if layout.causal else {}  # nothing to the right
    context = varlen_attn(query, key, value, *bounds, **options)
    return context.reshape(len(qkv), hidden_size)  # type: ignore[union-attr]  # a tuple only if more outputs are requested

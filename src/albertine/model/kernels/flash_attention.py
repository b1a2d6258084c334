"""Variable-length flash attention, for CUDA in half precision: all sequences of a strip in one call."""

from torch import Tensor

from albertine.model.attention import AttentionLayout

_MAX_HEAD_SIZE = 256


def is_supported_head_size(head_size: int) -> bool:
    """Return whether the kernel accepts heads of this width."""
    return head_size % 8 == 0 and head_size <= _MAX_HEAD_SIZE


def flash_attention(qkv: Tensor, layout: AttentionLayout, heads: int) -> Tensor:
    """Return the attention of each sequence over itself: [rows, 3 * hidden] to [rows, hidden]."""
    from torch.nn.attention.varlen import varlen_attn  # imported only on CUDA

    query, key, value = qkv.view(len(qkv), 3, heads, -1).unbind(1)
    max_length = layout.length_groups[-1][1] if layout.length_groups else 0
    context = varlen_attn(query, key, value, layout.offsets, layout.offsets, max_length, max_length)
    return context.reshape(len(qkv), -1)  # type: ignore[union-attr]  # a tuple only if more outputs are requested

"""The choice of kernels: one method per operation, with the plain version as its last line."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from torch import Tensor
from torch.nn import functional

from albertine.model.attention import AttentionLayout, attention_by_length
from albertine.model.kernels.dropout import sixteen_bit_dropout
from albertine.model.kernels.flash_attention import flash_attention, is_supported_head_size
from albertine.model.kernels.fused_linear_gelu import fused_linear_gelu, has_fast_linear_gelu
from albertine.model.kernels.short_attention import short_attention
from albertine.model.kernels.spare_rows import add_spare_rows, pad_to_rounded_count
from albertine.model.kernels.vocabulary_loss import vocabulary_loss
from albertine.model.strip import Strip


@dataclass(frozen=True)
class Kernels:
    """The operations of the network that have a faster version on some machines.

    | operation | plain version | kernel, and where it runs |
    |---|---|---|
    | layout, rows of the last layer | sequences sorted by length; exact | spare rows: CPU, bf16 |
    | attention | one call per sequence length | flash attention: CUDA, half precision, no dropout |
    | | | groups of short sequences: CPU, with gradients |
    | linear and GELU | two operations | one oneDNN call: CPU with AVX-512, bf16, no gradients |
    | dropout | torch's | 16 random bits per value: CPU |
    | loss over the vocabulary | logits of all rows | some rows at a time: CPU, with gradients |
    | rest of a layer after attention | not compiled | compiled: only with `compile` |

    Attributes:
        enabled: whether to use kernels; False selects the plain version of every operation.
        compile: whether to compile each layer's operations after attention, also if not `enabled`.
    """

    enabled: bool = True
    compile: bool = False

    def layout(self, strip: Strip, dtype: torch.dtype) -> AttentionLayout:
        """Return the layout of a strip for matrix products in `dtype`."""
        layout = AttentionLayout.from_strip(strip)
        return add_spare_rows(layout) if self._has_slow_new_shapes(strip.tokens, dtype) else layout

    def pad_rows(self, rows: Tensor, dtype: torch.dtype) -> Tensor:
        """Return indices of rows for matrix products in `dtype`; further ones may follow."""
        return pad_to_rounded_count(rows) if self._has_slow_new_shapes(rows, dtype) else rows

    def attention(self, qkv: Tensor, layout: AttentionLayout, heads: int, dropout: float) -> Tensor:
        """Return the attention of each sequence over itself: [rows, 3 * hidden] to [rows, hidden]."""
        is_half = qkv.dtype in (torch.bfloat16, torch.float16)
        head_size = qkv.shape[1] // 3 // heads
        if self.enabled and qkv.is_cuda and is_half and not dropout and is_supported_head_size(head_size):
            return flash_attention(qkv, layout, heads)
        groups, causal = layout.length_groups, layout.causal
        # On a CPU the plain version is faster if no gradient is needed.
        if self.enabled and qkv.is_cpu and qkv.requires_grad:
            return short_attention(qkv, groups, heads, dropout, causal=causal)
        return attention_by_length(qkv, groups, heads, dropout, causal=causal)

    def linear_gelu(self, hidden: Tensor, weight: Tensor, bias: Tensor, approximation: str) -> Tensor:
        """Return gelu(hidden @ weight.T + bias): [..., hidden] to [..., ffn]."""
        needs_gradient = torch.is_grad_enabled() and any(
            tensor.requires_grad for tensor in (hidden, weight, bias)
        )
        is_bf16 = hidden.dtype == weight.dtype == torch.bfloat16
        if self.enabled and _is_eager_cpu(hidden) and is_bf16 and not needs_gradient and _has_fast_onednn():
            return fused_linear_gelu(hidden, weight, bias, approximation)
        return functional.gelu(functional.linear(hidden, weight, bias), approximate=approximation)

    def dropout(self, values: Tensor, rate: float) -> Tensor:
        """Return values of which a fraction `rate` is zeroed, and the rest rescaled."""
        if not rate:
            return values
        if self.enabled and _is_eager_cpu(values):
            return sixteen_bit_dropout(values, rate)
        return functional.dropout(values, rate)

    def vocabulary_loss(
        self, values: Tensor, decoder: Tensor, bias: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Return the summed cross-entropy of linear(values, decoder, bias), and the number of correct rows.

        Rows with the label -100 do not count. The loss is computed in fp32. The third value is the logits,
        unless the kernel has done without all of them.
        """
        if self.enabled and _is_eager_cpu(values) and values.requires_grad:
            return *vocabulary_loss(values, decoder, bias, labels), None
        logits = functional.linear(values, decoder.to(values.dtype), bias.to(values.dtype))
        loss = functional.cross_entropy(logits.float(), labels, reduction="sum")
        return loss, (logits.detach().argmax(1) == labels).sum(), logits

    def maybe_compile(self, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        """Return the function, compiled if `compile` is set."""
        return compiled_function(function) if self.compile else function

    def _has_slow_new_shapes(self, values: Tensor, dtype: torch.dtype) -> bool:
        return self.enabled and values.is_cpu and dtype == torch.bfloat16


def _is_eager_cpu(values: Tensor) -> bool:
    """Return whether an operation runs on a CPU in eager mode; the compiler generates its own kernels."""
    return values.is_cpu and not torch.compiler.is_compiling()


def _has_fast_onednn() -> bool:
    """Return whether oneDNN is enabled and its fused call is fast on this CPU."""
    return bool(torch.backends.mkldnn.enabled) and has_fast_linear_gelu()


@cache
def compiled_function(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return the function compiled for any number of rows.

    All layers and models of the process share the result. torch recompiles it for each new
    combination of widths, precision and mode, so its limit on recompilation is raised.
    """
    torch._dynamo.config.recompile_limit = max(64, torch._dynamo.config.recompile_limit)
    return torch.compile(function, dynamic=True)

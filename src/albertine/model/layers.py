"""The parts of the network: the embedding, and the two blocks that depth repeats.

A block owns its weights in fp32 and hands them out cast to the precision of the
computation, once per pass; with shared blocks, twelve steps then use one cast.
The computation itself is in plain functions of tensors, which recomputation and
compilation can take as they are. Every norm closes its block (post-norm), and
adds the residual first.
"""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from albertine.errors import InputError
from albertine.model.kernels.dropout import dropout
from albertine.model.strip import Strip
from albertine.settings import ModelSettings


def gelu_approximation(settings: ModelSettings) -> str:
    """Return the form of GELU that a model uses, in torch's words."""
    return "tanh" if settings.activation == "gelu_tanh" else "none"


class Embedding(nn.Module):
    """Token, position and segment embeddings of width E, normalised there, then projected to width H."""

    def __init__(self, settings: ModelSettings):
        super().__init__()
        width = settings.embedding_size
        self.tokens = nn.Embedding(settings.vocab_size, width)
        self.positions = nn.Embedding(settings.max_length, width)
        self.segments = nn.Embedding(settings.segments, width)
        self.norm = nn.LayerNorm(width, eps=settings.norm_epsilon)
        self.projection = nn.Linear(width, settings.hidden_size) if settings.has_projection else None
        self.dropout = settings.dropout

    def forward(self, strip: Strip, token_order: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Embed the tokens of a strip, in another order if asked: [N, H]."""
        self._check_ids(strip)
        rows = [strip.tokens, strip.positions, strip.segments]
        tokens, positions, segments = (
            rows if token_order is None else [row.index_select(0, token_order) for row in rows]
        )
        embedded = self.tokens(tokens) + self.segments(segments) + self.positions(positions)
        embedded = dropout(self.norm(embedded), self.dropout if self.training else 0.0).to(dtype)
        if self.projection is None:
            return embedded
        return functional.linear(embedded, self.projection.weight.to(dtype), self.projection.bias.to(dtype))

    def _check_ids(self, strip: Strip) -> None:
        """Refuse what the tables have no rows for, by sequence; on a GPU looking at ids would wait for it."""
        max_length = self.positions.num_embeddings
        for index, length in enumerate(strip.lengths):
            if length > max_length:
                raise InputError(
                    f"sequence {index} has {length} tokens, the position table holds {max_length}"
                )
        if strip.tokens.is_cuda or not len(strip.tokens):
            return
        for name, ids, rows in (
            ("token", strip.tokens, self.tokens.num_embeddings),
            ("segment", strip.segments, self.segments.num_embeddings),
        ):
            low, high = (int(bound) for bound in ids.aminmax())
            if low < 0 or high >= rows:
                invalid_id = low if low < 0 else high
                raise InputError(f"{name} id {invalid_id} is outside the table of {rows} rows")


class AttentionWeights(NamedTuple):
    """What one attention computes with, in one precision."""

    qkv: Tensor
    qkv_bias: Tensor
    out: Tensor
    out_bias: Tensor
    norm: Tensor
    norm_bias: Tensor


class FeedForwardWeights(NamedTuple):
    """What one feed-forward network computes with, in one precision."""

    up: Tensor
    up_bias: Tensor
    down: Tensor
    down_bias: Tensor
    norm: Tensor
    norm_bias: Tensor


class Attention(nn.Module):
    """The weights of one multi-head attention with the norm that closes it; q, k and v are one matrix."""

    def __init__(self, settings: ModelSettings):
        super().__init__()
        self.qkv = nn.Linear(settings.hidden_size, 3 * settings.hidden_size)
        self.out = nn.Linear(settings.hidden_size, settings.hidden_size)
        self.norm = nn.LayerNorm(settings.hidden_size, eps=settings.norm_epsilon)

    def cast_weights(self, dtype: torch.dtype) -> AttentionWeights:
        """Cast the weights."""
        modules = (self.qkv, self.out, self.norm)
        return AttentionWeights(*(one.to(dtype) for owner in modules for one in (owner.weight, owner.bias)))


class FeedForward(nn.Module):
    """The weights of one feed-forward network with the norm that closes it."""

    def __init__(self, settings: ModelSettings):
        super().__init__()
        self.up = nn.Linear(settings.hidden_size, settings.effective_ffn_size)
        self.down = nn.Linear(settings.effective_ffn_size, settings.hidden_size)
        self.norm = nn.LayerNorm(settings.hidden_size, eps=settings.norm_epsilon)

    def cast_weights(self, dtype: torch.dtype) -> FeedForwardWeights:
        """Cast the weights."""
        modules = (self.up, self.down, self.norm)
        return FeedForwardWeights(*(one.to(dtype) for owner in modules for one in (owner.weight, owner.bias)))


@dataclass(frozen=True)
class LayerOptions:
    """What the two functions below need to know beside tensors."""

    norm_epsilon: float
    gelu_approximation: str
    dropout: float


def attention_output(
    hidden: Tensor, context: Tensor, weights: AttentionWeights, options: LayerOptions
) -> Tensor:
    """Close attention: project the context, add the residual, normalise."""
    projected = dropout(functional.linear(context, weights.out, weights.out_bias), options.dropout)
    return functional.layer_norm(
        hidden + projected, hidden.shape[-1:], weights.norm, weights.norm_bias, options.norm_epsilon
    )


def feed_forward(hidden: Tensor, weights: FeedForwardWeights, options: LayerOptions) -> Tensor:
    """Widen, activate, narrow; add the residual, normalise."""
    activated = linear_gelu(hidden, weights, options.gelu_approximation)
    projected = dropout(functional.linear(activated, weights.down, weights.down_bias), options.dropout)
    return functional.layer_norm(
        hidden + projected, hidden.shape[-1:], weights.norm, weights.norm_bias, options.norm_epsilon
    )


def linear_gelu(hidden: Tensor, weights: FeedForwardWeights, approximation: str) -> Tensor:
    """Widen and activate; by one call where there is one, and no backward pass asks for what lies between."""
    up, bias = weights.up, weights.up_bias
    needs_gradient = torch.is_grad_enabled() and any(one.requires_grad for one in (hidden, up, bias))
    if needs_gradient or not _can_fuse_linear_gelu(hidden, up):
        return functional.gelu(functional.linear(hidden, up, bias), approximate=approximation)
    # It reads the bias as if it lay close.
    values: Tensor = torch.ops.mkldnn._linear_pointwise(
        hidden, up, bias.contiguous(), "gelu", [], approximation
    )
    return values


def _can_fuse_linear_gelu(hidden: Tensor, up: Tensor) -> bool:
    """Tell whether a product of these may activate what it computes, before it is rounded."""
    if torch.compiler.is_compiling() or not (hidden.is_cpu and hidden.dtype == up.dtype == torch.bfloat16):
        return False
    return bool(torch.backends.mkldnn.enabled) and _has_fast_fused_linear_gelu()


@cache
def _has_fast_fused_linear_gelu() -> bool:
    """Tell whether torch and this CPU have such a product that is fast; no more than trying it tells."""
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return False
    probe = torch.zeros(1, 16, dtype=torch.bfloat16, device="cpu")
    try:
        torch.ops.mkldnn._linear_pointwise(probe, probe, probe[0, :1], "gelu", [], "tanh")
    except (AttributeError, RuntimeError):  # not in this torch; not for the instructions that oneDNN may use
        return False
    return True

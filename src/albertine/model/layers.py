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
from albertine.model.drop import drop
from albertine.model.strip import Strip
from albertine.settings import ModelSettings


def gelu(model: ModelSettings) -> str:
    """Return the form of GELU that a model uses, in torch's words."""
    return "tanh" if model.activation == "gelu_tanh" else "none"


class Embedding(nn.Module):
    """Token, position and segment embeddings of width E, normalised there, then projected to width H."""

    def __init__(self, model: ModelSettings):
        super().__init__()
        width = model.embedding_size
        self.tokens = nn.Embedding(model.vocab_size, width)
        self.positions = nn.Embedding(model.max_length, width)
        self.segments = nn.Embedding(model.segments, width)
        self.norm = nn.LayerNorm(width, eps=model.norm_epsilon)
        self.projection = nn.Linear(width, model.hidden_size) if model.projects else None
        self.dropout = model.dropout

    def forward(self, strip: Strip, order: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Embed the tokens of a strip, in another order if asked: [N, H]."""
        self._check(strip)
        rows = [strip.tokens, strip.positions, strip.types]
        tokens, positions, types = rows if order is None else [row.index_select(0, order) for row in rows]
        embedded = self.tokens(tokens) + self.segments(types) + self.positions(positions)
        embedded = drop(self.norm(embedded), self.dropout if self.training else 0.0).to(dtype)
        if self.projection is None:
            return embedded
        return functional.linear(embedded, self.projection.weight.to(dtype), self.projection.bias.to(dtype))

    def _check(self, strip: Strip) -> None:
        """Refuse what the tables have no rows for, by sequence; on a GPU looking at ids would wait for it."""
        longest = self.positions.num_embeddings
        for index, length in enumerate(strip.lengths):
            if length > longest:
                raise InputError(f"sequence {index} has {length} tokens, the position table holds {longest}")
        if strip.tokens.is_cuda or not len(strip.tokens):
            return
        for name, ids, rows in (
            ("token", strip.tokens, self.tokens.num_embeddings),
            ("segment", strip.types, self.segments.num_embeddings),
        ):
            low, high = (int(bound) for bound in ids.aminmax())
            if low < 0 or high >= rows:
                wrong = low if low < 0 else high
                raise InputError(f"{name} id {wrong} is outside the table of {rows} rows")


class AttentionWeights(NamedTuple):
    """What one attention computes with, in one precision."""

    qkv: Tensor
    qkv_bias: Tensor
    out: Tensor
    out_bias: Tensor
    norm: Tensor
    norm_bias: Tensor


class FfnWeights(NamedTuple):
    """What one feed-forward network computes with, in one precision."""

    up: Tensor
    up_bias: Tensor
    down: Tensor
    down_bias: Tensor
    norm: Tensor
    norm_bias: Tensor


class Attention(nn.Module):
    """The weights of one multi-head attention with the norm that closes it; q, k and v are one matrix."""

    def __init__(self, model: ModelSettings):
        super().__init__()
        self.qkv = nn.Linear(model.hidden_size, 3 * model.hidden_size)
        self.out = nn.Linear(model.hidden_size, model.hidden_size)
        self.norm = nn.LayerNorm(model.hidden_size, eps=model.norm_epsilon)

    def weights(self, dtype: torch.dtype) -> AttentionWeights:
        """Cast the weights."""
        owners = (self.qkv, self.out, self.norm)
        return AttentionWeights(*(one.to(dtype) for owner in owners for one in (owner.weight, owner.bias)))


class Ffn(nn.Module):
    """The weights of one feed-forward network with the norm that closes it."""

    def __init__(self, model: ModelSettings):
        super().__init__()
        self.up = nn.Linear(model.hidden_size, model.ffn)
        self.down = nn.Linear(model.ffn, model.hidden_size)
        self.norm = nn.LayerNorm(model.hidden_size, eps=model.norm_epsilon)

    def weights(self, dtype: torch.dtype) -> FfnWeights:
        """Cast the weights."""
        owners = (self.up, self.down, self.norm)
        return FfnWeights(*(one.to(dtype) for owner in owners for one in (owner.weight, owner.bias)))


@dataclass(frozen=True)
class Shape:
    """What the two functions below need to know beside tensors."""

    epsilon: float
    form: str
    dropout: float


def mix(hidden: Tensor, context: Tensor, weights: AttentionWeights, shape: Shape) -> Tensor:
    """Close attention: project the context, add the residual, normalise."""
    mixed = drop(functional.linear(context, weights.out, weights.out_bias), shape.dropout)
    return functional.layer_norm(
        hidden + mixed, hidden.shape[-1:], weights.norm, weights.norm_bias, shape.epsilon
    )


def feed_forward(hidden: Tensor, weights: FfnWeights, shape: Shape) -> Tensor:
    """Widen, activate, narrow; add the residual, normalise."""
    wide = widened(hidden, weights, shape.form)
    change = drop(functional.linear(wide, weights.down, weights.down_bias), shape.dropout)
    return functional.layer_norm(
        hidden + change, hidden.shape[-1:], weights.norm, weights.norm_bias, shape.epsilon
    )


def widened(hidden: Tensor, weights: FfnWeights, form: str) -> Tensor:
    """Widen and activate; by one call where there is one, and no backward pass asks for what lies between."""
    up, bias = weights.up, weights.up_bias
    learned = torch.is_grad_enabled() and any(one.requires_grad for one in (hidden, up, bias))
    if learned or not _at_once(hidden, up):
        return functional.gelu(functional.linear(hidden, up, bias), approximate=form)
    # It reads the bias as if it lay close.
    values: Tensor = torch.ops.mkldnn._linear_pointwise(hidden, up, bias.contiguous(), "gelu", [], form)
    return values


def _at_once(hidden: Tensor, up: Tensor) -> bool:
    """Tell whether a product of these may activate what it computes, before it is rounded."""
    if torch.compiler.is_compiling() or not (hidden.is_cpu and hidden.dtype == up.dtype == torch.bfloat16):
        return False
    return bool(torch.backends.mkldnn.enabled) and _known_at_once()


@cache
def _known_at_once() -> bool:
    """Tell whether torch and this CPU have such a product that is fast; no more than trying it tells."""
    if not torch.backends.cpu.get_cpu_capability().startswith("AVX512"):
        return False
    some = torch.zeros(1, 16, dtype=torch.bfloat16, device="cpu")
    try:
        torch.ops.mkldnn._linear_pointwise(some, some, some[0, :1], "gelu", [], "tanh")
    except (AttributeError, RuntimeError):  # not in this torch; not for the instructions that oneDNN may use
        return False
    return True

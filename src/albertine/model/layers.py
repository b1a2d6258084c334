"""The layers of ALBERT: the embedding, and the attention and feed-forward blocks.

    embedding    norm(token + segment + position), width E, projected to width H; without position if
                 positions are rotary, because then attention turns queries and keys; with `mark_matches`,
                 plus a vector at each token that also occurs in the other text of a pair
    attention    hidden = norm(hidden + out(attention(qkv(hidden))))
    feed-forward hidden = norm(hidden + down(gelu(up(hidden))))

With `norm_first`, a block normalizes its input:

    attention    hidden = hidden + out(attention(qkv(norm(hidden))))
    feed-forward hidden = hidden + down(gelu(up(norm(hidden))))

A block holds its weights in fp32 and casts them to the precision of the computation once per
forward pass, however many layers use the block. The computation itself is in plain functions
of tensors, which `torch.utils.checkpoint` and `torch.compile` accept as they are (see
docs/decisions/weights-as-arguments.md). These functions take hidden states of any shape
`[..., hidden]`, those of a strip or of a padded batch.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from albertine.errors import InputError
from albertine.model.kernels.selection import Kernels
from albertine.model.strip import Strip
from albertine.settings import ModelSettings


def _embedding_table(num_embeddings: int, width: int) -> nn.Embedding:
    """Return a table without values; a model draws them from its seed, or takes them from a checkpoint.

    On the meta device, the default initialization would import torch's compiler, which takes a second.
    """
    table: nn.Embedding = nn.Embedding.from_pretrained(torch.empty(num_embeddings, width), freeze=False)
    return table


class Embedding(nn.Module):
    """Token, segment and position embeddings of width E, normalized, then projected to width H."""

    def __init__(self, settings: ModelSettings):
        super().__init__()
        width = settings.embedding_size
        self.tokens = _embedding_table(settings.vocab_size, width)
        self.positions = None if settings.rotary else _embedding_table(settings.max_length, width)
        self.segments = _embedding_table(settings.segments, width)
        self.match = nn.Parameter(torch.zeros(width)) if settings.mark_matches else None
        self.norm = nn.LayerNorm(width, eps=settings.norm_epsilon)
        self.projection = nn.Linear(width, settings.hidden_size) if settings.has_projection else None
        self.dropout, self.max_length = settings.dropout, settings.max_length

    def forward(
        self,
        tokens: Tensor,
        segments: Tensor,
        positions: Tensor,
        is_match: Tensor | None,
        dtype: torch.dtype,
        kernels: Kernels,
    ) -> Tensor:
        """Return the embeddings, [..., hidden], of token ids, segments and positions, each [...].

        Args:
            tokens: token ids.
            segments: segment of each token.
            positions: position of each token.
            is_match: whether each token is in both texts (see `match_marks`); None without `mark_matches`.
            dtype: precision of the output.
            kernels: implementations of the operations.
        """
        embedded = self.tokens(tokens) + self.segments(segments)
        if self.positions is not None:
            embedded = embedded + self.positions(positions)
        if self.match is not None and is_match is not None:
            embedded = embedded + is_match.unsqueeze(-1) * self.match
        rate = self.dropout if self.training else 0.0
        embedded = kernels.dropout(self.norm(embedded), rate).to(dtype)
        if self.projection is None:
            return embedded
        return functional.linear(embedded, self.projection.weight.to(dtype), self.projection.bias.to(dtype))

    def check_ids(self, strip: Strip) -> None:
        """Raise if an id or a sequence length is outside its table.

        On a GPU only lengths are checked, because reading ids would wait for the device.
        """
        for index, length in enumerate(strip.lengths):
            if length > self.max_length:
                raise InputError(
                    f"sequence {index} has {length} tokens, more than the model's {self.max_length}"
                )
        if strip.tokens.is_cuda or not len(strip.tokens):
            return
        for name, ids, rows in (
            ("token", strip.tokens, self.tokens.num_embeddings),
            ("segment", strip.segments, self.segments.num_embeddings),
        ):
            smallest, largest = (int(bound) for bound in ids.aminmax())
            if smallest < 0 or largest >= rows:
                invalid_id = smallest if smallest < 0 else largest
                raise InputError(f"{name} id {invalid_id} is outside the table of {rows} rows")


class LowRankFactors(NamedTuple):
    """Two factors whose product is what a step adds to a shared matrix, outer @ inner."""

    outer: Tensor
    inner: Tensor


class AttentionWeights(NamedTuple):
    """The weights of one attention block, in one precision.

    A difference is None where the matrix has none, or contains it.
    """

    qkv: Tensor
    qkv_bias: Tensor
    out: Tensor
    out_bias: Tensor
    norm: Tensor
    norm_bias: Tensor
    qkv_difference: LowRankFactors | None = None
    out_difference: LowRankFactors | None = None


class FeedForwardWeights(NamedTuple):
    """The weights of one feed-forward block, in one precision; see `AttentionWeights`."""

    up: Tensor
    up_bias: Tensor
    down: Tensor
    down_bias: Tensor
    norm: Tensor
    norm_bias: Tensor
    up_difference: LowRankFactors | None = None
    down_difference: LowRankFactors | None = None


class Block(nn.Module):
    """The parameters of a part of a layer."""

    def hold_weights(self, layer: Callable[[Tensor], Tensor], hidden: Tensor) -> Tensor:
        """Return layer(hidden), where the layer computes with the weights of this block.

        Sharded training gathers the weights for this call, and again for its backward pass.
        """
        return layer(hidden)


class Attention(Block):
    """The parameters of multi-head attention and its norm; q, k and v are projected by one matrix."""

    def __init__(self, settings: ModelSettings):
        super().__init__()
        self.qkv = nn.Linear(settings.hidden_size, 3 * settings.hidden_size)
        self.out = nn.Linear(settings.hidden_size, settings.hidden_size)
        self.norm = nn.LayerNorm(settings.hidden_size, eps=settings.norm_epsilon)

    def cast_weights(self, dtype: torch.dtype) -> AttentionWeights:
        """Return the weights in the precision of the computation."""
        return AttentionWeights(*_cast(self.qkv, dtype), *_cast(self.out, dtype), *_cast(self.norm, dtype))


class FeedForward(Block):
    """The parameters of a feed-forward network and its norm."""

    def __init__(self, settings: ModelSettings):
        super().__init__()
        self.up = nn.Linear(settings.hidden_size, settings.effective_ffn_size)
        self.down = nn.Linear(settings.effective_ffn_size, settings.hidden_size)
        self.norm = nn.LayerNorm(settings.hidden_size, eps=settings.norm_epsilon)

    def cast_weights(self, dtype: torch.dtype) -> FeedForwardWeights:
        """Return the weights in the precision of the computation."""
        return FeedForwardWeights(*_cast(self.up, dtype), *_cast(self.down, dtype), *_cast(self.norm, dtype))


def _cast(module: nn.Linear | nn.LayerNorm, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return weight and bias of a module in a precision."""
    return module.weight.to(dtype), module.bias.to(dtype)


@dataclass(frozen=True)
class LayerOptions:
    """The arguments of a layer that are not tensors.

    Attributes:
        norm_first: whether a block normalizes its input, or the sum of its input and its output.
        norm_epsilon: epsilon of the norms.
        gelu_approximation: "tanh" or "none", as in `torch.nn.functional.gelu`.
        dropout: dropout rate of the hidden states; 0 in evaluation.
        kernels: the implementations to use.
    """

    norm_first: bool
    norm_epsilon: float
    gelu_approximation: str
    dropout: float
    kernels: Kernels


# Maps queries, keys and values, [..., 3 * hidden], to the output of attention, [..., hidden].
AttentionFunction = Callable[[Tensor], Tensor]


def encoder_layer(
    hidden: Tensor,
    attention_weights: AttentionWeights,
    feed_forward_weights: FeedForwardWeights,
    rows: Tensor | None = None,
    *,
    attend: AttentionFunction,
    options: LayerOptions,
) -> Tensor:
    """Apply one layer, attention and then feed-forward: [..., hidden] to [..., hidden].

    With `rows`, the output has only these rows of `hidden`, which must have two dimensions.
    """
    block_input = _block_input(hidden, attention_weights, options)
    weights = attention_weights
    context = attend(_linear(block_input, weights.qkv, weights.qkv_bias, weights.qkv_difference))
    if rows is not None:
        hidden, context = hidden.index_select(0, rows), context.index_select(0, rows)
    rest_of_layer = options.kernels.maybe_compile(after_attention)
    return rest_of_layer(hidden, context, attention_weights, feed_forward_weights, options)


def encoder_layer_at(
    hidden: Tensor,
    rows: Tensor,
    attention_weights: AttentionWeights,
    feed_forward_weights: FeedForwardWeights,
    *,
    attend: Callable[[Tensor, Tensor], Tensor],
    options: LayerOptions,
) -> Tensor:
    """Apply one layer and compute its output at some tokens only; the others only give keys and values.

    Args:
        hidden: input of the layer, [rows, hidden].
        rows: rows of the tokens whose output is computed, [queries].
        attention_weights: weights of the attention block.
        feed_forward_weights: weights of the feed-forward block.
        attend: maps queries, [queries, hidden], and keys and values, [rows, 2 * hidden], to the output of
            attention, [queries, hidden].
        options: the other arguments of the layer.

    Returns:
        [queries, hidden].
    """
    width = hidden.shape[1]
    block_input = _block_input(hidden, attention_weights, options)
    weights = attention_weights

    def project(block_input: Tensor, part: slice) -> Tensor:
        factors = weights.qkv_difference
        difference = None if factors is None else LowRankFactors(factors.outer[part], factors.inner)
        return _linear(block_input, weights.qkv[part], weights.qkv_bias[part], difference)

    query = project(block_input.index_select(0, rows), slice(width))
    context = attend(query, project(block_input, slice(width, None)))
    return after_attention(
        hidden.index_select(0, rows), context, attention_weights, feed_forward_weights, options
    )


def after_attention(
    hidden: Tensor,
    context: Tensor,
    attention_weights: AttentionWeights,
    feed_forward_weights: FeedForwardWeights,
    options: LayerOptions,
) -> Tensor:
    """Apply the rest of a layer after attention, which treats every token by itself.

    Args:
        hidden: input of the layer, [..., hidden].
        context: output of attention, [..., hidden].
        attention_weights: weights of the attention block.
        feed_forward_weights: weights of the feed-forward block.
        options: the other arguments of the layer.

    Returns:
        [..., hidden].
    """
    attended = attention_output(hidden, context, attention_weights, options)
    return feed_forward(attended, feed_forward_weights, options)


def attention_output(
    hidden: Tensor, context: Tensor, weights: AttentionWeights, options: LayerOptions
) -> Tensor:
    """Return the output of an attention block: the sum of `hidden` and out(context), with its norm."""
    projected = _linear(context, weights.out, weights.out_bias, weights.out_difference)
    return _add(hidden, projected, weights, options)


def feed_forward(hidden: Tensor, weights: FeedForwardWeights, options: LayerOptions) -> Tensor:
    """Return the output of a feed-forward block."""
    block_input = _block_input(hidden, weights, options)
    activated = _activated(block_input, weights, options)
    projected = _linear(activated, weights.down, weights.down_bias, weights.down_difference)
    return _add(hidden, projected, weights, options)


def _activated(block_input: Tensor, weights: FeedForwardWeights, options: LayerOptions) -> Tensor:
    """Return gelu(up(block_input)), [..., ffn]."""
    if weights.up_difference is None:
        return options.kernels.linear_gelu(
            block_input, weights.up, weights.up_bias, options.gelu_approximation
        )
    neurons = _linear(block_input, weights.up, weights.up_bias, weights.up_difference)
    return functional.gelu(neurons, approximate=options.gelu_approximation)


def _linear(hidden: Tensor, matrix: Tensor, bias: Tensor, difference: LowRankFactors | None) -> Tensor:
    """Return the product with a matrix and its difference, [..., in] to [..., out]."""
    product = functional.linear(hidden, matrix, bias)
    if difference is None:
        return product
    return product + functional.linear(functional.linear(hidden, difference.inner), difference.outer)


def _block_input(
    hidden: Tensor, weights: AttentionWeights | FeedForwardWeights, options: LayerOptions
) -> Tensor:
    return _normalized(hidden, weights, options) if options.norm_first else hidden


def _add(
    hidden: Tensor, update: Tensor, weights: AttentionWeights | FeedForwardWeights, options: LayerOptions
) -> Tensor:
    summed = hidden + options.kernels.dropout(update, options.dropout)
    return summed if options.norm_first else _normalized(summed, weights, options)


def _normalized(
    hidden: Tensor, weights: AttentionWeights | FeedForwardWeights, options: LayerOptions
) -> Tensor:
    return functional.layer_norm(
        hidden, hidden.shape[-1:], weights.norm, weights.norm_bias, options.norm_epsilon
    )


def gelu_approximation(settings: ModelSettings) -> str:
    """Return the form of GELU under torch's name: "tanh", or "none" if exact."""
    return "tanh" if settings.activation == "gelu_tanh" else "none"

"""Attention of short sequences for training on a CPU: few calls, and an explicit backward pass.

Each attention call has a fixed cost, and few sequences have exactly the same length. So
adjacent sequences of a strip sorted by length form a group: shorter sequences are padded to
the longest of the group, and a bias hides the padding. Only attention sees this padding. See
docs/decisions/short-attention-groups.md.

Flash attention does not keep the attention probabilities. This saves memory for long
sequences, but the backward pass has to compute all scores again. The probabilities of short
sequences take little memory, so here they are kept, and the backward pass is four matrix
products. Scores and softmax are computed in fp32, as in flash attention; probabilities are
kept in the precision of the values.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from albertine.model.attention import LengthGroups, attention_by_length
from albertine.model.kernels.dropout import apply_dropout_mask, dropout_mask

# For each token, head and layer a row of probabilities is kept; longer rows would take too much memory.
_MAX_PROBABILITY_ROW_BYTES = 1024
# Computing 64 tokens costs about as much as one call.
_MAX_PADDING_PER_GROUP = 64
# Maximum number of scores of one head in a group; larger groups were slower.
_MAX_SCORES_PER_HEAD = 128 * 128 * 8


def short_attention(
    qkv: Tensor, length_groups: LengthGroups, heads: int, dropout: float, *, causal: bool = False
) -> Tensor:
    """Return the attention of each sequence over itself, with few calls for the short sequences.

    Args:
        qkv: queries, keys and values of sequences sorted by length, [rows, 3 * hidden].
        length_groups: number and length of the sequences in each group.
        heads: number of heads.
        dropout: dropout rate of the attention weights.
        causal: whether a token attends only to itself and to the tokens before it.

    Returns:
        [rows, hidden]; rows after the last sequence are zeros.
    """
    short_groups = tuple(group for group in length_groups if group[1] <= max_short_length(qkv.dtype))
    long_groups = length_groups[len(short_groups) :]
    if not short_groups:
        return attention_by_length(qkv, long_groups, heads, dropout, causal=causal)
    if not long_groups:
        return _grouped_attention(qkv, short_groups, heads, dropout, causal)
    short_token_count = sum(count * length for count, length in short_groups)
    short_qkv, long_qkv = qkv.split([short_token_count, len(qkv) - short_token_count])
    contexts = (
        _grouped_attention(short_qkv, short_groups, heads, dropout, causal),
        attention_by_length(long_qkv, long_groups, heads, dropout, causal=causal),
    )
    return torch.cat(contexts)


def _grouped_attention(
    qkv: Tensor, length_groups: LengthGroups, heads: int, dropout: float, causal: bool
) -> Tensor:
    """Return the attention of short sequences, one call per group: [rows, 3 * hidden] to [rows, hidden]."""
    context: Tensor = _GroupedAttention.apply(  # type: ignore[no-untyped-call]  # torch's own
        qkv, padded_groups(length_groups, causal=causal), heads, dropout
    )
    return context


def max_short_length(dtype: torch.dtype) -> int:
    """Return the largest length of a sequence whose probabilities are kept."""
    return _MAX_PROBABILITY_ROW_BYTES // dtype.itemsize


@lru_cache(maxsize=32)  # all layers of a step use the same groups
def padded_groups(length_groups: LengthGroups, *, causal: bool = False) -> tuple["PaddedGroup", ...]:
    """Return the groups of a sorted strip, shortest sequences first.

    Groups are formed from the longest sequence down, and each takes sequences until it would
    have too much padding or too many scores.

    Args:
        length_groups: number and length of the sequences of each group of equal length.
        causal: whether a token attends only to itself and to the tokens before it.
    """
    groups: list[list[int]] = []  # the lengths in each group, longest first
    padding_left = 0
    for length in (length for count, length in reversed(length_groups) for _ in range(count)):
        padded_length = groups[-1][0] if groups else 0
        padding_left -= padded_length - length
        if not groups or padding_left < 0 or (len(groups[-1]) + 1) * padded_length**2 > _MAX_SCORES_PER_HEAD:
            groups.append([])
            padding_left = _MAX_PADDING_PER_GROUP
        groups[-1].append(length)
    return tuple(PaddedGroup.from_lengths(group[::-1], causal=causal) for group in reversed(groups))


@dataclass(frozen=True, eq=False)
class PaddedGroup:
    """Adjacent sequences that share one attention call, padded to `padded_length` slots each.

    The two tensors of indices are None if all sequences have the same length. In shapes, `length` is
    `padded_length`.

    Attributes:
        token_count: number of tokens.
        sequence_count: number of sequences.
        padded_length: length of the longest sequence.
        padded_indices: slot of each token, [tokens].
        token_indices: token in each slot, any token at padding, [sequences * length].
        attention_bias: minus infinity at tokens to ignore, else 0: [sequences, 1, 1, length], or
            [1, 1, length, length] if it is causal; None if there are no such tokens.
    """

    token_count: int
    sequence_count: int
    padded_length: int
    padded_indices: Tensor | None = None
    token_indices: Tensor | None = None
    attention_bias: Tensor | None = None

    @classmethod
    def from_lengths(cls, lengths: list[int], *, causal: bool = False) -> "PaddedGroup":
        """Return the group of sequences with these lengths."""
        token_count, sequence_count, padded_length = sum(lengths), len(lengths), max(lengths)
        causal_bias = _causal_bias(padded_length) if causal else None
        if token_count == sequence_count * padded_length:
            return cls(token_count, sequence_count, padded_length, attention_bias=causal_bias)
        is_token = torch.arange(padded_length) < torch.tensor(lengths).unsqueeze(1)
        # Padding follows the tokens, so a causal bias hides it as well.
        padding_bias = torch.zeros(is_token.shape).masked_fill_(~is_token, float("-inf"))[:, None, None]
        padded_indices = is_token.flatten().nonzero().squeeze(1)
        token_indices = (is_token.flatten().cumsum(0) - 1).clamp_(min=0)
        return cls(
            token_count,
            sequence_count,
            padded_length,
            padded_indices,
            token_indices,
            padding_bias if causal_bias is None else causal_bias,
        )

    def pad(self, rows: Tensor) -> Tensor:
        """Pad [tokens, width] to [sequences * length, width] with arbitrary values, which the bias hides."""
        return rows if self.token_indices is None else rows.index_select(0, self.token_indices)

    def pad_with_zeros(self, rows: Tensor) -> Tensor:
        """Pad [tokens, width] to [sequences * length, width] with zeros, for reductions."""
        if self.padded_indices is None:
            return rows
        return rows.new_zeros(self.sequence_count * self.padded_length, rows.shape[1]).index_copy_(
            0, self.padded_indices, rows
        )

    def unpad_into(self, padded: Tensor, out: Tensor) -> None:
        """Write the tokens of `padded`, [sequences, length, ...], to `out`, [tokens, width]."""
        if self.padded_indices is None:
            out.view(padded.shape).copy_(padded)
        else:
            torch.index_select(padded.reshape(-1, out.shape[1]), 0, self.padded_indices, out=out)

    def split_heads(self, padded: Tensor, parts: int, heads: int) -> Tensor:
        """View [sequences * length, parts * hidden] as [parts, sequences, heads, length, head_size]."""
        return padded.view(self.sequence_count, self.padded_length, parts, heads, -1).permute(2, 0, 3, 1, 4)


class _GroupedAttention(torch.autograd.Function):
    """Attention of padded groups, with the attention probabilities kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, groups: tuple[PaddedGroup, ...], heads: int, dropout: float) -> Tensor:
        """Return the attention of each sequence over itself: [rows, 3 * hidden] to [rows, hidden].

        Rows after the last group are zeros.
        """
        context = qkv.new_empty(len(qkv), qkv.shape[1] // 3)
        context[_token_count(groups) :].zero_()
        saved: list[Tensor | None] = []
        group_rows = (_split_by_group(rows, groups) for rows in (qkv, context))
        for group, rows, out in zip(groups, *group_rows, strict=True):
            # Contiguous q, k and v make the products faster, by more than this copy costs.
            qkv_by_head = group.split_heads(group.pad(rows), 3, heads).contiguous()
            query, key, value = qkv_by_head.flatten(1, 2)
            probabilities = _attention_probabilities(query, key, group)
            mask = dropout_mask(probabilities.shape, dropout) if dropout else None
            kept_probabilities = _apply_mask(probabilities, mask, dropout)
            group_context = torch.bmm(kept_probabilities, value).view(qkv_by_head.shape[1:])
            group.unpad_into(group_context.transpose(1, 2), out)
            saved += [query, key, value, probabilities, mask]
        ctx.save_for_backward(*saved)
        ctx.groups, ctx.heads, ctx.dropout = groups, heads, dropout
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradient of queries, keys and values: [rows, hidden] to [rows, 3 * hidden]."""
        if torch.is_grad_enabled():
            raise RuntimeError(
                "attention of short sequences on a CPU has no second derivative; set kernels to False"
            )
        qkv_gradient = gradient.new_empty(len(gradient), 3 * gradient.shape[1])
        qkv_gradient[_token_count(ctx.groups) :].zero_()
        saved = iter(ctx.saved_tensors)
        group_rows = (_split_by_group(rows, ctx.groups) for rows in (gradient, qkv_gradient))
        for group, rows, out in zip(ctx.groups, *group_rows, strict=True):
            query, key, value, probabilities, mask = (next(saved) for _ in range(5))
            context_gradient = group.split_heads(group.pad_with_zeros(rows), 1, ctx.heads).flatten(0, 2)
            probability_gradient = torch.bmm(context_gradient, value.transpose(1, 2))
            kept_probabilities = _apply_mask(probabilities, mask, ctx.dropout)
            probability_gradient = _apply_mask(probability_gradient, mask, ctx.dropout)
            score_gradient = torch._softmax_backward_data(
                probability_gradient, probabilities, -1, probability_gradient.dtype
            )
            score_gradient.mul_(1 / sqrt(query.shape[-1]))
            gradients = (
                torch.bmm(score_gradient, key),
                torch.bmm(score_gradient.transpose(1, 2), query),
                torch.bmm(kept_probabilities.transpose(1, 2), context_gradient),
            )
            _write_qkv_gradient(gradients, group, ctx.heads, out)
        return qkv_gradient, None, None, None


@lru_cache(maxsize=512)
def _causal_bias(length: int) -> Tensor:
    """Return minus infinity for the keys after each query, else 0, [1, 1, length, length]."""
    return torch.full((1, 1, length, length), float("-inf")).triu_(1)


def _attention_probabilities(query: Tensor, key: Tensor, group: PaddedGroup) -> Tensor:
    """Return softmax(q k^T / sqrt(d) + bias), [sequences * heads, length, length]."""
    score_dtype = torch.promote_types(query.dtype, torch.float32)
    scores = query.new_empty(len(query), group.padded_length, group.padded_length, dtype=score_dtype)
    key_transposed = key.to(score_dtype).transpose(1, 2)
    torch.baddbmm(
        scores, query.to(score_dtype), key_transposed, beta=0, alpha=1 / sqrt(query.shape[-1]), out=scores
    )
    if group.attention_bias is not None:
        scores.view(group.sequence_count, -1, group.padded_length, group.padded_length).add_(
            group.attention_bias
        )
    return torch.softmax(scores, -1, out=scores).to(query.dtype)


def _apply_mask(values: Tensor, mask: Tensor | None, dropout: float) -> Tensor:
    """Return the values after dropout; unchanged without a mask."""
    return values if mask is None else apply_dropout_mask(values, mask, dropout)


def _write_qkv_gradient(
    gradients: tuple[Tensor, Tensor, Tensor], group: PaddedGroup, heads: int, out: Tensor
) -> None:
    """Write the gradients of q, k and v to `out`.

    Args:
        gradients: gradients of q, k and v, each [sequences * heads, length, head_size].
        group: the group of sequences.
        heads: number of heads.
        out: gradient of the group's rows, [tokens, 3 * hidden].
    """
    has_padding = group.padded_indices is not None
    padded_shape = (group.sequence_count * group.padded_length, out.shape[1])
    padded = out.new_empty(padded_shape) if has_padding else out
    for target, gradient in zip(group.split_heads(padded, 3, heads), gradients, strict=True):
        target.copy_(gradient.view(target.shape))
    if has_padding:
        group.unpad_into(padded.view(group.sequence_count, group.padded_length, -1), out)


def _token_count(groups: tuple[PaddedGroup, ...]) -> int:
    return sum(group.token_count for group in groups)


def _split_by_group(rows: Tensor, groups: tuple[PaddedGroup, ...]) -> tuple[Tensor, ...]:
    return torch.split(rows[: _token_count(groups)], [group.token_count for group in groups])

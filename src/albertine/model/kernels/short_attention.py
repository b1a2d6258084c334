"""Attention of short sequences on a CPU, to learn by: few calls, and a backward of its own.

A dense call has a price whatever its size, and sequences of one length are few. So
neighbours in a strip sorted by length make a group: the shorter ones are lengthened by
a few empty tokens that nobody looks at. This is the only padding there is; attention
alone sees it.

The flash kernel keeps no scores, which saves memory at great length and costs a
second pass over everything in the backward. At the lengths of most sequences the
scores are small: kept, they make the backward four products. Scores and softmax
are fp32, as in the kernel; what is kept of them has the precision of the values.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from albertine.model.kernels.dropout import apply_dropout_mask, dropout_mask

LengthRuns = tuple[tuple[int, int], ...]  # how many sequences of which length, the shortest first

_MAX_PROBABILITY_ROW_BYTES = (
    1024  # bytes at most of a row of probabilities: each token keeps one for each head and step of depth
)
_MAX_PADDING_PER_GROUP = (
    64  # tokens that a group may be lengthened by in all: as many cost about what a call costs
)
_MAX_SCORES_PER_HEAD = 128 * 128 * 8  # that a group has for each head: more at once was slower


@dataclass(frozen=True, eq=False)
class PaddedGroup:
    """Sequences side by side that are computed in one call.

    Attributes:
        token_count: how many rows of the strip they are.
        sequence_count: how many sequences.
        padded_length: of the longest.
        padded_indices: where each token lies once all are of that length; None where they are.
        token_indices: which token lies at each place, any at an empty one; None likewise.
        attention_bias: minus infinity where there is no token, [count, 1, 1, length]; None likewise.
    """

    token_count: int
    sequence_count: int
    padded_length: int
    padded_indices: Tensor | None = None
    token_indices: Tensor | None = None
    attention_bias: Tensor | None = None

    @classmethod
    def from_lengths(cls, lengths: list[int]) -> "PaddedGroup":
        """Make a group of sequences of these lengths."""
        token_count, sequence_count, padded_length = sum(lengths), len(lengths), max(lengths)
        if token_count == sequence_count * padded_length:
            return cls(token_count, sequence_count, padded_length)
        is_token = torch.arange(padded_length) < torch.tensor(lengths).unsqueeze(1)
        attention_bias = torch.zeros(is_token.shape).masked_fill_(~is_token, float("-inf"))
        padded_indices = is_token.flatten().nonzero().squeeze(1)
        token_indices = (is_token.flatten().cumsum(0) - 1).clamp_(min=0)
        return cls(
            token_count,
            sequence_count,
            padded_length,
            padded_indices,
            token_indices,
            attention_bias[:, None, None],
        )

    def pad(self, rows: Tensor) -> Tensor:
        """Make all sequences equally long; what lies at the empty places is hidden, so it may be anything."""
        return rows if self.token_indices is None else rows.index_select(0, self.token_indices)

    def pad_with_zeros(self, rows: Tensor) -> Tensor:
        """Do so where what lies at the empty places is added up."""
        if self.padded_indices is None:
            return rows
        return rows.new_zeros(self.sequence_count * self.padded_length, rows.shape[1]).index_copy_(
            0, self.padded_indices, rows
        )

    def unpad_into(self, rows: Tensor, out: Tensor) -> None:
        """Take the rows of real tokens, from [count, length, ...]."""
        if self.padded_indices is None:
            out.view(rows.shape).copy_(rows)
        else:
            torch.index_select(rows.reshape(-1, out.shape[1]), 0, self.padded_indices, out=out)

    def split_heads(self, rows: Tensor, parts: int, heads: int) -> Tensor:
        """View [count * length, parts * H] as [parts, count, heads, length, D]."""
        return rows.view(self.sequence_count, self.padded_length, parts, heads, -1).permute(2, 0, 3, 1, 4)


def max_short_length(dtype: torch.dtype) -> int:
    """Return how long a sequence may be to count as short."""
    return _MAX_PROBABILITY_ROW_BYTES // dtype.itemsize


@lru_cache(maxsize=32)  # all steps of depth, and of a training on equal lengths, ask for the same
def padded_groups(length_runs: LengthRuns) -> tuple[PaddedGroup, ...]:
    """Group the sequences of a sorted strip: from the longest down, as long as little must be added."""
    groups: list[list[int]] = []
    padding_left = 0
    for length in (length for count, length in reversed(length_runs) for _ in range(count)):
        padded_length = groups[-1][0] if groups else 0
        padding_left -= padded_length - length
        if not groups or padding_left < 0 or (len(groups[-1]) + 1) * padded_length**2 > _MAX_SCORES_PER_HEAD:
            groups.append([])
            padding_left = _MAX_PADDING_PER_GROUP
        groups[-1].append(length)
    return tuple(PaddedGroup.from_lengths(group[::-1]) for group in reversed(groups))


class ShortAttention(torch.autograd.Function):
    """Softmax of scaled scores times values: [N, 3 * H] with queries, keys and values, to [N, H].

    Rows behind those of all groups get 0.
    """

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, groups: tuple[PaddedGroup, ...], heads: int, dropout: float) -> Tensor:
        """Attend, and keep the probabilities."""
        context = qkv.new_empty(len(qkv), qkv.shape[1] // 3)
        saved = []
        for group, rows, out in zip(
            groups, _split_by_group(qkv, groups), _split_by_group(context, groups), strict=True
        ):
            # One copy for all three: products of matrices that lie as they should are faster by more.
            parts = group.split_heads(group.pad(rows), 3, heads).contiguous()
            query, key, value = parts.flatten(1, 2)
            probabilities = _attention_probabilities(query, key, group)
            mask = dropout_mask(probabilities.shape, dropout) if dropout else None
            dropped_probabilities = (
                probabilities if mask is None else apply_dropout_mask(probabilities, mask, dropout)
            )
            attended = torch.bmm(dropped_probabilities, value).view(parts.shape[1:]).transpose(1, 2)
            group.unpad_into(attended, out)
            saved += [query, key, value, probabilities, mask]
        context[_token_count(groups) :].zero_()
        ctx.save_for_backward(*saved)
        ctx.groups, ctx.heads, ctx.dropout = groups, heads, dropout
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradient of queries, keys and values; that has none of its own."""
        if torch.is_grad_enabled():
            raise RuntimeError("attention of short sequences on a CPU has no second derivative")
        qkv_gradient = gradient.new_empty(len(gradient), 3 * gradient.shape[1])
        qkv_gradient[_token_count(ctx.groups) :].zero_()
        saved = iter(ctx.saved_tensors)
        group_rows = (_split_by_group(one, ctx.groups) for one in (gradient, qkv_gradient))
        for group, rows, out in zip(ctx.groups, *group_rows, strict=True):
            query, key, value, probabilities, mask = (next(saved) for _ in range(5))
            output_gradient = group.split_heads(group.pad_with_zeros(rows), 1, ctx.heads).flatten(0, 2)
            dropped_gradient = torch.bmm(output_gradient, value.transpose(1, 2))
            dropped_probabilities = (
                probabilities if mask is None else apply_dropout_mask(probabilities, mask, ctx.dropout)
            )
            probability_gradient = (
                dropped_gradient if mask is None else apply_dropout_mask(dropped_gradient, mask, ctx.dropout)
            )
            score_gradient = torch._softmax_backward_data(
                probability_gradient, probabilities, -1, probability_gradient.dtype
            )
            score_gradient.mul_(1 / sqrt(query.shape[-1]))
            padded_gradient = (
                out if group.places is None else out.new_empty(group.count * group.length, out.shape[1])
            )
            for target, one in zip(
                group.by_head(padded_gradient, 3, ctx.heads),
                (
                    torch.bmm(score_gradient, key),
                    torch.bmm(score_gradient.transpose(1, 2), query),
                    torch.bmm(dropped_probabilities.transpose(1, 2), output_gradient),
                ),
                strict=True,
            ):
                target.copy_(one.view(target.shape))
            if padded_gradient is not out:
                group.unpad_into(padded_gradient.view(group.count, group.length, -1), out)
        return qkv_gradient, None, None, None


def _token_count(groups: tuple[PaddedGroup, ...]) -> int:
    return sum(group.token_count for group in groups)


def _split_by_group(rows: Tensor, groups: tuple[PaddedGroup, ...]) -> tuple[Tensor, ...]:
    return torch.split(rows[: _token_count(groups)], [group.token_count for group in groups])


def _attention_probabilities(query: Tensor, key: Tensor, group: PaddedGroup) -> Tensor:
    """Return how much each token looks at each other."""
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

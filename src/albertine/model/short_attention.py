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

from albertine.model.drop import mask_of, masked

Blocks = tuple[tuple[int, int], ...]  # how many sequences of which length, the shortest first

_KEPT = 1024  # bytes at most of a row of probabilities: each token keeps one for each head and step of depth
_SPARE = 64  # tokens that a group may be lengthened by in all: as many cost about what a call costs
_SCORES = 128 * 128 * 8  # that a group has for each head: more at once was slower


@dataclass(frozen=True, eq=False)
class Group:
    """Sequences side by side that are computed in one call.

    Attributes:
        tokens: how many rows of the strip they are.
        count: how many sequences.
        length: of the longest.
        places: where each token lies once all are of that length; None where they are.
        sources: which token lies at each place, any at an empty one; None likewise.
        hidden: minus infinity where there is no token, [count, 1, 1, length]; None likewise.
    """

    tokens: int
    count: int
    length: int
    places: Tensor | None = None
    sources: Tensor | None = None
    hidden: Tensor | None = None

    @classmethod
    def of(cls, lengths: list[int]) -> "Group":
        """Make a group of sequences of these lengths."""
        tokens, count, longest = sum(lengths), len(lengths), max(lengths)
        if tokens == count * longest:
            return cls(tokens, count, longest)
        real = torch.arange(longest) < torch.tensor(lengths).unsqueeze(1)
        hidden = torch.zeros(real.shape).masked_fill_(~real, float("-inf"))
        places = real.flatten().nonzero().squeeze(1)
        sources = (real.flatten().cumsum(0) - 1).clamp_(min=0)
        return cls(tokens, count, longest, places, sources, hidden[:, None, None])

    def lengthened(self, rows: Tensor) -> Tensor:
        """Make all sequences equally long; what lies at the empty places is hidden, so it may be anything."""
        return rows if self.sources is None else rows.index_select(0, self.sources)

    def lengthened_by_zeros(self, rows: Tensor) -> Tensor:
        """Do so where what lies at the empty places is added up."""
        if self.places is None:
            return rows
        return rows.new_zeros(self.count * self.length, rows.shape[1]).index_copy_(0, self.places, rows)

    def shortened(self, rows: Tensor, out: Tensor) -> None:
        """Take the rows of real tokens, from [count, length, ...]."""
        if self.places is None:
            out.view(rows.shape).copy_(rows)
        else:
            torch.index_select(rows.reshape(-1, out.shape[1]), 0, self.places, out=out)

    def by_head(self, rows: Tensor, parts: int, heads: int) -> Tensor:
        """View [count * length, parts * H] as [parts, count, heads, length, D]."""
        return rows.view(self.count, self.length, parts, heads, -1).permute(2, 0, 3, 1, 4)


def longest(dtype: torch.dtype) -> int:
    """Return how long a sequence may be to count as short."""
    return _KEPT // dtype.itemsize


@lru_cache(maxsize=32)  # all steps of depth, and of a training on equal lengths, ask for the same
def groups_of(blocks: Blocks) -> tuple[Group, ...]:
    """Group the sequences of a sorted strip: from the longest down, as long as little must be added."""
    groups: list[list[int]] = []
    spare = 0
    for length in (length for count, length in reversed(blocks) for _ in range(count)):
        most = groups[-1][0] if groups else 0
        spare -= most - length
        if not groups or spare < 0 or (len(groups[-1]) + 1) * most**2 > _SCORES:
            groups.append([])
            spare = _SPARE
        groups[-1].append(length)
    return tuple(Group.of(group[::-1]) for group in reversed(groups))


class ShortAttention(torch.autograd.Function):
    """Softmax of scaled scores times values: [N, 3 * H] with queries, keys and values, to [N, H].

    Rows behind those of all groups get 0.
    """

    @staticmethod
    def forward(ctx: Any, qkv: Tensor, groups: tuple[Group, ...], heads: int, dropout: float) -> Tensor:
        """Attend, and keep the probabilities."""
        context = qkv.new_empty(len(qkv), qkv.shape[1] // 3)
        kept = []
        for group, rows, out in zip(groups, _split(qkv, groups), _split(context, groups), strict=True):
            # One copy for all three: products of matrices that lie as they should are faster by more.
            parts = group.by_head(group.lengthened(rows), 3, heads).contiguous()
            query, key, value = parts.flatten(1, 2)
            chances = _chances(query, key, group)
            mask = mask_of(chances.shape, dropout) if dropout else None
            looks = chances if mask is None else masked(chances, mask, dropout)
            found = torch.bmm(looks, value).view(parts.shape[1:]).transpose(1, 2)
            group.shortened(found, out)
            kept += [query, key, value, chances, mask]
        context[_tokens(groups) :].zero_()
        ctx.save_for_backward(*kept)
        ctx.groups, ctx.heads, ctx.dropout = groups, heads, dropout
        return context

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        """Return the gradient of queries, keys and values; that has none of its own."""
        if torch.is_grad_enabled():
            raise RuntimeError("attention of short sequences on a CPU has no second derivative")
        result = gradient.new_empty(len(gradient), 3 * gradient.shape[1])
        result[_tokens(ctx.groups) :].zero_()
        kept = iter(ctx.saved_tensors)
        sides = (_split(one, ctx.groups) for one in (gradient, result))
        for group, rows, out in zip(ctx.groups, *sides, strict=True):
            query, key, value, chances, mask = (next(kept) for _ in range(5))
            arrived = group.by_head(group.lengthened_by_zeros(rows), 1, ctx.heads).flatten(0, 2)
            of_looks = torch.bmm(arrived, value.transpose(1, 2))
            looks = chances if mask is None else masked(chances, mask, ctx.dropout)
            of_chances = of_looks if mask is None else masked(of_looks, mask, ctx.dropout)
            of_scores = torch._softmax_backward_data(of_chances, chances, -1, of_chances.dtype)
            of_scores.mul_(1 / sqrt(query.shape[-1]))
            whole = out if group.places is None else out.new_empty(group.count * group.length, out.shape[1])
            for place, one in zip(
                group.by_head(whole, 3, ctx.heads),
                (
                    torch.bmm(of_scores, key),
                    torch.bmm(of_scores.transpose(1, 2), query),
                    torch.bmm(looks.transpose(1, 2), arrived),
                ),
                strict=True,
            ):
                place.copy_(one.view(place.shape))
            if whole is not out:
                group.shortened(whole.view(group.count, group.length, -1), out)
        return result, None, None, None


def _tokens(groups: tuple[Group, ...]) -> int:
    return sum(group.tokens for group in groups)


def _split(rows: Tensor, groups: tuple[Group, ...]) -> tuple[Tensor, ...]:
    return torch.split(rows[: _tokens(groups)], [group.tokens for group in groups])


def _chances(query: Tensor, key: Tensor, group: Group) -> Tensor:
    """Return how much each token looks at each other."""
    exact = torch.promote_types(query.dtype, torch.float32)
    scores = query.new_empty(len(query), group.length, group.length, dtype=exact)
    turned = key.to(exact).transpose(1, 2)
    torch.baddbmm(scores, query.to(exact), turned, beta=0, alpha=1 / sqrt(query.shape[-1]), out=scores)
    if group.hidden is not None:
        scores.view(group.count, -1, group.length, group.length).add_(group.hidden)
    return torch.softmax(scores, -1, out=scores).to(query.dtype)

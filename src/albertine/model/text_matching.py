"""Compares the two texts of a pair, token by token, for heads that otherwise read [CLS] alone.

    [CLS] first text [SEP] second text [SEP]
    segment 0              segment 1

    z        states, normalized
    other    softmax(query(z) key(z)^T) z          over the tokens of the other segment
    c        gelu(dense([z, other, z - other, z * other]))
    output   the mean of c over the first segment, then that over the second

Queries and keys are z plus a linear layer of z, whose weights are small at first. So attention first
matches tokens with similar states, mostly the same word, and a model need not discover how to compare texts.
The parts are those of ESIM (Chen et al. 2017) and of decomposable attention (Parikh et al. 2016).

For a sequence with one text, the output is zero. There is no padding: attention has one call for each group
of sequences of equal length.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from albertine.model.attention import AttentionLayout
from albertine.model.strip import Strip

# The score of two equal tokens before training; that of two others is about this over the root of the width.
_EQUAL_SCORE = 32.0
NUM_VECTORS = 2  # one for each text


class TextMatching(nn.Module):
    """Gives one vector for each text of a pair, from its comparison with the other text."""

    def __init__(self, width: int):
        super().__init__()
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.dense = nn.Linear(4 * width, width)

    def forward(self, hidden: Tensor, strip: Strip) -> Tensor:
        """Return the vectors of each sequence, in fp32: [tokens, hidden] to [sequences, 2 * hidden]."""
        layout, is_second = AttentionLayout.from_strip(strip), strip.segments > 0
        states = functional.layer_norm(hidden, hidden.shape[-1:])
        values = layout.sort(states)
        query, key = self._queries_and_keys(values)
        rows = (query, key, values, layout.sort(is_second))
        sizes = [count * length for count, length in layout.length_groups]
        # The empty slice of both layers gives their weights a gradient even on a rank without tokens.
        others, has_other = [(query + key).narrow(0, 0, 0)], [is_second.narrow(0, 0, 0)]
        for shape, *parts in zip(layout.length_groups, *(one.split(sizes) for one in rows), strict=True):
            query, key, value, in_second = (part.unflatten(0, shape) for part in parts)
            in_other = _in_other_segment(in_second)
            others.append(_attend(query, key, value, in_other).flatten(0, 1))
            has_other.append(in_other.any(2).flatten())
        other = layout.restore_order(torch.cat(others))
        compared = self._compare(states, other, layout.restore_order(torch.cat(has_other)))
        sequence_ids = (strip.positions == 0).cumsum(0) - 1
        return _means(compared.float(), 2 * sequence_ids + is_second, 2 * len(strip))

    def of_rows(self, hidden: Tensor, is_visible: Tensor, segments: Tensor) -> Tensor:
        """Return for each token its sequence's vectors: [rows, length, hidden] to [rows, length, 2 * hidden].

        Args:
            hidden: hidden states.
            is_visible: whether two tokens are of the same sequence, [rows, length, length].
            segments: segment of each token, [rows, length].
        """
        states = functional.layer_norm(hidden, hidden.shape[-1:])
        query, key = self._queries_and_keys(states)
        in_other = is_visible & _in_other_segment(segments > 0)
        compared = self._compare(states, _attend(query, key, states, in_other), in_other.any(2)).float()
        means = []
        for is_in_text in (segments == 0, segments > 0):
            weights = (is_visible & is_in_text.unsqueeze(1)).float()
            means.append(weights @ compared / weights.sum(2, keepdim=True).clamp(min=1))
        return torch.cat(means, dim=2)

    def _queries_and_keys(self, states: Tensor) -> tuple[Tensor, Tensor]:
        query, key = (
            states + functional.linear(states, layer.weight.to(states.dtype))
            for layer in (self.query, self.key)
        )
        return query, key

    def _compare(self, states: Tensor, other: Tensor, has_other: Tensor) -> Tensor:
        """Return the comparison of each token; zeros for those that have nothing to be compared with."""
        features = torch.cat([states, other, states - other, states * other], dim=-1)
        weight, bias = (tensor.to(states.dtype) for tensor in (self.dense.weight, self.dense.bias))
        compared = functional.gelu(functional.linear(features, weight, bias))
        return compared.masked_fill(has_other.logical_not().unsqueeze(-1), 0)


def _in_other_segment(is_second: Tensor) -> Tensor:
    """Return whether two tokens are in different segments: [rows, length] to [rows, length, length]."""
    return is_second.unsqueeze(2) != is_second.unsqueeze(1)


def _attend(query: Tensor, key: Tensor, value: Tensor, is_allowed: Tensor) -> Tensor:
    """Return the attention with one head, [rows, length, hidden], computed in fp32.

    In bf16 on a CPU, the kernels for a new length take longer to prepare than the products of a batch.
    """
    dtype = value.dtype
    query, key, value = query.float(), key.float(), value.float()
    # The lowest finite value: minus infinity would give NaN for a token that may attend to none.
    bias = torch.zeros_like(is_allowed, dtype=query.dtype)
    bias = bias.masked_fill(is_allowed.logical_not(), torch.finfo(query.dtype).min)
    query, key, value, bias = (tensor.unsqueeze(1) for tensor in (query, key, value, bias))
    scale = _EQUAL_SCORE / query.shape[-1]
    attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=scale)
    return attended.squeeze(1).to(dtype)


def _means(values: Tensor, groups: Tensor, num_groups: int) -> Tensor:
    """Return the mean of each group, those of groups 2i and 2i + 1 in row i: [num_groups / 2, 2 * hidden]."""
    sums = values.new_zeros(num_groups, values.shape[1]).index_add(0, groups, values)
    counts = values.new_zeros(num_groups).index_add(0, groups, values.new_ones(len(values)))
    return (sums / counts.clamp(min=1).unsqueeze(1)).view(num_groups // 2, 2 * values.shape[1])

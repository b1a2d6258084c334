"""Multi-head attention, and the layout of a strip for it.

Attention is the only operation of the network that mixes tokens, so only attention needs
the offsets of the sequences. The encoder sorts the sequences of a strip by length once.
Adjacent sequences of equal length then form a dense tensor, and each group of equal lengths
is one ordinary batched attention call, without padding and without a mask.

`kernels/` contains faster versions for specific machines.
"""

from dataclasses import dataclass
from itertools import groupby

import torch
from torch import Tensor
from torch.nn import functional

from albertine.model.strip import Strip, concatenated_ranges

# (number of sequences, their length) of each group of equal length, shortest first.
LengthGroups = tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class AttentionLayout:
    """The permutation that sorts a strip's sequences by length, computed once for all layers.

    The hidden state of each token is one row of the sorted tensor, which may have spare rows at its
    end. `token_indices` and `row_indices` are None if the strip is already sorted and no row is spare.

    Attributes:
        length_groups: number and length of the sequences of each group, shortest first; without
            empty sequences.
        token_indices: index in the strip of each row's token, [rows].
        row_indices: index of the row of each token of the strip, [tokens].
        offsets: start of each sequence in sorted order and the end of the last one, int32 on
            the device of the tokens, [sequences + 1].
        causal: whether a token attends only to itself and to the tokens before it.
    """

    length_groups: LengthGroups
    token_indices: Tensor | None
    row_indices: Tensor | None
    offsets: Tensor
    causal: bool = False

    @classmethod
    def from_strip(cls, strip: Strip) -> "AttentionLayout":
        """Return the layout of a strip; sequences of equal length keep their order."""
        lengths, device = strip.lengths, strip.tokens.device
        counts = [(len(list(equal)), length) for length, equal in groupby(sorted(lengths))]
        length_groups = tuple((count, length) for count, length in counts if length)
        if lengths == sorted(lengths):
            return cls(length_groups, None, None, strip.offsets.to(device, torch.int32), strip.causal)
        order, starts = sorted(range(len(strip)), key=lengths.__getitem__), strip.offsets.tolist()
        sorted_lengths = [lengths[i] for i in order]
        token_indices = concatenated_ranges([starts[i] for i in order], sorted_lengths)
        row_indices = torch.empty_like(token_indices)
        row_indices[token_indices] = torch.arange(len(token_indices))
        offsets = functional.pad(torch.tensor(sorted_lengths).cumsum(0), (1, 0))
        return cls(
            length_groups,
            token_indices.to(device),
            row_indices.to(device),
            offsets.to(device, torch.int32),
            strip.causal,
        )

    def sort(self, values: Tensor) -> Tensor:
        """Reorder values from the order of the strip, [tokens, ...], to sorted order, [rows, ...]."""
        return values if self.token_indices is None else values.index_select(0, self.token_indices)

    def rows(self, indices: Tensor) -> Tensor:
        """Return the row in sorted order of tokens given by their index in the strip."""
        return indices if self.row_indices is None else self.row_indices.index_select(0, indices)

    def restore_order(self, rows: Tensor) -> Tensor:
        """Reorder values from sorted order, [rows, ...], to the order of the strip, [tokens, ...]."""
        return rows if self.row_indices is None else rows.index_select(0, self.row_indices)


def multi_head_attention(
    qkv: Tensor,
    heads: int,
    dropout: float,
    attention_bias: Tensor | None = None,
    *,
    causal: bool = False,
) -> Tensor:
    """Return softmax(q k^T / sqrt(d) + bias) v of all heads, concatenated.

    Args:
        qkv: queries, keys and values, [batch, length, 3 * hidden].
        heads: number of heads.
        dropout: dropout rate of the attention weights.
        attention_bias: added to the scores, broadcastable to [batch, heads, length, length].
        causal: whether a token attends only to itself and to the tokens before it; without a bias.

    Returns:
        [batch, length, hidden].
    """
    batch, length, width = qkv.shape
    query, key, value = qkv.view(batch, length, 3, heads, width // 3 // heads).permute(2, 0, 3, 1, 4)
    context = functional.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_bias, dropout_p=dropout, is_causal=causal
    )
    return context.transpose(1, 2).reshape(batch, length, width // 3)


def one_query_attention(query: Tensor, key_value: Tensor, length_groups: LengthGroups, heads: int) -> Tensor:
    """Return the attention of one token of each sequence over its sequence, one call per group.

    Args:
        query: query of one token of each sequence, sequences sorted by length, [sequences, hidden].
        key_value: keys and values of all tokens, in the same order, [rows, 2 * hidden].
        length_groups: number and length of the sequences in each group.
        heads: number of heads.

    Returns:
        [sequences, hidden].
    """
    width = query.shape[1]
    contexts, first_sequence, first_row = [], 0, 0
    for count, length in length_groups:
        group_query = query[first_sequence : first_sequence + count].view(count, 1, heads, width // heads)
        group = key_value[first_row : first_row + count * length]
        key, value = group.view(count, length, 2, heads, width // heads).permute(2, 0, 3, 1, 4)
        context = functional.scaled_dot_product_attention(group_query.transpose(1, 2), key, value)
        contexts.append(context.reshape(count, width))
        first_sequence, first_row = first_sequence + count, first_row + count * length
    return torch.cat(contexts) if contexts else query


def attention_by_length(
    qkv: Tensor, length_groups: LengthGroups, heads: int, dropout: float, *, causal: bool = False
) -> Tensor:
    """Return the attention of each sequence over itself, one call per group of equal length.

    Args:
        qkv: queries, keys and values of sequences sorted by length, [rows, 3 * hidden].
        length_groups: number and length of the sequences in each group.
        heads: number of heads.
        dropout: dropout rate of the attention weights.
        causal: whether a token attends only to itself and to the tokens before it.

    Returns:
        [rows, hidden]; rows after the last sequence are zeros.
    """
    width = qkv.shape[1]
    if not length_groups:
        # A slice and not a new tensor: a rank without tokens must still give every weight a gradient.
        return qkv[:, : width // 3]
    spare_rows = len(qkv) - sum(count * length for count, length in length_groups)
    *groups, _ = qkv.split([*(count * length for count, length in length_groups), spare_rows])
    contexts = [
        multi_head_attention(group.view(count, length, width), heads, dropout, causal=causal).view(
            len(group), width // 3
        )
        for group, (count, length) in zip(groups, length_groups, strict=True)
    ]
    if spare_rows:
        contexts.append(qkv.new_zeros(spare_rows, width // 3))
    return contexts[0] if len(contexts) == 1 else torch.cat(contexts)

"""Marks the tokens that also occur in the other text of a pair: in a strip, or in padded or packed rows.

A model with `mark_matches` adds a vector to the embeddings of these tokens, so that all layers know them.
DrQA (Chen et al. 2017) has such a feature: whether a word of the passage occurs in the question.
"""

import torch
from torch import Tensor

from albertine.model.strip import Strip


def matches_in_strip(strip: Strip, vocab_size: int) -> Tensor:
    """Return whether each token occurs in another segment of its sequence, [tokens]."""
    sequence_ids = (strip.positions == 0).cumsum(0)
    # The key of the same token in the other segment of the sequence differs in the lowest bit.
    keys = 2 * (sequence_ids * vocab_size + strip.tokens) + (strip.segments > 0)
    # Not torch.isin, which waits for a GPU to count the distinct keys.
    sorted_keys = keys.sort().values
    places = torch.searchsorted(sorted_keys, keys ^ 1).clamp(max=len(keys) - 1)
    return sorted_keys[places] == keys ^ 1


def matches_in_rows(ids: Tensor, segments: Tensor, is_visible: Tensor) -> Tensor:
    """Return whether each token occurs in another segment of its sequence, [rows, length].

    Args:
        ids: token ids, [rows, length].
        segments: segment of each token, [rows, length].
        is_visible: whether two tokens are of the same sequence, [rows, length, length].
    """
    is_second = segments > 0
    is_other = is_second.unsqueeze(2) != is_second.unsqueeze(1)
    return (is_visible & is_other & (ids.unsqueeze(2) == ids.unsqueeze(1))).any(2)

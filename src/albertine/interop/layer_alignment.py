"""Brings the parts of separate layers into a common order, so that their matrices can be compared.

The neurons of a feed-forward network and the heads of attention may stand in any order without a change of
the outputs, and layers that were trained apart have them in different ones. Each layer is given the order
in which it is most similar to the mean of those before it.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from albertine.errors import InputError
from albertine.extras import install_command
from albertine.model.layers import AttentionWeights, FeedForwardWeights


class LayerWeights(NamedTuple):
    """The weights of one layer."""

    attention: AttentionWeights
    ffn: FeedForwardWeights


def align_layers(layers: list[LayerWeights], heads: int) -> list[LayerWeights]:
    """Return the layers with heads and neurons in an order in which they are similar."""
    head_parts = [_head_parts(layer.attention, heads) for layer in layers]
    neuron_parts = [torch.cat([layer.ffn.up, layer.ffn.down.T], 1) for layer in layers]
    return [
        LayerWeights(
            _with_head_order(layer.attention, heads, head_order), _with_neuron_order(layer.ffn, neuron_order)
        )
        for layer, head_order, neuron_order in zip(
            layers, _orders(head_parts), _orders(neuron_parts), strict=True
        )
    ]


def _head_parts(weights: AttentionWeights, heads: int) -> Tensor:
    """Return all weights of each head, [heads, ...]."""
    qkv = weights.qkv.view(3, heads, -1).transpose(0, 1).flatten(1)
    out = weights.out.T.reshape(heads, -1)
    return torch.cat([qkv, out], 1)


def _orders(parts: list[Tensor]) -> list[Tensor]:
    """Return an order of the rows of each tensor, for which it is similar to those before it."""
    try:
        from scipy.optimize import linear_sum_assignment
    except ImportError:
        raise InputError(f"--share: needs an extra; {install_command('share')}") from None
    total, orders = parts[0].clone(), [torch.arange(len(parts[0]))]
    for part in parts[1:]:
        _, order = linear_sum_assignment((total @ part.T).numpy(), maximize=True)
        orders.append(torch.from_numpy(order))
        total += part[orders[-1]]
    return orders


def _with_head_order(weights: AttentionWeights, heads: int, order: Tensor) -> AttentionWeights:
    def reordered(rows: Tensor, groups: int) -> Tensor:
        """Return rows that consist of the rows of all heads, once or three times, in the new order."""
        by_head = rows.reshape(groups, heads, -1, *rows.shape[1:])
        return by_head[:, order].reshape(rows.shape)

    return weights._replace(
        qkv=reordered(weights.qkv, 3),
        qkv_bias=reordered(weights.qkv_bias, 3),
        out=reordered(weights.out.T, 1).T,
    )


def _with_neuron_order(weights: FeedForwardWeights, order: Tensor) -> FeedForwardWeights:
    return weights._replace(up=weights.up[order], up_bias=weights.up_bias[order], down=weights.down[:, order])

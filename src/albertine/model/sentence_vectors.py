"""A vector for each sequence of a strip, from the hidden states of its tokens: pooling, layers, length 1."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor
from torch.nn import functional

from albertine.model.strip import Strip

# With the names that sentence-transformers gives them.
PoolingMode = Literal["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
POOLING_MODES: tuple[PoolingMode, ...] = get_args(PoolingMode)

ActivationName = Literal["identity", "tanh", "relu", "gelu", "sigmoid"]
_ACTIVATIONS: Mapping[ActivationName, Callable[[Tensor], Tensor]] = {
    "identity": lambda values: values,
    "tanh": torch.tanh,
    "relu": torch.relu,
    "gelu": functional.gelu,
    "sigmoid": torch.sigmoid,
}


@dataclass(frozen=True, eq=False)
class DenseLayer:
    """A linear layer with an activation, applied to vectors.

    Attributes:
        weight: the matrix, [out, in].
        bias: the bias, [out]; None for none.
        activation: name of the activation.
    """

    weight: Tensor
    bias: Tensor | None
    activation: ActivationName

    def __call__(self, vectors: Tensor) -> Tensor:
        """Return the output for vectors, [sequences, out]."""
        return _ACTIVATIONS[self.activation](functional.linear(vectors, self.weight, self.bias))

    def to(self, device: torch.device) -> "DenseLayer":
        """Return the layer on a device."""
        bias = None if self.bias is None else self.bias.to(device)
        return DenseLayer(self.weight.to(device), bias, self.activation)


def unit_length(vectors: Tensor) -> Tensor:
    """Return vectors divided by their length, [sequences, hidden]; a zero vector stays as it is."""
    return functional.normalize(vectors, dim=-1)


def pool(hidden: Tensor, strip: Strip, modes: Sequence[PoolingMode]) -> Tensor:
    """Return a vector for each sequence of a strip, in fp32, [sequences, modes * hidden].

    Args:
        hidden: hidden states of the tokens, [tokens, hidden], in any precision.
        strip: the sequences, on the device of `hidden`, none of them empty.
        modes: how to pool; the vectors of several modes are concatenated.
    """
    hidden = hidden.float()
    return torch.cat([_pool(hidden, strip, mode) for mode in modes], 1)


def _pool(hidden: Tensor, strip: Strip, mode: PoolingMode) -> Tensor:
    lengths = strip.offsets.diff().to(hidden.device)
    match mode:
        case "cls":
            return hidden[strip.cls_indices]
        case "lasttoken":
            return hidden[strip.offsets[1:].to(hidden.device) - 1]
        case "max":
            return torch.segment_reduce(hidden, "max", lengths=lengths)
        case "mean":
            return _sums(hidden, lengths) / lengths[:, None]
        case "mean_sqrt_len_tokens":
            return _sums(hidden, lengths) / lengths[:, None].sqrt()
        case "weightedmean":
            weights = (strip.positions + 1).to(hidden.dtype)[:, None]
            return _sums(hidden * weights, lengths) / _sums(weights, lengths)


def _sums(values: Tensor, lengths: Tensor) -> Tensor:
    """Return the sum of the values of each sequence, [sequences, ...], from those of the tokens."""
    sequences = torch.arange(len(lengths), device=values.device).repeat_interleave(lengths)
    return values.new_zeros(len(lengths), *values.shape[1:]).index_add_(0, sequences, values)

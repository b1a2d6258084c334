"""A vector for each sequence, from the hidden states of its tokens: pooling, layers, length 1."""

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


def apply_layers(vectors: Tensor, layers: Sequence[DenseLayer | None], *, normalize: bool) -> Tensor:
    """Return the output of layers for pooled vectors, [sequences, size].

    Args:
        vectors: the pooled vectors, [sequences, modes * hidden].
        layers: the layers in order, on the device of the vectors; None divides them by their length.
        normalize: whether to divide the result by its length.
    """
    for layer in layers:
        vectors = unit_length(vectors) if layer is None else layer(vectors)
    return unit_length(vectors) if normalize else vectors


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


def pool_rows(hidden: Tensor, mask: Tensor, modes: Sequence[PoolingMode]) -> Tensor:
    """Return a vector for each padded row, [rows, modes * hidden]; `pool` does the same on a strip.

    Args:
        hidden: hidden states, [rows, length, hidden].
        mask: 0 at padding, 1 at tokens, [rows, length]; a row without tokens gives finite numbers.
        modes: how to pool; the vectors of several modes are concatenated.
    """
    return torch.cat([_pool_rows(hidden, mask.bool(), mode) for mode in modes], 1)


def _pool_rows(hidden: Tensor, is_token: Tensor, mode: PoolingMode) -> Tensor:
    count = is_token.sum(1, keepdim=True)
    numbers = is_token.long().cumsum(1) * is_token  # 1 at the first token of a row; 0 at padding
    if mode == "max":
        return hidden.masked_fill(~is_token[..., None], torch.finfo(hidden.dtype).min).amax(1)
    # Also one token is a weighted sum: OpenVINO 2026.4 crashes where states are taken by an index.
    weights: Tensor = is_token
    divisor: Tensor = count
    match mode:
        case "cls":
            weights, divisor = numbers == 1, torch.ones_like(count)
        case "lasttoken":
            weights, divisor = (numbers == count) & is_token, torch.ones_like(count)
        case "mean_sqrt_len_tokens":
            divisor = count.to(hidden.dtype).sqrt()
        case "weightedmean":
            weights, divisor = numbers, numbers.sum(1, keepdim=True)
    summed = (hidden * weights[..., None].to(hidden.dtype)).sum(1)
    return summed / divisor.to(hidden.dtype).clamp(min=1)

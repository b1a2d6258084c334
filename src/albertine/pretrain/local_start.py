"""The local start: initial weights with which attention heads attend to neighbouring tokens.

With the published initialization, attention weights all tokens of a sample alike, and its
output is a hundredth of the hidden state to which it is added. So there is hardly a
gradient towards the neighbouring tokens, which tell most about a masked token: a run
learns token frequencies, then which tokens are not masked, and then nothing for millions
of tokens. See docs/decisions/local-start.md.

Here position embeddings start as sinusoids (`position_extrapolation`). Rotating their
phases shifts the position: a head whose queries are its rotated keys attends to the token
at a fixed offset. Its values are the part of the embedding that is not the position, as
large as the hidden state, or smaller in a deep model, which adds them in every layer. All
weights have ALBERT's shapes and are trained from the first step on.
"""

import math
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from albertine.model.model import INITIALIZER_RANGE, Model
from albertine.pretrain.position_extrapolation import Sinusoids
from albertine.randomness import named_generator

_HEAD_OFFSETS = (-1, 1, -2, 2, -3, 3, -4, 4)  # of the heads, cyclically
_POSITION_SCALE = 2.0  # relative to token embeddings, which soon grow
_TARGET_SCORE = 8.5  # attention score at the offset of a head; about 0 elsewhere
_FULL_SCALE_LAYERS = 4  # up to this depth, attention outputs are as large as the hidden state


def apply_local_start(model: Model, seed: int, layers: int) -> None:
    """Set positions, projection and attention weights of a new model.

    A model whose heads or embeddings are too narrow for one sinusoid is not changed.

    Args:
        model: the new model.
        seed: random seed of the weights.
        layers: number of layers that the model runs at first.
    """
    encoder: Any = model.encoder
    settings = model.settings
    width, hidden, heads = settings.embedding_size, settings.hidden_size, settings.heads
    sinusoids = Sinusoids.for_model(settings)
    sinusoid_count = len(sinusoids)
    if not sinusoid_count:
        return
    positions = torch.zeros_like(encoder.embedding.positions.weight, dtype=torch.float64)
    positions[:, : 2 * sinusoid_count] = sinusoids.table(len(positions)) * (
        _POSITION_SCALE * INITIALIZER_RANGE
    )
    projection = torch.eye(width, dtype=torch.float64)
    if encoder.embedding.projection is not None:
        projection = _random_orthogonal(f"{seed}/projection", hidden, width) * math.sqrt(hidden / width)
        _copy_values(encoder.embedding.projection.weight, projection)
    _copy_values(encoder.embedding.positions.weight, positions)
    projection_inverse = torch.linalg.pinv(projection)  # from a hidden state to the embedding
    position_directions = projection[:, : 2 * sinusoid_count]
    # Attention outputs leave the positions unchanged, for the layers above.
    position_complement = torch.eye(hidden, dtype=torch.float64) - position_directions @ torch.linalg.pinv(
        position_directions
    )
    # Amplitude of a sinusoid in a normalized sum of token and position embeddings.
    amplitude = (
        math.sqrt(2) * _POSITION_SCALE / math.sqrt(1 + _POSITION_SCALE**2 * 2 * sinusoid_count / width)
    )
    query_scale = math.sqrt(_TARGET_SCORE * math.sqrt(hidden // heads) / sinusoid_count) / amplitude
    for block_index, block in enumerate(encoder.attention):
        queries, keys, values = (part.double() for part in block.qkv.weight.data.chunk(3))
        for head, offset in zip(range(heads), cycle(_HEAD_OFFSETS)):
            rows = slice(head * (hidden // heads), head * (hidden // heads) + 2 * sinusoid_count)
            keys[rows] = query_scale * projection_inverse[: 2 * sinusoid_count]
            queries[rows] = (
                query_scale * sinusoids.shift_matrix(offset) @ projection_inverse[: 2 * sinusoid_count]
            )
        value_projection = _random_orthogonal(f"{seed}/{block_index}/values", hidden, width) * math.sqrt(
            hidden / width
        )
        values = value_projection[:, 2 * sinusoid_count :] @ projection_inverse[2 * sinusoid_count :]
        _copy_values(block.qkv.weight, torch.cat([queries, keys, values]))
        out_scale = min(1.0, _FULL_SCALE_LAYERS / (layers * settings.inner_groups))
        _copy_values(
            block.out.weight,
            out_scale * position_complement @ _random_orthogonal(f"{seed}/{block_index}/out", hidden, hidden),
        )


def _random_orthogonal(name: str, rows: int, columns: int) -> Tensor:
    """Draw a matrix with orthonormal columns (or rows, if there are fewer), from its own random stream."""
    generator = named_generator(f"neighbours/{name}")
    drawn = torch.randn(max(rows, columns), min(rows, columns), generator=generator, dtype=torch.float64)
    directions, triangle = torch.linalg.qr(drawn)
    matrix: Tensor = directions * triangle.diagonal().sign()  # the sign is the same on all machines
    return matrix if rows >= columns else matrix.T


def _copy_values(weight: Tensor, values: Tensor) -> None:
    weight.data.copy_(values)

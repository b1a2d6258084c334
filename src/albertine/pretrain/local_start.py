"""The local start: initial weights with which attention heads attend to neighbouring tokens.

With the published initialization, attention weights all tokens of a sample alike, and its
output is a hundredth of the hidden state to which it is added. So there is hardly any
gradient towards the neighbouring tokens, which tell most about a masked token. A run
learns token frequencies, then to copy the masked tokens that are not hidden, and then
nothing for millions of tokens. See docs/decisions/local-start.md.

With the local start, position embeddings begin as sinusoids (`position_extrapolation`).
Rotating their phases shifts the position: a head whose queries are its keys, rotated,
attends to the token at a fixed offset. The values contain the token embedding without the
position. They are as large as the hidden state, or smaller in a deep model, which adds
them in every layer. All weights have ALBERT's shapes and are trained from the first step on.
"""

import math
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from albertine.model.model import INITIALIZER_RANGE, Model
from albertine.pretrain.position_extrapolation import Sinusoids
from albertine.randomness import named_generator
from albertine.settings import ModelSettings

HEAD_OFFSETS = (-1, 1, -2, 2, -3, 3, -4, 4)  # of the heads, cyclically
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
    settings, sinusoids = model.settings, Sinusoids.for_model(model.settings)
    if not len(sinusoids):
        return
    projection = _set_embedding(encoder.embedding, settings, sinusoids, seed)
    out_scale = min(1.0, _FULL_SCALE_LAYERS / (layers * settings.inner_groups))
    for index, block in enumerate(encoder.attention):
        _set_attention(block, settings, sinusoids, projection, f"{seed}/{index}", out_scale)


def _set_embedding(embedding: Any, settings: ModelSettings, sinusoids: Sinusoids, seed: int) -> Tensor:
    """Set the position table and the projection; return the projection in fp64, `[hidden, embedding]`."""
    width, hidden = settings.embedding_size, settings.hidden_size
    positions = torch.zeros_like(embedding.positions.weight, dtype=torch.float64)
    scale = _POSITION_SCALE * INITIALIZER_RANGE
    positions[:, : 2 * len(sinusoids)] = sinusoids.table(len(positions)) * scale
    _copy_values(embedding.positions.weight, positions)
    if embedding.projection is None:
        return torch.eye(width, dtype=torch.float64)
    projection = _random_orthogonal(f"{seed}/projection", hidden, width) * math.sqrt(hidden / width)
    _copy_values(embedding.projection.weight, projection)
    return projection


def _set_attention(
    block: Any,
    settings: ModelSettings,
    sinusoids: Sinusoids,
    projection: Tensor,
    name: str,
    out_scale: float,
) -> None:
    """Set queries, keys, values and output of an attention block.

    Args:
        block: the block.
        settings: settings of the model.
        sinusoids: the position, in the first elements of an embedding.
        projection: from embeddings to hidden states, `[hidden, embedding]`.
        name: name of the block, for its random numbers.
        out_scale: size of the output relative to the hidden state.
    """
    hidden, width = projection.shape
    head_size, position_size = hidden // settings.heads, 2 * len(sinusoids)
    projection_inverse = torch.linalg.pinv(projection)  # from hidden states to embeddings
    to_position, to_rest = projection_inverse[:position_size], projection_inverse[position_size:]

    scale = _query_scale(settings, len(sinusoids))
    queries, keys, values = (part.double() for part in block.qkv.weight.data.chunk(3))
    for head, offset in zip(range(settings.heads), cycle(HEAD_OFFSETS)):
        rows = slice(head * head_size, head * head_size + position_size)
        keys[rows] = scale * to_position
        queries[rows] = scale * sinusoids.shift_matrix(offset) @ to_position
    value_projection = _random_orthogonal(f"{name}/values", hidden, width) * math.sqrt(hidden / width)
    values = value_projection[:, position_size:] @ to_rest
    _copy_values(block.qkv.weight, torch.cat([queries, keys, values]))

    # The output contains no position, so that the positions reach the layers above unchanged.
    position_directions = projection[:, :position_size]
    identity = torch.eye(hidden, dtype=torch.float64)
    without_position = identity - position_directions @ torch.linalg.pinv(position_directions)
    out = out_scale * without_position @ _random_orthogonal(f"{name}/out", hidden, hidden)
    _copy_values(block.out.weight, out)


def _query_scale(settings: ModelSettings, sinusoid_count: int) -> float:
    """Return the scale of queries and keys that gives the target score at the offset of a head."""
    width, head_size = settings.embedding_size, settings.hidden_size // settings.heads
    # Amplitude of a sinusoid in a normalized sum of token and position embeddings.
    amplitude = (
        math.sqrt(2) * _POSITION_SCALE / math.sqrt(1 + _POSITION_SCALE**2 * 2 * sinusoid_count / width)
    )
    return math.sqrt(_TARGET_SCORE * math.sqrt(head_size) / sinusoid_count) / amplitude


def _random_orthogonal(name: str, rows: int, columns: int) -> Tensor:
    """Return a random matrix `[rows, columns]` in fp64, from its own random stream.

    Its columns are orthonormal; if there are fewer rows than columns, its rows are.
    """
    generator = named_generator(f"neighbours/{name}")
    normal = torch.randn(max(rows, columns), min(rows, columns), generator=generator, dtype=torch.float64)
    q, r = torch.linalg.qr(normal)
    matrix: Tensor = q * r.diagonal().sign()  # the signs of `q` alone may differ between machines
    return matrix if rows >= columns else matrix.T


def _copy_values(weight: Tensor, values: Tensor) -> None:
    weight.data.copy_(values)

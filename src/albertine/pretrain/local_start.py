"""Where a fresh network looks: at the pieces next to each one.

Drawn as published, attention sees all pieces of a sample alike, and what it brings is a
hundredth of the state that it is added to. So nothing pulls it towards the neighbours, which
know most of a hidden piece, and a run learns piece frequencies, then which pieces are not
hidden, and then nothing for millions of tokens.

Here positions begin as waves (`waves`). Turning a wave is shifting it: a head whose queries are its keys,
turned, begins by looking so many pieces to the left or to the right. What it brings is the
part of the embedding that is no position, as large as the state, or smaller in a deep network,
which brings it often. All of it are ordinary weights in ALBERT's own shapes, free to move from the
first step on.
"""

import hashlib
import math
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from albertine.model.model import INITIALIZER_RANGE, Model
from albertine.pretrain.position_extrapolation import Sinusoids

_HEAD_OFFSETS = (-1, 1, -2, 2, -3, 3, -4, 4)  # of the heads, in turn
_POSITION_SCALE = 2.0  # positions beside tokens, which soon grow
_TARGET_SCORE = 8.5  # score of the piece that a head looks for, where others have some 0
_FULL_SCALE_LAYERS = 4  # in which what attention brings may be as large as the state


def apply_local_start(network: Model, seed: int, layers: int) -> None:
    """Set positions, projection and attentions of a fresh network that runs so many layers at first.

    One whose heads or embedding are too narrow for a single wave stays as it is.
    """
    encoder: Any = network.encoder
    model = network.settings
    width, hidden = model.embedding_size, model.hidden_size
    sinusoids = Sinusoids.for_model(model)
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
    # What attention brings leaves the positions alone, for the layers to come.
    position_complement = torch.eye(hidden, dtype=torch.float64) - position_directions @ torch.linalg.pinv(
        position_directions
    )
    # Of a wave in a normalised embedding, where tokens are there too.
    amplitude = (
        math.sqrt(2) * _POSITION_SCALE / math.sqrt(1 + _POSITION_SCALE**2 * 2 * sinusoid_count / width)
    )
    query_scale = math.sqrt(_TARGET_SCORE * math.sqrt(hidden // model.heads) / sinusoid_count) / amplitude
    for block_index, block in enumerate(encoder.attention):
        queries, keys, values = (part.double() for part in block.qkv.weight.data.chunk(3))
        for head, offset in zip(range(model.heads), cycle(_HEAD_OFFSETS)):
            rows = slice(head * (hidden // model.heads), head * (hidden // model.heads) + 2 * sinusoid_count)
            keys[rows] = query_scale * projection_inverse[: 2 * sinusoid_count]
            queries[rows] = (
                query_scale * sinusoids.shift_matrix(offset) @ projection_inverse[: 2 * sinusoid_count]
            )
        value_projection = _random_orthogonal(f"{seed}/{block_index}/values", hidden, width) * math.sqrt(
            hidden / width
        )
        values = value_projection[:, 2 * sinusoid_count :] @ projection_inverse[2 * sinusoid_count :]
        _copy_values(block.qkv.weight, torch.cat([queries, keys, values]))
        out_scale = min(1.0, _FULL_SCALE_LAYERS / (layers * model.inner_groups))
        _copy_values(
            block.out.weight,
            out_scale * position_complement @ _random_orthogonal(f"{seed}/{block_index}/out", hidden, hidden),
        )


def _random_orthogonal(name: str, rows: int, columns: int) -> Tensor:
    """Draw a matrix whose columns (or rows, if they are fewer) are orthonormal, from a stream of its own."""
    digest = hashlib.sha256(f"neighbours/{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big", signed=True))
    drawn = torch.randn(max(rows, columns), min(rows, columns), generator=generator, dtype=torch.float64)
    directions, triangle = torch.linalg.qr(drawn)
    matrix: Tensor = directions * triangle.diagonal().sign()  # of the two that there are, the same anywhere
    return matrix if rows >= columns else matrix.T


def _copy_values(weight: Tensor, values: Tensor) -> None:
    weight.data.copy_(values)

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

from albertine.model.network import DEVIATION, Model
from albertine.pretrain.waves import Waves

_OFFSETS = (-1, 1, -2, 2, -3, 3, -4, 4)  # of the heads, in turn
_LOUDER = 2.0  # positions beside tokens, which soon grow
_PEAK = 8.5  # score of the piece that a head looks for, where others have some 0
_ENOUGH_LAYERS = 4  # in which what attention brings may be as large as the state


def look_at_neighbours(network: Model, seed: int, layers: int) -> None:
    """Set positions, projection and attentions of a fresh network that runs so many layers at first.

    One whose heads or embedding are too narrow for a single wave stays as it is.
    """
    encoder: Any = network.encoder
    model = network.model
    width, hidden = model.embedding_size, model.hidden_size
    each = Waves.of(model)
    waves = len(each)
    if not waves:
        return
    positions = torch.zeros_like(encoder.embedding.positions.weight, dtype=torch.float64)
    positions[:, : 2 * waves] = each.over(len(positions)) * (_LOUDER * DEVIATION)
    into = torch.eye(width, dtype=torch.float64)
    if encoder.embedding.projection is not None:
        into = _orthogonal(f"{seed}/projection", hidden, width) * math.sqrt(hidden / width)
        _set(encoder.embedding.projection.weight, into)
    _set(encoder.embedding.positions.weight, positions)
    back = torch.linalg.pinv(into)  # from a hidden state to the embedding
    waving = into[:, : 2 * waves]
    # What attention brings leaves the positions alone, for the layers to come.
    beside = torch.eye(hidden, dtype=torch.float64) - waving @ torch.linalg.pinv(waving)
    # Of a wave in a normalised embedding, where tokens are there too.
    height = math.sqrt(2) * _LOUDER / math.sqrt(1 + _LOUDER**2 * 2 * waves / width)
    sharpness = math.sqrt(_PEAK * math.sqrt(hidden // model.heads) / waves) / height
    for number, block in enumerate(encoder.attention):
        queries, keys, values = (part.double() for part in block.qkv.weight.data.chunk(3))
        for head, offset in zip(range(model.heads), cycle(_OFFSETS)):
            rows = slice(head * (hidden // model.heads), head * (hidden // model.heads) + 2 * waves)
            keys[rows] = sharpness * back[: 2 * waves]
            queries[rows] = sharpness * each.turned(offset) @ back[: 2 * waves]
        brings = _orthogonal(f"{seed}/{number}/values", hidden, width) * math.sqrt(hidden / width)
        values = brings[:, 2 * waves :] @ back[2 * waves :]
        _set(block.qkv.weight, torch.cat([queries, keys, values]))
        size = min(1.0, _ENOUGH_LAYERS / (layers * model.inner_groups))
        _set(block.out.weight, size * beside @ _orthogonal(f"{seed}/{number}/out", hidden, hidden))


def _orthogonal(name: str, rows: int, columns: int) -> Tensor:
    """Draw a matrix whose columns (or rows, if they are fewer) are orthonormal, from a stream of its own."""
    digest = hashlib.sha256(f"neighbours/{name}".encode()).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big", signed=True))
    drawn = torch.randn(max(rows, columns), min(rows, columns), generator=generator, dtype=torch.float64)
    directions, triangle = torch.linalg.qr(drawn)
    found: Tensor = directions * triangle.diagonal().sign()  # of the two that there are, the same anywhere
    return found if rows >= columns else found.T


def _set(weight: Tensor, values: Tensor) -> None:
    weight.data.copy_(values)

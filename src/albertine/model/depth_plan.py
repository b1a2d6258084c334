"""Depth is a plan: which attention and which FFN each step of depth uses.

Parameters live in a few blocks; the plan says how depth runs through them.
ALBERT is one attention and one FFN, used L times; BERT is L of each, used once.
Every other member of the family lies between, and one encoder runs them all.
"""

from typing import NamedTuple

from albertine.errors import InputError
from albertine.settings import ModelSettings


class LayerBlocks(NamedTuple):
    """One step of depth: the indices of the blocks that it uses."""

    attention: int
    ffn: int


def depth_plan(settings: ModelSettings, depth: int | None = None) -> tuple[LayerBlocks, ...]:
    """Return the steps of a model, at its own depth or another.

    Any plan can stop early. Only where all layers share everything is there something
    to go on with beyond the last layer: the same again.
    """
    depth = settings.layers if depth is None else depth
    if depth < 1:
        raise InputError(f"depth {depth}: must be at least 1")
    if depth > settings.layers and not (settings.share == "all" and settings.groups == 1):
        raise InputError(
            f"depth {depth}: this model has {settings.layers} layers of its own (share = {settings.share}, "
            f"groups = {settings.groups}); only a fully shared one goes deeper"
        )
    layers = []
    for layer in range(depth):
        group = layer * settings.groups // settings.layers if layer < settings.layers else 0
        for inner in range(settings.inner_groups):
            shared_block = group * settings.inner_groups + inner
            layers.append(
                LayerBlocks(
                    attention=shared_block if settings.share in ("all", "attention") else layer,
                    ffn=shared_block if settings.share in ("all", "ffn") else layer,
                )
            )
    return tuple(layers)

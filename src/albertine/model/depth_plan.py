"""The depth plan: which attention block and which feed-forward block each layer uses.

Parameters are in a few blocks, and the plan says in which order depth applies them. ALBERT is
one attention and one feed-forward block, applied L times; BERT is L of each, applied once.
All other sharing schemes are plans too, and one encoder runs them all.
"""

from typing import NamedTuple

from albertine.errors import InputError
from albertine.settings import ModelSettings


class LayerBlocks(NamedTuple):
    """The indices of the blocks that one step of depth applies."""

    attention: int
    ffn: int


def depth_plan(settings: ModelSettings, depth: int | None = None) -> tuple[LayerBlocks, ...]:
    """Return the steps of a model.

    Args:
        settings: the model.
        depth: number of layers, by default that of the model. Every model can stop early; only a model
            that shares all blocks over all layers can be deeper, since its next layer is the same again.
    """
    depth = settings.layers if depth is None else depth
    if depth < 1:
        raise InputError(f"depth {depth}: must be at least 1")
    if depth > settings.layers and not (settings.share == "all" and settings.groups == 1):
        raise InputError(
            f"depth {depth}: this model has {settings.layers} layers of its own (share = {settings.share}, "
            f"groups = {settings.groups}); only a fully shared model can be deeper"
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

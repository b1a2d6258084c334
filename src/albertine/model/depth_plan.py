"""The depth plan: which attention block and which feed-forward block each layer uses.

ALBERT has one attention block and one feed-forward block and applies them L times. BERT has L
of each and applies each once. All other sharing schemes are plans too, and one encoder runs
them all.
"""

from typing import NamedTuple

from albertine.errors import InputError
from albertine.settings import ModelSettings


class LayerBlocks(NamedTuple):
    """Indices of the attention block and the feed-forward block that one layer uses."""

    attention: int
    ffn: int


def depth_plan(settings: ModelSettings, depth: int | None = None) -> tuple[LayerBlocks, ...]:
    """Return the blocks of each layer in order; each inner group of a layer has its own entry.

    Args:
        settings: settings of the model.
        depth: number of layers to apply, by default all of the model. Every model can stop early; only
            a model that shares all blocks among all layers can apply more layers than it has.
    """
    depth = settings.layers if depth is None else depth
    if depth < 1:
        raise InputError(f"depth {depth}: must be at least 1")
    if depth > settings.layers and not (settings.share == "all" and settings.groups == 1):
        raise InputError(
            f"depth {depth}: more than the {settings.layers} layers of this model (share = {settings.share}, "
            f"groups = {settings.groups}); only a fully shared model can be deeper"
        )
    plan = []
    for layer in range(depth):
        group = layer * settings.groups // settings.layers if layer < settings.layers else 0
        for inner in range(settings.inner_groups):
            shared_block = group * settings.inner_groups + inner
            plan.append(
                LayerBlocks(
                    attention=shared_block if settings.share in ("all", "attention") else layer,
                    ffn=shared_block if settings.share in ("all", "ffn") else layer,
                )
            )
    return tuple(plan)

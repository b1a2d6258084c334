"""The depth plan: which attention block and which feed-forward block each layer uses.

ALBERT has one attention block and one feed-forward block and applies them L times. BERT has L
of each and applies each once. All other sharing schemes are plans too, and one encoder runs
them all.
"""

from collections import Counter
from typing import NamedTuple

from albertine.errors import InputError
from albertine.settings import ModelSettings


class BlockIndices(NamedTuple):
    """Indices of an attention block and of the feed-forward block that is applied after it."""

    attention: int
    ffn: int


def depth_plan(settings: ModelSettings, depth: int | None = None) -> tuple[BlockIndices, ...]:
    """Return the blocks to apply, in order: one entry per layer, or `inner_groups` entries per layer.

    Args:
        settings: settings of the model.
        depth: number of layers to apply, by default those of the model. Every model can stop early;
            only a model whose layers all share one set of blocks can apply more layers than it has.
    """
    depth = settings.layers if depth is None else depth
    if depth < 1:
        raise InputError(f"depth {depth}: must be at least 1")
    if depth > settings.layers and not settings.shares_all_layers:
        raise InputError(
            f"depth {depth}: more than the {settings.layers} layers of this model, which have weights of "
            "their own; only a fully shared model can be deeper"
        )
    plan = []
    for layer in range(depth):
        # Layers beyond those of the model exist only if there is one group.
        group = layer * settings.groups // settings.layers if layer < settings.layers else 0
        for inner in range(settings.inner_groups):
            shared_block = group * settings.inner_groups + inner
            plan.append(
                BlockIndices(
                    attention=shared_block if settings.share in ("all", "attention") else layer,
                    ffn=shared_block if settings.share in ("all", "ffn") else layer,
                )
            )
    return tuple(plan)


class UnsharedBlocks(NamedTuple):
    """Indices of the attention and of the feed-forward blocks that a pass applies only once."""

    attention: frozenset[int]
    ffn: frozenset[int]


def unshared_blocks(settings: ModelSettings) -> UnsharedBlocks:
    """Return the blocks that only one layer uses."""
    if settings.depth_rule != "fixed":  # a solver may apply a layer more often than the plan says
        return UnsharedBlocks(frozenset(), frozenset())
    plan = depth_plan(settings)
    uses = Counter(block.attention for block in plan), Counter(block.ffn for block in plan)
    return UnsharedBlocks(*(frozenset(index for index in count if count[index] == 1) for count in uses))

"""Depth is a plan: which attention and which FFN each step of depth uses.

Parameters live in a few blocks; the plan says how depth runs through them.
ALBERT is one attention and one FFN, used L times; BERT is L of each, used once.
Every other member of the family lies between, and one encoder runs them all.
"""

from typing import NamedTuple

from albertine.errors import InputError
from albertine.settings import ModelSettings


class Step(NamedTuple):
    """One step of depth: the indices of the blocks that it uses."""

    attention: int
    ffn: int


def plan_of(model: ModelSettings, depth: int | None = None) -> tuple[Step, ...]:
    """Return the steps of a model, at its own depth or another.

    Any plan can stop early. Only where all layers share everything is there something
    to go on with beyond the last layer: the same again.
    """
    depth = model.layers if depth is None else depth
    if depth < 1:
        raise InputError(f"depth {depth}: must be at least 1")
    if depth > model.layers and not (model.share == "all" and model.groups == 1):
        raise InputError(
            f"depth {depth}: this model has {model.layers} layers of its own (share = {model.share}, "
            f"groups = {model.groups}); only a fully shared one goes deeper"
        )
    steps = []
    for layer in range(depth):
        group = layer * model.groups // model.layers if layer < model.layers else 0
        for inner in range(model.inner_groups):
            shared = group * model.inner_groups + inner
            steps.append(
                Step(
                    attention=shared if model.share in ("all", "attention") else layer,
                    ffn=shared if model.share in ("all", "ffn") else layer,
                )
            )
    return tuple(steps)

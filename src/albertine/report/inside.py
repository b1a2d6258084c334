"""What is inside: parameters part by part, and how far each layer moves the states (the paper's Figure 1)."""

from collections.abc import Sequence
from dataclasses import dataclass

from albertine.model.parameters import Parameters, count_parameters
from albertine.report.charts import Axes, Bar, Line, bars, line_chart
from albertine.settings import ModelSettings
from albertine.study.transitions import Transition

_PARTS = {
    "embedding": ("token_embedding", "positions", "segments", "projection"),
    "attention": ("attention",),
    "feed-forward": ("ffn",),
    "the rest": ("norms", "pooler"),
}


@dataclass(frozen=True)
class Shown:
    """A network with its name, the number of its colour, and what its layers do if that was measured."""

    name: str
    model: ModelSettings
    tone: int
    transitions: Sequence[Transition] = ()


def parameters(networks: Sequence[Shown]) -> str:
    """Draw the parameters of networks, beside each other, part by part."""
    counts = {one.name: count_parameters(one.model) for one in networks}
    most = max(count.encoder for count in counts.values())
    rows = [
        Bar(one.name, counts[one.name].encoder / most, f"{counts[one.name].encoder:,}", one.tone)
        for one in networks
    ]
    for part, names in _PARTS.items():
        for one in networks:
            size = _sum(counts[one.name], names)
            rows.append(Bar(f"{one.name}, {part}", size / most, f"{size:,}", one.tone))
    return bars("Parameters of the encoder", rows)


def _sum(count: Parameters, names: Sequence[str]) -> int:
    return sum(getattr(count, name) for name in names)


def movement(networks: Sequence[Shown]) -> list[str]:
    """Draw how far the layers move the states."""
    measured = [one for one in networks if one.transitions]
    distance = [
        Line(one.name, [(n, move.distance) for n, move in enumerate(one.transitions, 1)], one.tone, dots=True)
        for one in measured
    ]
    angle = [
        Line(one.name, [(n, move.angle) for n, move in enumerate(one.transitions, 1)], one.tone, dots=True)
        for one in measured
    ]
    return [
        line_chart("Distance from a layer's input to its output", Axes("layer", "L2 distance", 0), distance),
        line_chart("Angle between a layer's input and output", Axes("layer", "degrees", 0), angle),
    ]

"""Charts of a model: parameters by component, and how far each layer moves the hidden states (Figure 1)."""

from collections.abc import Sequence
from dataclasses import dataclass

from albertine.info.transitions import LayerTransition
from albertine.model.parameter_counts import ParameterCounts, count_parameters
from albertine.report.charts import Axes, Bar, Curve, bar_chart, line_chart
from albertine.settings import ModelSettings

_COMPONENTS = {
    "embedding": ("token_embedding", "position_embedding", "segment_embedding", "projection"),
    "attention": ("attention",),
    "feed-forward": ("ffn",),
    "other": ("layer_norms", "pooler"),
}


@dataclass(frozen=True)
class ChartedModel:
    """A model in a chart.

    Attributes:
        name: The label.
        settings: The settings of the model.
        color: Number of the color in the page's style sheet.
        transitions: How far each layer moves the hidden states; empty if not measured.
    """

    name: str
    settings: ModelSettings
    color: int
    transitions: Sequence[LayerTransition] = ()


def parameter_chart(models: Sequence[ChartedModel]) -> str:
    """Return the parameters of several models, by component."""
    counts = {one.name: count_parameters(one.settings) for one in models}
    largest = max(count.encoder for count in counts.values())
    rows = [
        Bar(one.name, counts[one.name].encoder / largest, f"{counts[one.name].encoder:,}", one.color)
        for one in models
    ]
    for component, fields in _COMPONENTS.items():
        for one in models:
            size = _component_size(counts[one.name], fields)
            rows.append(Bar(f"{one.name}, {component}", size / largest, f"{size:,}", one.color))
    return bar_chart("Parameters of the encoder", rows)


def _component_size(count: ParameterCounts, names: Sequence[str]) -> int:
    return sum(getattr(count, name) for name in names)


def transition_charts(models: Sequence[ChartedModel]) -> list[str]:
    """Return how far each layer moves the hidden states, as distance and as angle."""
    with_transitions = [one for one in models if one.transitions]
    distance = [
        Curve(
            one.name,
            [(n, transition.distance) for n, transition in enumerate(one.transitions, 1)],
            one.color,
            dots=True,
        )
        for one in with_transitions
    ]
    angle = [
        Curve(
            one.name,
            [(n, transition.angle) for n, transition in enumerate(one.transitions, 1)],
            one.color,
            dots=True,
        )
        for one in with_transitions
    ]
    return [
        line_chart("Distance from a layer's input to its output", Axes("layer", "L2 distance", 0), distance),
        line_chart("Angle between a layer's input and output", Axes("layer", "degrees", 0), angle),
    ]

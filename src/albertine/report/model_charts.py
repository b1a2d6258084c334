"""Charts of models: parameters by component, and how far each layer moves the hidden states."""

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
    "other": ("layer_norms", "depth_control", "step_differences", "pooler"),
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
    """Return a chart of the parameters of several models, by component."""
    counts = {model.name: count_parameters(model.settings) for model in models}
    largest = max(count.encoder for count in counts.values())
    bars = [
        Bar(model.name, counts[model.name].encoder / largest, f"{counts[model.name].encoder:,}", model.color)
        for model in models
    ]
    for component, fields in _COMPONENTS.items():
        for model in models:
            size = _component_size(counts[model.name], fields)
            bars.append(Bar(f"{model.name}, {component}", size / largest, f"{size:,}", model.color))
    return bar_chart("Parameters of the encoder", bars)


def _component_size(count: ParameterCounts, names: Sequence[str]) -> int:
    return sum(getattr(count, name) for name in names)


def transition_charts(models: Sequence[ChartedModel]) -> list[str]:
    """Return two charts of how far each layer moves the hidden states: the distance and the angle."""
    with_transitions = [model for model in models if model.transitions]
    distance = [
        Curve(
            model.name,
            [(layer, transition.distance) for layer, transition in enumerate(model.transitions, 1)],
            model.color,
            dots=True,
        )
        for model in with_transitions
    ]
    angle = [
        Curve(
            model.name,
            [(layer, transition.angle) for layer, transition in enumerate(model.transitions, 1)],
            model.color,
            dots=True,
        )
        for model in with_transitions
    ]
    return [
        line_chart("Distance from a layer's input to its output", Axes("layer", "L2 distance", 0), distance),
        line_chart("Angle between a layer's input and output", Axes("layer", "degrees", 0), angle),
    ]

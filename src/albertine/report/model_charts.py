"""Models in charts, and charts of how far each layer moves the hidden states."""

from collections.abc import Sequence
from dataclasses import dataclass

from albertine.info.transitions import LayerTransition
from albertine.report.charts import Axes, Curve, line_chart
from albertine.settings import ModelSettings


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

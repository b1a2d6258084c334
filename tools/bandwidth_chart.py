"""The picture of step times over bandwidths: both axes logarithmic, in the colors of a light or dark page."""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape

_WIDTH, _HEIGHT = 560, 320
_LEFT, _RIGHT, _TOP, _BOTTOM = 70, 120, 34, 56
_STYLE = """
  text { font-family: system-ui, -apple-system, "Segoe UI", Arial, sans-serif; font-size: 12px; }
  text { fill: #626876; }
  .end { text-anchor: end; } .middle { text-anchor: middle; } .name { font-size: 14px; font-weight: 600; }
  .grid { stroke: #ddd8cb; } polyline { fill: none; stroke-width: 2; }
  .line-0 { stroke: #1f5f8b; } .fill-0 { fill: #1f5f8b; }
  .line-1 { stroke: #c2573a; } .fill-1 { fill: #c2573a; }
  @media (prefers-color-scheme: dark) {
    text { fill: #9aa1ae; } .grid { stroke: #333945; }
    .line-0 { stroke: #6cb2e4; } .fill-0 { fill: #6cb2e4; }
    .line-1 { stroke: #ef8a6b; } .fill-1 { fill: #ef8a6b; }
  }
"""


def draw_step_times(curves: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return the picture as SVG.

    Args:
        curves: by name of the model, points of bits per second and seconds per step.
    """
    points = [point for curve in curves.values() for point in curve]
    x_axis, y_axis = (_LogAxis([point[index] for point in points]) for index in range(2))
    summary = "; ".join(
        f"{name}: {seconds:.1f} s at {_rate(rate)}"
        for name, curve in curves.items()
        for rate, seconds in curve
    )
    title = f"Seconds per step over the bandwidth between two nodes. {summary}."
    parts = [*_grid(x_axis, y_axis)]
    for color, (name, curve) in enumerate(curves.items()):
        placed = [(_x(x_axis, rate), _y(y_axis, seconds)) for rate, seconds in sorted(curve)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline class="line-{color}" points="{path}"/>')
        parts += [f'<circle class="fill-{color}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>' for x, y in placed]
        x, y = placed[-1]
        parts.append(
            f'<text class="name fill-{color}" x="{x + 10:.1f}" y="{y + 5:.1f}">{escape(name)}</text>'
        )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" '
        f'aria-label="{escape(title, quote=True)}">\n<style>{_STYLE}</style>\n'
        + "\n".join(parts)
        + "\n</svg>\n"
    )


class _LogAxis:
    """A logarithmic axis whose ends are the ticks around the values.

    Attributes:
        ticks: 1, 3, 10, 30 and so on.
    """

    def __init__(self, values: Iterable[float]):
        values = list(values)
        low, high = (math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))))
        ticks = [factor * 10.0**exponent for exponent in range(low, high + 1) for factor in (1, 3)]
        first = max(index for index, tick in enumerate(ticks) if tick <= min(values) * (1 + 1e-9))
        last = min(index for index, tick in enumerate(ticks) if tick >= max(values) * (1 - 1e-9))
        last = max(last, first + 1)  # a single value may be a tick, and an axis needs two
        self.ticks = ticks[first : last + 1]

    def share(self, value: float) -> float:
        """Return the position of a value between the ends of the axis, from 0 to 1."""
        low, high = math.log(self.ticks[0]), math.log(self.ticks[-1])
        return (math.log(value) - low) / (high - low)


def _x(axis: _LogAxis, rate: float) -> float:
    return _LEFT + axis.share(rate) * (_WIDTH - _LEFT - _RIGHT)


def _y(axis: _LogAxis, seconds: float) -> float:
    return _HEIGHT - _BOTTOM - axis.share(seconds) * (_HEIGHT - _TOP - _BOTTOM)


def _grid(x_axis: _LogAxis, y_axis: _LogAxis) -> list[str]:
    """Return the lines and the labels of both axes."""
    bottom, right = _HEIGHT - _BOTTOM, _WIDTH - _RIGHT
    parts = []
    for tick in y_axis.ticks:
        y = _y(y_axis, tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>')
        parts.append(f'<text class="end" x="{_LEFT - 8}" y="{y + 4:.1f}">{tick:g} s</text>')
    for tick in x_axis.ticks:
        x = _x(x_axis, tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" y1="{_TOP}" x2="{x:.1f}" y2="{bottom}"/>')
        parts.append(f'<text class="middle" x="{x:.1f}" y="{bottom + 18}">{_rate(tick)}</text>')
    middle = (_LEFT + right) / 2
    label = "bandwidth between the nodes, bits per second"
    parts.append(f'<text class="middle" x="{middle}" y="{bottom + 42}">{label}</text>')
    parts.append(f'<text x="{_LEFT - 60}" y="{_TOP - 16}">time of a step</text>')
    return parts


def _rate(bits: float) -> str:
    """Return a bandwidth as text, such as 300 M."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if bits >= size:
            return f"{bits / size:g} {unit}"
    return f"{bits:g}"

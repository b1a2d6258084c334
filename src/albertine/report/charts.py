"""Line charts as SVG and bars as HTML, in the colours of the page, light or dark.

Lines carry their names at their ends instead of a legend; what is reached without learning
is a dashed level with its name on it. Sizes are those of a chart half a page wide, which a
phone shows whole.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 480, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 96, 14, 44
_MAX_LABEL_LENGTH = 12  # letters
_LABEL_SPACING = 15  # between two names, at least
Point = tuple[float, float]


@dataclass(frozen=True)
class Curve:
    """A curve. `color` is the number of its colour on the page; `dots` marks its points."""

    name: str
    points: Sequence[Point]
    color: int
    dots: bool = False


@dataclass(frozen=True)
class ReferenceLine:
    """A value to compare with."""

    name: str
    value: float


@dataclass(frozen=True)
class Axes:
    """What the axes are, and how far the upright one goes at least."""

    x_label: str
    y_label: str
    y_min: float | None = None
    y_max: float | None = None


def line_chart(
    title: str, axes: Axes, curves: Sequence[Curve], reference_lines: Sequence[ReferenceLine] = ()
) -> str:
    """Draw curves over the same axis."""
    nonempty = [line for line in curves if line.points]
    if not nonempty:
        return ""
    x_values = [x for line in nonempty for x, _ in line.points]
    y_values = [y for line in nonempty for _, y in line.points] + [level.value for level in reference_lines]
    scale = _AxisScale(
        _ticks(0.0 if min(x_values) < 0.3 * max(x_values) else min(x_values), max(x_values)),
        _y_ticks(axes, y_values),
    )
    parts = [_axes_svg(scale, axes)]
    parts += [_reference_line_svg(scale, level) for level in reference_lines]
    parts += [_curve_svg(scale, line) for line in nonempty]
    parts += _curve_labels_svg(scale, nonempty)
    return (
        f'<figure class="chart"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title, quote=True)}">'
        f"{''.join(parts)}</svg></figure>"
    )


@dataclass(frozen=True)
class _AxisScale:
    """Where values lie on the drawing: between the first and the last tick of each axis."""

    x_ticks: Sequence[float]
    y_ticks: Sequence[float]

    def x(self, value: float) -> float:
        low, high = self.x_ticks[0], self.x_ticks[-1]
        return _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return _HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)


def _y_ticks(axes: Axes, values: Sequence[float]) -> list[float]:
    low = min(values) if axes.y_min is None else min(axes.y_min, *values)
    high = max(values) if axes.y_max is None else max(axes.y_max, *values)
    return _ticks(low, high)


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers from below `low` to above `high`, five to eight of them."""
    span = (high - low) or abs(high) or 1.0
    unit = 10.0 ** math.floor(math.log10(span / 4))
    step = next(unit * times for times in (1, 2, 2.5, 5, 10) if span / (unit * times) <= 6)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _axes_svg(scale: _AxisScale, axes: Axes) -> str:
    left, right, bottom = _LEFT, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    middle, height = (left + right) / 2, (_TOP + bottom) / 2
    y_grid = [
        f'<line class="grid" x1="{left}" y1="{scale.y(tick):.1f}" x2="{right}" y2="{scale.y(tick):.1f}"/>'
        f'<text class="tick end" x="{left - 8}" y="{scale.y(tick) + 4:.1f}">{_tick_label(tick)}</text>'
        for tick in scale.y_ticks
    ]
    x_grid = [
        f'<text class="tick mid" x="{scale.x(tick):.1f}" y="{bottom + 18}">{_tick_label(tick)}</text>'
        for tick in scale.x_ticks
    ]
    axis_labels = (
        f'<text class="axis mid" x="{middle:.0f}" y="{_HEIGHT - 6}">{escape(axes.x_label)}</text>'
        f'<text class="axis mid" x="12" y="{height:.0f}" transform="rotate(-90 12 {height:.0f})">'
        f"{escape(axes.y_label)}</text>"
    )
    return "".join([*y_grid, *x_grid, axis_labels])


def _reference_line_svg(scale: _AxisScale, reference_line: ReferenceLine) -> str:
    y, right = scale.y(reference_line.value), _WIDTH - _RIGHT
    return (
        f'<line class="level" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
        f'<text class="tick end" x="{right - 2}" y="{y - 5:.1f}">{escape(reference_line.name)}</text>'
    )


def _curve_svg(scale: _AxisScale, curve: Curve) -> str:
    coordinates = [(scale.x(x), scale.y(y)) for x, y in curve.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in coordinates)
    dots = "".join(
        f'<circle class="tone-{curve.color}" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>' for x, y in coordinates
    )
    return f'<polyline class="tone-{curve.color}" points="{path}"/>{dots if curve.dots or len(coordinates) == 1 else ""}'


def _curve_labels_svg(scale: _AxisScale, curves: Sequence[Curve]) -> list[str]:
    """Write each line's name at its end, none over another."""
    ends = sorted(((scale.y(line.points[-1][1]) + 4, line) for line in curves), key=lambda pair: pair[0])
    parts, last_y = [], -math.inf
    for y, line in ends:
        last_y = max(y, last_y + _LABEL_SPACING)
        x = scale.x(line.points[-1][0]) + 7
        parts.append(
            f'<text class="name tone-{line.color}" x="{x:.1f}" y="{last_y:.1f}">'
            f"{escape(_truncated(line.name))}</text>"
        )
    return parts


def _truncated(name: str) -> str:
    """Cut a name that would not fit beside the drawing."""
    return name if len(name) <= _MAX_LABEL_LENGTH else f"{name[: _MAX_LABEL_LENGTH - 1]}\u2026"


def _tick_label(value: float) -> str:
    """Write a tick in as few signs as tell it from the others."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{round(value, 6):g}"


def _clamped_percent(fraction: float) -> float:
    return 100 * min(1.0, max(0.0, fraction))


@dataclass(frozen=True)
class Bar:
    """One bar: its name, how much of the width it takes, what is written beside it, its colour."""

    name: str
    fraction: float
    value_text: str
    color: int


def bar_chart(title: str, bars: Sequence[Bar]) -> str:
    """Lay out bars under each other, with their names and values, maybe under a title."""
    rows_html = "".join(
        f'<div class="row"><span class="label">{escape(row.name)}</span><span class="track">'
        f'<span class="fill tone-{row.color}" style="width:{_clamped_percent(row.fraction):.1f}%"></span></span>'
        f'<span class="value">{escape(row.value_text)}</span></div>'
        for row in bars
    )
    caption = f"<figcaption>{escape(title)}</figcaption>" if title else ""
    return f'<figure class="bars">{caption}{rows_html}</figure>'

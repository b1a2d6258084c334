"""Line charts as SVG and bar charts as HTML, in the colors of the page for light and dark mode.

Curves are labeled at the right, at the heights of their ends, instead of in a legend; baselines are
dashed lines. Charts are at most half a page wide, so that a phone shows them whole.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH, _HEIGHT = 480, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 50, 112, 30, 44
NUM_COLORS = 6  # of curves, --color-1 and so on
_MAX_LABEL_LENGTH = 12  # characters
_LABEL_SPACING = 15  # minimum distance of two labels
Point = tuple[float, float]


@dataclass(frozen=True)
class Curve:
    """A labeled curve.

    Attributes:
        name: The label.
        points: The points, as (x, y).
        color: Number of the color in the page's style sheet.
        dots: Whether points are marked.
        line: Whether points are connected; else they are a cloud.
    """

    name: str
    points: Sequence[Point]
    color: int
    dots: bool = False
    line: bool = True


@dataclass(frozen=True)
class ReferenceLine:
    """A horizontal dashed line to compare with, such as a baseline."""

    name: str
    value: float


@dataclass(frozen=True)
class Axes:
    """Labels of the axes, and the least range of the y axis."""

    x_label: str
    y_label: str
    y_min: float | None = None
    y_max: float | None = None


def line_chart(
    title: str, axes: Axes, curves: Sequence[Curve], reference_lines: Sequence[ReferenceLine] = ()
) -> str:
    """Return a chart of curves that share their axes; empty if no curve has points."""
    nonempty = [curve for curve in curves if curve.points]
    if not nonempty:
        return ""
    x_values = [x for curve in nonempty for x, _ in curve.points]
    y_values = [y for curve in nonempty for _, y in curve.points] + [
        reference_line.value for reference_line in reference_lines
    ]
    scale = _AxisScale(
        _ticks(0.0 if 0 <= min(x_values) < 0.3 * max(x_values) else min(x_values), max(x_values)),
        _y_ticks(axes, y_values),
    )
    parts = [_axes_svg(scale, axes)]
    parts += [_reference_line_svg(scale, reference_line) for reference_line in reference_lines]
    parts += [_curve_svg(scale, curve) for curve in nonempty]
    parts += _reference_labels_svg(scale, reference_lines)
    parts += _curve_labels_svg(scale, [curve for curve in nonempty if curve.name])
    return (
        f'<figure class="chart"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title, quote=True)}">'
        f"{''.join(parts)}</svg></figure>"
    )


@dataclass(frozen=True)
class _AxisScale:
    """Positions of values on the chart: the first and last ticks are the ends of each axis."""

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
    """Return two to nine round numbers from below `low` to above `high`."""
    span = (high - low) or abs(high) or 1.0
    unit = 10.0 ** math.floor(math.log10(span / 4))
    step = next(unit * factor for factor in (1, 2, 2.5, 5, 10) if span / (unit * factor) <= 6)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _axes_svg(scale: _AxisScale, axes: Axes) -> str:
    left, right, bottom = _LEFT, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    middle = (left + right) / 2
    x_labels, y_labels = _tick_labels(scale.x_ticks), _tick_labels(scale.y_ticks)
    y_grid = [
        f'<line class="grid" x1="{left}" y1="{scale.y(tick):.1f}" x2="{right}" y2="{scale.y(tick):.1f}"/>'
        f'<text class="tick end" x="{left - 8}" y="{scale.y(tick) + 4:.1f}">{label}</text>'
        for tick, label in zip(scale.y_ticks, y_labels, strict=True)
    ]
    x_grid = [
        f'<text class="tick mid" x="{scale.x(tick):.1f}" y="{bottom + 18}">{label}</text>'
        for tick, label in zip(scale.x_ticks, x_labels, strict=True)
    ]
    axis_labels = (
        f'<text class="axis mid" x="{middle:.0f}" y="{_HEIGHT - 6}">{escape(axes.x_label)}</text>'
        f'<text class="axis" x="0" y="12">{escape(axes.y_label)}</text>'
    )
    return "".join([*y_grid, *x_grid, axis_labels])


def _reference_line_svg(scale: _AxisScale, reference_line: ReferenceLine) -> str:
    y = scale.y(reference_line.value)
    return f'<line class="reference" x1="{_LEFT}" y1="{y:.1f}" x2="{_WIDTH - _RIGHT}" y2="{y:.1f}"/>'


def _reference_labels_svg(scale: _AxisScale, reference_lines: Sequence[ReferenceLine]) -> list[str]:
    """Return the label above each line, or below it if there is no room between it and the line above."""
    parts, last_y = [], -math.inf
    for reference_line in sorted(reference_lines, key=lambda line: -line.value):
        y = scale.y(reference_line.value)
        last_y = y - 5 if y - 5 >= last_y + _LABEL_SPACING else max(y, last_y) + _LABEL_SPACING
        parts.append(
            f'<text class="tick end over" x="{_WIDTH - _RIGHT - 2}" y="{last_y:.1f}">'
            f"{escape(reference_line.name)}</text>"
        )
    return parts


def _curve_svg(scale: _AxisScale, curve: Curve) -> str:
    coordinates = [(scale.x(x), scale.y(y)) for x, y in curve.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in coordinates)
    dots = "".join(
        f'<circle class="color-{curve.color}" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>' for x, y in coordinates
    )
    has_dots = curve.dots or len(coordinates) == 1
    if not curve.line:
        return f'<g class="cloud">{dots}</g>'
    return f'<polyline class="color-{curve.color}" points="{path}"/>{dots if has_dots else ""}'


def _curve_labels_svg(scale: _AxisScale, curves: Sequence[Curve]) -> list[str]:
    """Return the labels right of the axes, each at the height of its curve's end, without overlaps."""
    curves = sorted(curves, key=lambda curve: -curve.points[-1][1])
    heights = _spread([scale.y(curve.points[-1][1]) + 4 for curve in curves])
    return [
        f'<text class="name color-{curve.color}" x="{_WIDTH - _RIGHT + 7}" y="{y:.1f}">'
        f"<title>{escape(curve.name)}</title>{escape(_truncated(curve.name))}</text>"
        for curve, y in zip(curves, heights, strict=True)
    ]


def _spread(heights: Sequence[float]) -> list[float]:
    """Return increasing heights of labels, moved apart; where they fit, none is below the x axis."""
    spread: list[float] = []
    for y in heights:
        spread.append(max(y, spread[-1] + _LABEL_SPACING) if spread else y)
    lowest = max(_HEIGHT - _BOTTOM + 4.0, _TOP + _LABEL_SPACING * (len(spread) - 1))
    for index in reversed(range(len(spread))):
        spread[index] = min(spread[index], lowest)
        lowest = spread[index] - _LABEL_SPACING
    return spread


def _truncated(name: str) -> str:
    """Return a label that fits next to the chart, cut in its middle: names often differ at an end alone."""
    if len(name) <= _MAX_LABEL_LENGTH:
        return name
    end = _MAX_LABEL_LENGTH // 2
    return f"{name[: _MAX_LABEL_LENGTH - 1 - end].rstrip()}\u2026{name[-end:].lstrip()}"


def _tick_labels(ticks: Sequence[float]) -> list[str]:
    """Return short texts for ticks, with as many digits as their distance needs, so that they differ."""
    step = ticks[1] - ticks[0]
    return [_tick_label(tick, step) for tick in ticks]


def _tick_label(value: float, step: float) -> str:
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size and step >= 0.01 * size:
            return f"{_tick_label(value / size, step / size)}{unit}"
    digits = max(0, 1 - math.floor(math.log10(step)))  # steps such as 0.25 have two
    return f"{round(value, digits):.12g}"


def _clamped_percent(fraction: float) -> float:
    return 100 * min(1.0, max(0.0, fraction))


@dataclass(frozen=True)
class Bar:
    """A bar.

    Attributes:
        name: The label on the left.
        fraction: Length, as a fraction of the full width.
        value_text: The text on the right.
        color: Number of the color in the page's style sheet.
    """

    name: str
    fraction: float
    value_text: str
    color: int


def bar_chart(title: str, bars: Sequence[Bar]) -> str:
    """Return labeled bars below each other; an empty title is left out."""
    rows_html = "".join(
        f'<div class="row"><span class="label">{escape(bar.name)}</span><span class="track">'
        f'<span class="fill color-{bar.color}" style="width:{_clamped_percent(bar.fraction):.1f}%"></span>'
        "</span>"
        f'<span class="value">{escape(bar.value_text)}</span></div>'
        for bar in bars
    )
    caption = f"<figcaption>{escape(title)}</figcaption>" if title else ""
    return f'<figure class="bars">{caption}{rows_html}</figure>'


@dataclass(frozen=True)
class Interval:
    """A share with its confidence interval, all between 0 and 1.

    Attributes:
        name: The label on the left.
        value: The share.
        low: Lower end of the interval.
        high: Upper end of the interval.
        value_text: The text on the right.
    """

    name: str
    value: float
    low: float
    high: float
    value_text: str


def interval_chart(title: str, intervals: Sequence[Interval], chance: float) -> str:
    """Return dots with their intervals below each other, from 0 to 1, and a line at chance.

    An interval above chance has the first color, one below it the second, and one that holds it is gray.
    """
    rows_html = "".join(
        f'<div class="row"><span class="label">{escape(one.name)}</span><span class="scale">'
        f'<span class="reference" style="left:{_clamped_percent(chance):.1f}%"></span>'
        f'<span class="span fill color-{_interval_color(one, chance)}" '
        f'style="left:{_clamped_percent(one.low):.1f}%;'
        f'width:{_clamped_percent(one.high - one.low):.1f}%"></span>'
        f'<span class="dot fill color-{_interval_color(one, chance)}" '
        f'style="left:{_clamped_percent(one.value):.1f}%"></span></span>'
        f'<span class="value">{escape(one.value_text)}</span></div>'
        for one in intervals
    )
    return f'<figure class="bars intervals"><figcaption>{escape(title)}</figcaption>{rows_html}</figure>'


def _interval_color(interval: Interval, chance: float) -> int:
    if interval.low > chance:
        return 1
    return 2 if interval.high < chance else 4

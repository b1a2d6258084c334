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
_LONGEST_NAME = 12  # letters
_LINE = 15  # between two names, at least
Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A curve. `tone` is the number of its colour on the page; `dots` marks its points."""

    name: str
    points: Sequence[Point]
    tone: int
    dots: bool = False


@dataclass(frozen=True)
class Level:
    """A value to compare with."""

    name: str
    value: float


@dataclass(frozen=True)
class Axes:
    """What the axes are, and how far the upright one goes at least."""

    across: str
    up: str
    low: float | None = None
    high: float | None = None


def line_chart(title: str, axes: Axes, lines: Sequence[Line], levels: Sequence[Level] = ()) -> str:
    """Draw curves over the same axis."""
    drawn = [line for line in lines if line.points]
    if not drawn:
        return ""
    across = [x for line in drawn for x, _ in line.points]
    values = [y for line in drawn for _, y in line.points] + [level.value for level in levels]
    frame = _Frame(
        _ticks(0.0 if min(across) < 0.3 * max(across) else min(across), max(across)), _upright(axes, values)
    )
    parts = [_grid(frame, axes)]
    parts += [_level(frame, level) for level in levels]
    parts += [_curve(frame, line) for line in drawn]
    parts += _names(frame, drawn)
    return (
        f'<figure class="chart"><figcaption>{escape(title)}</figcaption>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title, quote=True)}">'
        f"{''.join(parts)}</svg></figure>"
    )


@dataclass(frozen=True)
class _Frame:
    """Where values lie on the drawing: between the first and the last tick of each axis."""

    across: Sequence[float]
    up: Sequence[float]

    def x(self, value: float) -> float:
        low, high = self.across[0], self.across[-1]
        return _LEFT + (value - low) / (high - low) * (_WIDTH - _LEFT - _RIGHT)

    def y(self, value: float) -> float:
        low, high = self.up[0], self.up[-1]
        return _HEIGHT - _BOTTOM - (value - low) / (high - low) * (_HEIGHT - _TOP - _BOTTOM)


def _upright(axes: Axes, values: Sequence[float]) -> list[float]:
    low = min(values) if axes.low is None else min(axes.low, *values)
    high = max(values) if axes.high is None else max(axes.high, *values)
    return _ticks(low, high)


def _ticks(low: float, high: float) -> list[float]:
    """Return round numbers from below `low` to above `high`, five to eight of them."""
    span = (high - low) or abs(high) or 1.0
    unit = 10.0 ** math.floor(math.log10(span / 4))
    step = next(unit * times for times in (1, 2, 2.5, 5, 10) if span / (unit * times) <= 6)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [number * step for number in range(first, max(last, first + 1) + 1)]


def _grid(frame: _Frame, axes: Axes) -> str:
    left, right, bottom = _LEFT, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    middle, height = (left + right) / 2, (_TOP + bottom) / 2
    upright = [
        f'<line class="grid" x1="{left}" y1="{frame.y(tick):.1f}" x2="{right}" y2="{frame.y(tick):.1f}"/>'
        f'<text class="tick end" x="{left - 8}" y="{frame.y(tick) + 4:.1f}">{_short(tick)}</text>'
        for tick in frame.up
    ]
    across = [
        f'<text class="tick mid" x="{frame.x(tick):.1f}" y="{bottom + 18}">{_short(tick)}</text>'
        for tick in frame.across
    ]
    names = (
        f'<text class="axis mid" x="{middle:.0f}" y="{_HEIGHT - 6}">{escape(axes.across)}</text>'
        f'<text class="axis mid" x="12" y="{height:.0f}" transform="rotate(-90 12 {height:.0f})">'
        f"{escape(axes.up)}</text>"
    )
    return "".join([*upright, *across, names])


def _level(frame: _Frame, level: Level) -> str:
    y, right = frame.y(level.value), _WIDTH - _RIGHT
    return (
        f'<line class="level" x1="{_LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}"/>'
        f'<text class="tick end" x="{right - 2}" y="{y - 5:.1f}">{escape(level.name)}</text>'
    )


def _curve(frame: _Frame, line: Line) -> str:
    places = [(frame.x(x), frame.y(y)) for x, y in line.points]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    dots = "".join(f'<circle class="tone-{line.tone}" cx="{x:.1f}" cy="{y:.1f}" r="2.6"/>' for x, y in places)
    return (
        f'<polyline class="tone-{line.tone}" points="{path}"/>{dots if line.dots or len(places) == 1 else ""}'
    )


def _names(frame: _Frame, lines: Sequence[Line]) -> list[str]:
    """Write each line's name at its end, none over another."""
    ends = sorted(((frame.y(line.points[-1][1]) + 4, line) for line in lines), key=lambda pair: pair[0])
    parts, last = [], -math.inf
    for y, line in ends:
        last = max(y, last + _LINE)
        x = frame.x(line.points[-1][0]) + 7
        parts.append(
            f'<text class="name tone-{line.tone}" x="{x:.1f}" y="{last:.1f}">'
            f"{escape(_fitting(line.name))}</text>"
        )
    return parts


def _fitting(name: str) -> str:
    """Cut a name that would not fit beside the drawing."""
    return name if len(name) <= _LONGEST_NAME else f"{name[: _LONGEST_NAME - 1]}\u2026"


def _short(value: float) -> str:
    """Write a tick in as few signs as tell it from the others."""
    for size, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{round(value, 6):g}"


def _percent(share: float) -> float:
    return 100 * min(1.0, max(0.0, share))


@dataclass(frozen=True)
class Bar:
    """One bar: its name, how much of the width it takes, what is written beside it, its colour."""

    name: str
    share: float
    text: str
    tone: int


def bars(title: str, rows: Sequence[Bar]) -> str:
    """Lay out bars under each other, with their names and values, maybe under a title."""
    drawn = "".join(
        f'<div class="row"><span class="label">{escape(row.name)}</span><span class="track">'
        f'<span class="fill tone-{row.tone}" style="width:{_percent(row.share):.1f}%"></span></span>'
        f'<span class="value">{escape(row.text)}</span></div>'
        for row in rows
    )
    caption = f"<figcaption>{escape(title)}</figcaption>" if title else ""
    return f'<figure class="bars">{caption}{drawn}</figure>'

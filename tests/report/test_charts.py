"""Tests of charts and pages: scaled values, labels without overlaps, well-formed HTML."""

import re
import xml.etree.ElementTree as Tree
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albertine.report.charts import (
    Axes,
    Bar,
    Curve,
    Interval,
    ReferenceLine,
    _tick_labels,
    _ticks,
    bar_chart,
    interval_chart,
    line_chart,
)
from albertine.report.page import Page, Section, code_block, html_paragraphs, html_table

HOSTILE = '<script>alert("&")</script>\x1b[31m\x07\x9b'


@given(st.floats(-1e9, 1e9), st.floats(1e-6, 1e9))
def test_ticks_cover_the_range(low: float, span: float) -> None:
    ticks = _ticks(low, low + span)
    assert ticks[0] <= low + 1e-6 * span + 1e-9 * abs(low)
    assert ticks[-1] >= low + span - 1e-6 * span - 1e-9 * abs(low)
    assert 2 <= len(ticks) <= 9


@pytest.mark.parametrize("value", [0.0, 5.5, -3.0])
def test_ticks_of_a_single_value(value: float) -> None:
    ticks = _ticks(value, value)
    assert ticks[0] < ticks[-1]
    assert ticks[0] <= value <= ticks[-1]


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0, 1, ["0", "0.2", "0.4", "0.6", "0.8", "1"]),
        (0, 1.5, ["0", "0.25", "0.5", "0.75", "1", "1.25", "1.5"]),
        (0, 2000, ["0", "500", "1k", "1.5k", "2k"]),
        (0, 5e-8, ["0", "1e-08", "2e-08", "3e-08", "4e-08", "5e-08"]),
        (1_000_000, 1_000_004, ["1000000", "1000001", "1000002", "1000003", "1000004"]),
        (1990, 1998, ["1990", "1992", "1994", "1996", "1998"]),
    ],
)
def test_labels_of_ticks_differ(low: float, high: float, labels: list[str]) -> None:
    assert _tick_labels(_ticks(low, high)) == labels


def test_points_are_scaled_linearly() -> None:
    svg = line_chart("t", Axes("a", "b", 0, 10), [Curve("one", [(0, 0), (50, 5), (100, 10)], 1)])
    points = re.search(r'polyline class="color-1" points="([^"]+)"', svg)
    assert points
    (x0, y0), (x1, y1), (x2, y2) = (tuple(map(float, pair.split(","))) for pair in points[1].split())
    assert x1 == pytest.approx((x0 + x2) / 2, abs=0.1)
    assert y1 == pytest.approx((y0 + y2) / 2, abs=0.1)
    assert x0 < x2
    assert y0 > y2  # y grows downwards


def test_curve_labels_do_not_overlap() -> None:
    curves = [Curve(f"line {n}", [(0, 1.0), (10, 5.0 + n / 1000)], n % 4 + 1) for n in range(4)]
    svg = line_chart("t", Axes("a", "b"), curves)
    heights = sorted(_heights("name", svg))
    assert len(heights) == 4
    assert all(b - a >= 14 for a, b in pairwise(heights))


def _heights(css_class: str, svg: str) -> list[float]:
    return [float(y) for y in re.findall(rf'class="{css_class} [^"]*" x="[\d.]+" y="([\d.]+)"', svg)]


@given(st.lists(st.floats(0, 10), min_size=1, max_size=12))
def test_curve_labels_stay_beside_the_axis(ends: list[float]) -> None:
    curves = [Curve(f"line {n}", [(0, 10), (10, end)], 1) for n, end in enumerate(ends)]
    heights = _heights("name", line_chart("t", Axes("a", "b", 0, 10), curves))
    assert all(b - a >= 14.8 for a, b in pairwise(heights))
    assert all(15 <= y <= 262 for y in heights)  # the ends of the axis are at 30 and 256


def test_labels_of_reference_lines_do_not_overlap() -> None:
    lines = [ReferenceLine(f"baseline {n}", 5 + n / 100) for n in range(3)]
    svg = line_chart("t", Axes("a", "b", 0, 10), [Curve("one", [(0, 0), (1, 10)], 1)], lines)
    heights = _heights("tick end over", svg.replace('over"', 'over "'))
    assert len(heights) == 3
    assert all(b - a >= 14 for a, b in pairwise(heights))
    assert "baseline 2" in svg[: svg.index("baseline 1")]  # the highest line has the highest label


def test_values_beyond_the_axis_extend_it() -> None:
    svg = line_chart(
        "t", Axes("a", "b", 40, 100), [Curve("l", [(0, 10), (1, 200)], 1)], [ReferenceLine("coin", 50)]
    )
    (points,) = re.findall(r'points="([^"]+)"', svg)
    heights = [float(pair.split(",")[1]) for pair in points.split()]
    assert min(heights) >= 10
    assert max(heights) <= 262


def test_a_chart_without_points_is_empty() -> None:
    assert line_chart("t", Axes("a", "b"), [Curve("empty", [], 1)]) == ""


def test_an_interval_is_colored_by_its_side_of_chance() -> None:
    intervals = [
        Interval("above", 0.6, 0.55, 0.65, "60"),
        Interval("below", 0.4, 0.35, 0.45, "40"),
        Interval("around", 0.5, 0.45, 0.55, "50"),
        Interval("everything", 0.0, -0.5, 1.5, "0"),
    ]
    rows = interval_chart("t", intervals, 0.5).split('class="row"')[1:]
    assert [re.findall(r"color-(\d)", row) for row in rows] == [["1"] * 2, ["2"] * 2, ["4"] * 2, ["4"] * 2]
    assert 'style="left:55.0%;width:10.0%"' in rows[0]
    assert 'style="left:60.0%"' in rows[0]
    assert 'style="left:0.0%;width:100.0%"' in rows[3]


def test_everything_is_well_formed_and_escaped() -> None:
    parts = [
        line_chart(
            HOSTILE, Axes(HOSTILE, HOSTILE), [Curve(HOSTILE, [(1, 2)], 1)], [ReferenceLine(HOSTILE, 3)]
        ),
        bar_chart(HOSTILE, [Bar(HOSTILE, 2.0, HOSTILE, 1), Bar("none", -1.0, "0", 2)]),
        interval_chart(HOSTILE, [Interval(HOSTILE, 0.5, 0.4, 0.6, HOSTILE)], 0.5),
        html_table((HOSTILE,), [(HOSTILE,)]),
        code_block(HOSTILE),
        html_paragraphs(HOSTILE),
    ]
    page = Page(
        HOSTILE, HOSTILE, [(HOSTILE, HOSTILE)], [Section(HOSTILE, parts), Section("empty", [""])]
    ).html()
    assert "<script" not in page
    assert all(character.isprintable() or character == "\n" for character in page)
    assert "empty" not in page
    body = page[page.index("<body>") : page.index("</html>")]
    Tree.fromstring(body.replace("&nbsp;", " "))
    assert not re.search(r'(src|href)="?http|@import|url\(', page)


def test_long_labels_that_differ_at_one_end_stay_different() -> None:
    names = ["shared, E = 64", "shared, E = 128", "separate, E = 64", "separate, E = 128"]
    svg = line_chart("t", Axes("a", "b"), [Curve(name, [(0, 0), (1, 1)], 1) for name in names])
    labels = re.findall(r"</title>([^<]+)</text>", svg)
    assert len(set(labels)) == 4
    assert all(len(label) <= 12 for label in labels)
    assert all(f"<title>{name}</title>" in svg for name in names)

"""Prints the curves of `albertine evaluate --exits all`, as tables or JSON, and draws them."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from albertine import progress
from albertine.inference.exit_curve import ExitCurve, measure_exits
from albertine.inference.exit_points import FULL_DEPTH, ExitPoint
from albertine.inference.settings import EvaluateSettings
from albertine.plots import BLUE, GRAY, GREEN, INK, PALE_GRAY, RED, style_axes
from albertine.storage.objects import display_path
from albertine.storage.output_file import check_output_file, output_file
from albertine.tasks.metrics.intervals import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Start of the name of each kind of setting, its title and its color.
SETTING_KINDS = (
    ("--depth", "fixed depth", GRAY),
    ("--exit patience", "patience", BLUE),
    ("--exit confidence", "confidence", RED),
    ("--exit learned", "learned", GREEN),
)


def show_exit_curves(models: Sequence[str], settings: EvaluateSettings, *, as_json: bool) -> None:
    """Measure the exits of models, print the results, and draw them if the settings name a picture."""
    if settings.picture is not None:
        check_output_file(settings.picture)
    curves = measure_exits(models, settings)
    if as_json:
        progress.print_json({"exits": [asdict(curve) for curve in curves]})
    else:
        for curve in curves:
            _print_curve(curve)
    if settings.picture is not None:
        draw_curves(curves, settings.picture)
        progress.print_message(f"{display_path(settings.picture)}: the curve")


def _print_curve(curve: ExitCurve) -> None:
    console = progress.result_console()
    title = f"{curve.model}: {curve.task}, {curve.split}, {curve.num_examples:,} examples"
    console.print(title, highlight=False, markup=False, soft_wrap=True)
    table = progress.result_table("setting", "score", "difference", "mean depth", "FLOPs", "time")
    for point in curve.points:
        table.add_row(
            point.setting,
            f"{100 * point.score.value:.2f}",
            "" if point.setting == FULL_DEPTH else estimate_text(point.difference),
            f"{point.mean_depth:.2f}",
            margin_text(point.flops),
            margin_text(point.time),
        )
    console.print(table)
    console.print(exit_advice(curve), highlight=False, markup=False, soft_wrap=True)


def exit_advice(curve: ExitCurve) -> str:
    """Return the recommended setting, and how sure it is."""
    points = {point.setting: point for point in curve.points}
    advice = f"recommended, within {curve.tolerance:g} points of full depth: {curve.recommended}"
    if curve.recommended == curve.cautious:
        return advice
    low = 100 * points[curve.recommended].difference.low
    return (
        f"{advice}\nwith {curve.num_examples:,} examples, the interval of its difference reaches {low:.2f} "
        f"points; within {curve.tolerance:g} points with the whole interval: {curve.cautious}"
    )


def estimate_text(estimate: Estimate) -> str:
    """Return a difference in points with its interval."""
    value, low, high = (100 * number for number in (estimate.value, estimate.low, estimate.high))
    return f"{value:+.2f} ({low:+.1f} to {high:+.1f})"


def margin_text(estimate: Estimate) -> str:
    """Return a share in percent with half of its interval."""
    return f"{100 * estimate.value:.0f}% ±{50 * (estimate.high - estimate.low):.0f}"


def draw_curves(curves: Sequence[ExitCurve], file: Path) -> None:
    """Draw score against mean depth, FLOPs and time, a row of plots for each curve, as SVG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 3.6 * len(curves)), layout="constrained")
    rows = figure.subplots(len(curves), 3, squeeze=False, sharey="row")
    for curve, (left, middle, right) in zip(curves, rows, strict=True):
        left.set_title(
            f"{Path(curve.model).name}: {curve.task}, {curve.split}",
            fontsize=10,
            loc="left",
            parse_math=False,
        )
        _draw(left, curve, [point.mean_depth for point in curve.points], "mean depth (steps)")
        _draw(middle, curve, [100 * point.flops.value for point in curve.points], "FLOPs (%)")
        _draw(right, curve, [100 * point.time.value for point in curve.points], "time (%)")
        left.set_ylabel("score (%)")
        if len(curve.points) > 1:
            left.legend(frameon=False, fontsize=8, loc="lower right")
    with output_file(file) as partial:
        figure.savefig(partial, format="svg")


def _draw(axes: "Axes", curve: ExitCurve, positions: Sequence[float], label: str) -> None:
    """Draw the scores of a curve at positions of the x axis, with the intervals of the differences."""
    for prefix, title, color in SETTING_KINDS:
        chosen = [
            (position, point)
            for position, point in zip(positions, curve.points, strict=True)
            if point.setting.startswith(prefix)
        ]
        if chosen:
            _draw_points(axes, chosen, color, title)
    full = curve.points[0]
    assert full.setting == FULL_DEPTH
    axes.axhline(100 * full.score.value, color=GRAY, linewidth=1, linestyle="--")
    axes.axhspan(100 * full.score.value - curve.tolerance, 100 * full.score.value, color=PALE_GRAY)
    for position, point in zip(positions, curve.points, strict=True):
        if point.setting == curve.recommended:
            score = 100 * point.score.value
            axes.plot([position], [score], "o", markersize=8, markerfacecolor="none", color=INK)
            axes.annotate(
                curve.recommended,
                (position, score),
                (-4, 9),
                textcoords="offset points",
                fontsize=8,
                ha="right",
            )
    axes.margins(y=0.12)
    style_axes(axes)
    axes.set_xlabel(label)


def _draw_points(axes: "Axes", chosen: Sequence[tuple[float, ExitPoint]], color: str, title: str) -> None:
    """Draw points of one kind, with their intervals, connected in their order."""
    errors = [
        [100 * (point.difference.value - point.difference.low) for _, point in chosen],
        [100 * (point.difference.high - point.difference.value) for _, point in chosen],
    ]
    axes.errorbar(
        [position for position, _ in chosen],
        [100 * point.score.value for _, point in chosen],
        yerr=errors,
        color=color,
        marker="o",
        markersize=3,
        linewidth=1.2,
        elinewidth=0.6,
        label=title,
    )

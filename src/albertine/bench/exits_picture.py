"""The picture of the benchmark of exits: score against mean depth and against time."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from albertine.atomic import atomic_file
from albertine.bench.exits_result import ExitBenchPoint, ExitBenchResult
from albertine.display import counted
from albertine.inference.show_exit_curve import SETTING_KINDS
from albertine.plots import GRAY, INK, OCHRE, PURPLE, style_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE_FILE = "curve.svg"


def draw_exit_bench(result: ExitBenchResult, file: Path) -> None:
    """Draw the means over the seeds as SVG: against depth beside models without exits, and against time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    seeds = counted(result.num_seeds, "seed")
    left.set_title(f"{result.task}, {seeds}", fontsize=10, loc="left", parse_math=False)
    _draw_settings(left, result.points, [point.mean_depth for point in result.points])
    _draw_settings(right, result.points, [100 * point.time.value for point in result.points])
    without = {depth: one.without_exits for depth, one in result.score_by_depth.items()}
    shallow = {depth: one.trained_at_depth for depth, one in result.score_by_depth.items()}
    _draw_depths(left, without, "trained without exits", OCHRE)
    _draw_depths(left, shallow, "fewer layers, without exits", PURPLE)
    padded = [
        (100 * point.padded_time, 100 * point.score)
        for point in result.points
        if point.padded_time is not None and point.setting.startswith("--exit")
    ]
    if padded:
        right.plot(*zip(*padded, strict=True), "x", color=INK, label="in padded batches")
    left.set_xlabel("mean depth (steps)")
    right.set_xlabel("time (%)")
    left.set_ylabel("score (%)")
    for axes in (left, right):
        style_axes(axes)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=8, loc="lower right")
    with atomic_file(file) as partial:
        figure.savefig(partial, format="svg")


def _draw_settings(axes: "Axes", points: Sequence[ExitBenchPoint], positions: Sequence[float]) -> None:
    """Draw the settings of the model with exits, with the intervals of the differences from full depth."""
    for prefix, title, color in SETTING_KINDS:
        chosen = [
            (position, 100 * point.score, 100 * max(0.0, point.difference.high - point.difference.mean))
            for position, point in zip(positions, points, strict=True)
            if point.setting.startswith(prefix)
        ]
        if chosen:
            x, y, errors = map(list, zip(*chosen, strict=True))
            has_intervals = points[0].difference.seeds > 1
            axes.errorbar(
                x,
                y,
                yerr=errors if has_intervals else None,
                color=color,
                marker="o",
                markersize=3,
                linewidth=1.2,
                elinewidth=0.6,
                label=title,
            )
    axes.axhline(100 * points[0].score, color=GRAY, linewidth=1, linestyle=":")


def _draw_depths(axes: "Axes", scores: dict[int, float | None], title: str, color: str) -> None:
    """Draw scores by depth, those that there are."""
    known = [(depth, 100 * score) for depth, score in scores.items() if score is not None]
    if known:
        x, y = zip(*known, strict=True)
        axes.plot(x, y, "--", color=color, marker="s", markersize=3, linewidth=1.2, label=title)

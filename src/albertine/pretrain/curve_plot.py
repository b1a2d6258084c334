"""The learning curve of a run, as `curve.svg` and `curve.png` in its folder.

The upper plot shows the MLM loss in training and on held-out text, with the unigram and
no-context baselines; the lower one shows the accuracies of masked tokens and of pairs.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from albertine import progress
from albertine.atomic import atomic_file
from albertine.errors import InputError
from albertine.plots import BLUE, GRAY, GREEN, PALE_BLUE, RED, style_axes
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.unigram_baseline import no_context_baseline
from albertine.settings import build_settings
from albertine.train.metrics_log import (
    HELD_OUT_PREFIX,
    METRICS_FILE,
    MetricsLine,
    downsampled,
    metric_curve,
    read_metrics,
)
from albertine.train.run_folder import read_run_settings

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE_FILE = "curve.png"
MetricsLines = Sequence[MetricsLine]
_MAX_POINTS = 400  # points of a curve


def draw_curve(run: str | Path) -> None:
    """Draw the learning curve of a running or finished run into its folder."""
    run = Path(run)
    settings = build_settings(PretrainSettings, read_run_settings(run, PretrainSettings))
    if not (run / METRICS_FILE).exists():
        raise InputError(f"{run}: has no {METRICS_FILE} yet; there is nothing to draw")
    lines = read_metrics(run)
    if not any("mlm_loss" in line for line in lines):
        raise InputError(f"{run}: has taken no step yet; there is nothing to draw")
    _write_figure(run, settings, lines)
    progress.print_message(f"{run}: curve.svg and curve.png")


def _write_figure(run: Path, settings: PretrainSettings, lines: MetricsLines) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6.4), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    figure.suptitle(f"{run.resolve().name}: {_title(settings, lines)}", fontsize=10, x=0.01, ha="left")
    _draw_losses(upper, lines)
    _draw_accuracies(lower, lines)
    for axes in (upper, lower):
        style_axes(axes, grid=True)
        for step in (line["step"] for line in lines if line.get("event_type") == "rollback"):
            axes.axvline(step, color=RED, linewidth=0.8, linestyle=":")
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # computed once, for both files
    for file_format in ("svg", "png"):
        with atomic_file(run / f"curve.{file_format}") as file:
            figure.savefig(file, format=file_format, dpi=150)


def _draw_losses(axes: "Axes", lines: MetricsLines) -> None:
    training, held_out = metric_curve(lines, "mlm_loss"), metric_curve(lines, f"{HELD_OUT_PREFIX}mlm_loss")
    if training:
        shown = downsampled(training, _MAX_POINTS)
        axes.plot(*zip(*shown, strict=True), color=PALE_BLUE, linewidth=1.2, label="training")
    if held_out:
        axes.plot(*zip(*held_out, strict=True), color=BLUE, marker="o", markersize=3, label="held-out")
    for unigram in (line["mlm_unigram_loss"] for line in lines if "mlm_unigram_loss" in line):
        _draw_baseline(axes, unigram, "unigram baseline")
        _draw_baseline(axes, no_context_baseline(unigram), "no-context baseline")
    axes.set_ylabel("MLM loss (nats)")
    axes.legend(frameon=False, fontsize=8, loc="lower left")


def _draw_baseline(axes: "Axes", loss: float, name: str) -> None:
    """Draw a horizontal line with its name and its loss."""
    axes.axhline(loss, color=GRAY, linewidth=1, linestyle="--")
    axes.annotate(
        f"{name}: {loss:.2f}",
        (1, loss),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        fontsize=8,
        color=GRAY,
    )


def _draw_accuracies(axes: "Axes", lines: MetricsLines) -> None:
    for objective, name, color in (
        ("mlm", "masked tokens", BLUE),
        ("next", "next tokens", GREEN),
        ("pair", "pairs", RED),
    ):
        accuracies = metric_curve(lines, f"{HELD_OUT_PREFIX}{objective}_accuracy")
        label = f"{name}, held-out"
        if not accuracies:
            accuracies = downsampled(metric_curve(lines, f"{objective}_accuracy"), _MAX_POINTS)
            label = f"{name}, training"
        if accuracies:
            steps, values = zip(*accuracies, strict=True)
            percentages = [100 * accuracy for accuracy in values]
            axes.plot(steps, percentages, color=color, marker="o", markersize=3, label=label)
    axes.axhline(50, color=GRAY, linewidth=1, linestyle="--")  # chance level of pairs
    axes.set_ylim(0, 100)
    axes.set_ylabel("accuracy (%)")
    axes.set_xlabel("step")
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def _title(settings: PretrainSettings, lines: MetricsLines) -> str:
    model, train = settings.model, settings.train
    tokens = max(line.get("tokens", 0) for line in lines)
    return (
        f"{model.layers} layers of {model.hidden_size}, share = {model.share}, {settings.objective.pair}; "
        f"{train.optimizer}, {train.batch_tokens:,} tokens per step, {tokens / 1e6:,.1f}M tokens"
    )

"""The curve of a run, as one would put it in a report: `curve.svg` and `curve.png` in its folder.

Above, the loss of the masked pieces, in training and on held-out text, with the level
of piece frequencies that it has to leave; below, how often both objectives are right.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from albertine import progress
from albertine.errors import InputError
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.unigram import without_context
from albertine.settings import read
from albertine.train.folder import settings_of
from albertine.train.journal import HELD_OUT, JOURNAL, Line, points, read_journal, thinned
from albertine.whole import new_file

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVE = "curve.png"
Lines = Sequence[Line]
_TRAIN, _HELD, _PAIR, _QUIET = "#9db7d5", "#1f4e79", "#c0504d", "#6b6b6b"
_POINTS = 400  # a curve is drawn as so many means


def draw(run: Path) -> None:
    """Draw the curve of a run, under way or done."""
    settings = read(PretrainSettings, settings_of(run, PretrainSettings))
    if not (run / JOURNAL).exists():
        raise InputError(f"{run}: has no {JOURNAL} yet; there is nothing to draw")
    lines = read_journal(run)
    if not any("mlm_loss" in line for line in lines):
        raise InputError(f"{run}: has taken no step yet; there is nothing to draw")
    _paint(run, settings, lines)
    progress.say(f"{run}: curve.svg and curve.png")


def _paint(run: Path, settings: PretrainSettings, lines: Lines) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 6.4), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=[3, 2])
    figure.suptitle(f"{run.resolve().name}: {_described(settings, lines)}", fontsize=10, x=0.01, ha="left")
    _losses(upper, lines)
    _accuracies(lower, lines)
    for axes in (upper, lower):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
        axes.set_axisbelow(True)
        for step in (line["step"] for line in lines if "event" in line and "went back" in line["event"]):
            axes.axvline(step, color=_PAIR, linewidth=0.8, linestyle=":")
    figure.draw_without_rendering()
    figure.set_layout_engine("none")  # found once, for both files
    for kind in ("svg", "png"):
        with new_file(run / f"curve.{kind}") as file:
            figure.savefig(file, format=kind, dpi=150)


def _losses(axes: "Axes", lines: Lines) -> None:
    training, held_out = points(lines, "mlm_loss"), points(lines, f"{HELD_OUT}mlm_loss")
    if training:
        shown = thinned(training, _POINTS)
        axes.plot(*zip(*shown, strict=True), color=_TRAIN, linewidth=1.2, label="training")
    if held_out:
        axes.plot(*zip(*held_out, strict=True), color=_HELD, marker="o", markersize=3, label="held out")
    for unigram in (line["mlm_unigram_loss"] for line in lines if "mlm_unigram_loss" in line):
        _level(axes, unigram, "piece frequencies alone")
        _level(axes, without_context(unigram), "no context")
    axes.set_ylabel("MLM loss (nats)")
    axes.legend(frameon=False, fontsize=8, loc="lower left")


def _level(axes: "Axes", level: float, name: str) -> None:
    """Draw what is reached without learning, with its name."""
    axes.axhline(level, color=_QUIET, linewidth=1, linestyle="--")
    axes.annotate(
        f"{name}: {level:.2f}",
        (1, level),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        ha="right",
        fontsize=8,
        color=_QUIET,
    )


def _accuracies(axes: "Axes", lines: Lines) -> None:
    for part, name, color in (("mlm", "masked pieces", _HELD), ("pair", "pairs", _PAIR)):
        right, label = points(lines, f"{HELD_OUT}{part}_accuracy"), f"{name}, held out"
        if not right:
            right, label = thinned(points(lines, f"{part}_accuracy"), _POINTS), f"{name}, training"
        if right:
            steps, shares = zip(*right, strict=True)
            percent = [100 * share for share in shares]
            axes.plot(steps, percent, color=color, marker="o", markersize=3, label=label)
    axes.axhline(50, color=_QUIET, linewidth=1, linestyle="--")  # where pairs start, by chance
    axes.set_ylim(0, 100)
    axes.set_ylabel("right (%)")
    axes.set_xlabel("step")
    axes.legend(frameon=False, fontsize=8, loc="upper left")


def _described(settings: PretrainSettings, lines: Lines) -> str:
    model, train = settings.model, settings.train
    tokens = max(line.get("tokens", 0) for line in lines)
    return (
        f"{model.layers} layers of {model.hidden_size}, share = {model.share}, {settings.objective.pair}; "
        f"{train.optimizer}, {train.batch_tokens:,} tokens a step, {tokens / 1e6:,.1f}M tokens"
    )

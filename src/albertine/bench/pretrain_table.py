"""Prints and draws the result of the pre-training benchmark."""

from dataclasses import asdict
from pathlib import Path

from albertine import progress
from albertine.atomic import atomic_file
from albertine.bench.pretrain import PretrainingComparison
from albertine.bench.pretrain_runs import Side
from albertine.errors import InputError
from albertine.plots import BLUE, RED, style_axes
from albertine.storage.output_file import check_output_path

_PLOT_SUFFIXES = (".svg", ".png")
# Name and color of each side.
_SIDES: tuple[tuple[Side, str, str], ...] = (
    ("ours", "Albertine", BLUE),
    ("peer", "transformers", RED),
)


def check_plot_file(file: Path) -> None:
    """Raise `InputError` if a plot cannot be written to a file."""
    if file.suffix not in _PLOT_SUFFIXES:
        raise InputError(f"--plot {file}: give a file name that ends in {' or '.join(_PLOT_SUFFIXES)}")
    check_output_path(file)


def show_pretraining(comparison: PretrainingComparison, out: Path | None, *, as_json: bool) -> None:
    """Print the result as a table or JSON, and draw it to `out` if given."""
    _print_comparison(comparison, as_json=as_json)
    if out is not None:
        draw_pretraining(comparison, out)


def _print_comparison(comparison: PretrainingComparison, *, as_json: bool) -> None:
    if as_json:
        fractions = {"time_fraction_to_match": comparison.time_fraction_to_match}
        progress.print_json({**asdict(comparison), "baseline_loss": comparison.baseline_loss, **fractions})
        return
    table = progress.result_table("", "learning rate", "steps", "tokens", "tokens/s", "held-out loss")
    for side, name, _ in _SIDES:
        result = comparison.sides[side]
        table.add_row(
            name,
            f"{result.learning_rate:.2g}",
            f"{result.steps:,}",
            f"{result.run.tokens:,}",
            f"{result.run.tokens_per_second:,.0f}",
            f"{result.run.loss:.3f}",
        )
    console = progress.result_console()
    console.print(table)
    fraction = comparison.time_fraction_to_match
    match_text = f"after {fraction:.0%} of the time" if fraction is not None else "never"
    console.print(
        f"{comparison.minutes:g} minutes each; Albertine reached the final loss of transformers {match_text}",
        highlight=False,
    )


def draw_pretraining(comparison: PretrainingComparison, out: Path) -> None:
    """Draw the loss curves of both sides to an image file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for side, name, color in _SIDES:
        curve = comparison.sides[side].run.curve
        minutes, losses = [seconds / 60 for seconds, _ in curve], [loss for _, loss in curve]
        axes.plot(minutes, losses, color=color, marker="o", markersize=3)
        axes.annotate(
            f"{name} {losses[-1]:.2f}",
            (minutes[-1], losses[-1]),
            xytext=(6, 0),
            textcoords="offset points",
            color=color,
            va="center",
        )
    peer_loss = comparison.sides["peer"].run.loss
    axes.axhline(peer_loss, color=RED, linewidth=0.8, linestyle=":")
    axes.set_xlabel("minutes of training")
    axes.set_ylabel("held-out MLM loss (nats)")
    style_axes(axes, grid=True)
    axes.set_xlim(0, None)
    with atomic_file(out) as file:
        figure.savefig(file, format=out.suffix[1:] or "png", dpi=150)

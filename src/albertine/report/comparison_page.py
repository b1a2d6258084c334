"""The comparison of runs as a page: scores, overlaid curves, and the settings in which the runs differ."""

from pathlib import Path
from typing import Any

from albertine import progress
from albertine.paired_statistics import PairedDifference
from albertine.report.curves import PlottedRun, finetuning_comparison_charts, pretraining_charts
from albertine.report.page import Page, Section, html_paragraphs, html_table, side_by_side
from albertine.report.run_comparison import ComparedRun, RunComparison
from albertine.tasks.metrics.display import format_metric, metric_title
from albertine.tasks.registry import find_task

_MAX_CURVES = 6  # colors of the page's style sheet
_MAX_LABEL_LENGTH = 12  # of a curve
_TITLES_OF_PRETRAINING = {
    "mlm_loss": "loss on masked tokens",
    "mlm_accuracy": "masked tokens correct",
    "next_loss": "loss on next tokens",
    "next_accuracy": "next tokens correct",
    "pair_loss": "loss on pairs",
    "pair_accuracy": "pairs correct",
}


def comparison_page(comparison: RunComparison) -> Page:
    """Return the page of a comparison."""
    runs = comparison.runs
    kind = "pre-training runs" if runs[0].task is None else f"fine-tuning runs on {runs[0].task}"
    settings_rows = [
        [key, *(setting_text(value) for value in row)] for key, row in comparison.differing_settings.items()
    ]
    settings_block = (
        html_table(["setting", *comparison.short_names], settings_rows)
        if settings_rows
        else html_paragraphs("All settings are the same.")
    )
    sections = [
        Section("Scores", [html_table(*score_table(comparison)), *map(_sentence, comparison.warnings)]),
        Section("Curves", _curve_blocks(comparison)),
        Section("Settings that differ", [settings_block]),
    ]
    title = " and ".join(comparison.short_names) if len(runs) == 2 else f"{len(runs)} runs"
    folder = f" in {comparison.folder}" if comparison.folder else ""
    return Page(title, f"A comparison of {len(runs)} {kind}{folder}.", [], sections)


def score_table(comparison: RunComparison) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the table of scores, with the difference from the first run if known."""
    names = comparison.score_names
    differences = [comparison.difference(run) for run in comparison.runs]
    header = ["run", *map(score_title, names), "steps", "tokens", "time"]
    rows = [
        [
            short_name,
            *(_score_text(name, run.scores[name]) for name in names),
            f"{run.steps:,}",
            progress.format_tokens(run.tokens),
            progress.format_duration(run.seconds),
        ]
        for short_name, run in zip(comparison.short_names, comparison.runs, strict=True)
    ]
    if any(differences):
        header.append("difference from the first")
        for row, difference in zip(rows, differences, strict=True):
            row.append(_difference_text(difference) if difference else "")
    return header, rows


def score_title(name: str) -> str:
    """Return the name of a score in words."""
    return _TITLES_OF_PRETRAINING.get(name) or metric_title(name)


def setting_text(value: Any) -> str:
    """Return a setting as text; a dash for a setting that a run does not have."""
    if isinstance(value, bool):
        return str(value).lower()
    return "\u2013" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _score_text(name: str, values: tuple[float, ...]) -> str:
    """Return a score; of several seeds the mean and the range."""
    mean = sum(values) / len(values)
    if len(values) == 1:
        return _format_score(name, mean)
    low, high = (_format_score(name, value) for value in (min(values), max(values)))
    return f"{_format_score(name, mean)} ({low} to {high}, {len(values)} seeds)"


def _format_score(name: str, value: float) -> str:
    return f"{value:.3f}" if name.endswith("loss") else format_metric(name, value)


def _difference_text(difference: PairedDifference) -> str:
    mean, low, high = (100 * value for value in (difference.mean, difference.low, difference.high))
    return f"{mean:+.1f} (95%: {low:+.1f} to {high:+.1f}, {difference.seeds} seeds)"


def _sentence(text: str) -> str:
    return html_paragraphs(f"{text[:1].upper()}{text[1:]}.")


def _curve_blocks(comparison: RunComparison) -> list[str]:
    runs = comparison.runs[:_MAX_CURVES]
    labels, are_numbers = _curve_labels(runs)
    plotted = [
        PlottedRun(label, run.curve_folder, color)
        for color, (label, run) in enumerate(zip(labels, runs, strict=True), start=1)
    ]
    task = runs[0].task
    if task is None:
        pairs = {str(run.settings.get("objective.pair")) for run in runs}
        charts = pretraining_charts(plotted, pairs.pop() if len(pairs) == 1 else "none")
    else:
        charts = finetuning_comparison_charts(plotted, find_task(task).compared_by(comparison.metric))
    notes = []
    if are_numbers:
        notes.append("The runs have the numbers of their rows in the table of scores.")
    if any(len(run.seeds) > 1 for run in runs):
        notes.append("Of several seeds, the curve is that of the best run.")
    if len(comparison.runs) > _MAX_CURVES:
        notes.append(f"The curves are those of the first {_MAX_CURVES} runs.")
    return [side_by_side(charts), *map(html_paragraphs, notes)]


def _curve_labels(runs: tuple[ComparedRun, ...]) -> tuple[list[str], bool]:
    """Return short labels, and whether they are numbers, as where folders have long or equal names."""
    labels = [Path(run.name).resolve().name for run in runs]  # of the folder . too
    if len(set(labels)) == len(labels) and max(map(len, labels)) <= _MAX_LABEL_LENGTH:
        return labels, False
    return [f"run {number}" for number in range(1, len(runs) + 1)], True

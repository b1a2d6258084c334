"""The report of a fine-tuning run, or of several runs: scores, errors, curves, and how to use the model."""

import shlex
from pathlib import Path

from albertine import progress
from albertine.finetune.model_selection import score_to_minimize
from albertine.finetune.results import RESULTS_FILE, StoredFinetuneResults, read_finetune_results, runs_like
from albertine.interop.load import load_checkpoint
from albertine.report.curves import finetuning_charts
from albertine.report.dev_sections import dev_sections, sample_note
from albertine.report.next_steps import next_steps
from albertine.report.page import Page, Section, code_block, html_paragraphs, html_table, side_by_side
from albertine.report.pretraining_page import model_blocks
from albertine.report.run_predictions import dev_predictions, run_settings
from albertine.report.score_section import (
    comparison_columns,
    key_figure_notes,
    key_figures,
    score_section,
)
from albertine.tasks.card import TaskCard
from albertine.tasks.checkpoint_card import read_card
from albertine.tasks.metrics.display import format_metrics, shown_metrics
from albertine.tasks.registry import TASK_TYPES, task_of_card
from albertine.tasks.task import Task
from albertine.train.metrics_log import METRICS_FILE, MetricsLine, held_out_scores, read_metrics

_MAX_LABELS = 12


def finetuning_page(run: Path, source: str | None = None) -> Page:
    """Return the report of one run, or of the folder of several runs, which holds the best model.

    Args:
        run: folder of the run.
        source: name of the run in commands, if it is not its folder.
    """
    source = source or str(run)
    model = load_checkpoint(run)
    card = read_card(run, model.settings, model.head_settings, model.label_names)
    results = _read_results(run)
    scores = results.median if results else _best_dev_scores(run, card)
    charted_run = run / results.best_run if results else run
    settings = run_settings(charted_run)
    predictions = dev_predictions(run, charted_run, settings)
    columns = comparison_columns(scores, results.baseline if results else None, predictions)
    task_type = TASK_TYPES[card.type_name]
    balanced = settings is not None and settings.train.class_weights == "balanced"
    sections = [
        score_section(
            columns,
            results.baseline_advice if results else None,
            predictions.num_dev if predictions else None,
            sample_note(predictions) if predictions else "",
        ),
        *(
            dev_sections(predictions, task_type, balanced=balanced)
            if predictions
            else [_missing_predictions(source)]
        ),
        *_learning_sections(charted_run, task_of_card(card)),
        *([Section("Runs", [_run_table(run, results)])] if results else []),
        Section("Architecture", model_blocks(model.settings, task_type.prediction_description)),
        next_steps(source, card, settings, model),
    ]
    return Page(
        run.resolve().name, _summary(card, results), key_figures(columns), sections, key_figure_notes(columns)
    )


def _missing_predictions(source: str) -> Section:
    """Return the section in place of those on predictions."""
    explanation = (
        "The model's predictions on dev are not known, and the data of the run is not at hand. Restore the "
        "data, then write the report again:"
    )
    command = f"albertine report {shlex.quote(source)}"
    return Section("What it gets wrong", [html_paragraphs(explanation), code_block(command)])


def _read_results(run: Path) -> StoredFinetuneResults | None:
    """Return the results of all runs in a folder; None if it is one of several runs or is unfinished."""
    results = read_finetune_results(run)
    if results is None and not (run.parent / RESULTS_FILE).exists():  # not one of several runs
        progress.print_message(
            f"no {run / RESULTS_FILE}: the run is unfinished; the report lacks its table of runs"
        )
    return results


def _best_dev_scores(run: Path, card: TaskCard) -> dict[str, float]:
    """Return the best metrics on dev so far."""
    evaluations = [(line["step"], scores) for line in _read_metrics(run) if (scores := held_out_scores(line))]
    task = task_of_card(card)
    _, best = min(evaluations, key=lambda one: score_to_minimize(task, one[1], one[0]), default=(0, {}))
    return best


def _learning_sections(run: Path, task: Task) -> list[Section]:
    return [Section("Training", [side_by_side(finetuning_charts(run, task))])] if _read_metrics(run) else []


def _read_metrics(run: Path) -> list[MetricsLine]:
    return read_metrics(run) if (run / METRICS_FILE).exists() else []


def _run_table(run: Path, results: StoredFinetuneResults) -> str:
    rows = [
        [
            result.run_name or run.resolve().name,
            f"{result.lr:.3g}",
            f"{result.batch_size}",
            f"{result.dropout:g}",
            result.progress,
            format_metrics({name: result.metrics[name] for name in shown_metrics(result.metrics)}),
        ]
        for result in results.runs
    ]
    header = ("run", "learning rate", "batch size", "dropout", "best step", "on dev")
    return html_table(header, rows, wrap_last_column=True)


def _summary(card: TaskCard, results: StoredFinetuneResults | None) -> str:
    num_unnamed = len(card.labels) - _MAX_LABELS
    label_list = ", ".join(card.labels[:_MAX_LABELS]) + (
        f" and {num_unnamed:,} more" if num_unnamed > 0 else ""
    )
    data = card.task if card.is_official else "your own data"
    seeds, num_runs = _num_seeds(results), len(results.runs) if results else 1
    return (
        f"A model fine-tuned on {data} ({TASK_TYPES[card.type_name].title})."
        + (f" Labels: {label_list}." if label_list else "")
        + (f" The scores are medians of {seeds:,} runs; the rest is about the best." if seeds > 1 else "")
        + (
            f" It is the best of {num_runs:,} runs with different settings on dev, so its score is somewhat "
            "too high."
            if num_runs > seeds
            else ""
        )
    )


def _num_seeds(results: StoredFinetuneResults | None) -> int:
    """Return the number of runs with the settings of the best."""
    if results is None:
        return 1
    best = next((run for run in results.runs if run.run_name == results.best_run), results.runs[0])
    return len(runs_like(best, results.runs))

"""The report of a fine-tuning run, or of several runs: curves, scores, and how to use the model."""

import shlex
from pathlib import Path

from albertine import progress
from albertine.finetune.finetune import RESULTS_FILE
from albertine.finetune.model_selection import score_to_minimize
from albertine.finetune.results_file import StoredFinetuneResults, read_finetune_results
from albertine.interop.load import load_checkpoint
from albertine.report.curves import finetuning_charts
from albertine.report.page import Page, Section, code_block, html_table, paragraphs, side_by_side
from albertine.report.pretraining_page import model_blocks
from albertine.tasks.card import TaskCard
from albertine.tasks.checkpoint_card import read_card
from albertine.tasks.metrics.display import format_metric, format_metrics, metric_title, shown_metrics
from albertine.tasks.registry import TASK_TYPES
from albertine.train.metrics_log import METRICS_FILE, MetricsLine, held_out_scores, read_metrics

_MAX_LABELS = 12


def finetuning_page(run: Path) -> Page:
    """Return the report of one run, or of the folder of several runs, which holds the best model."""
    model = load_checkpoint(run)
    card = read_card(run, model.settings, model.head_settings, model.label_names)
    results = _read_results(run)
    scores = results.median if results else _best_dev_scores(run, card)
    charted_run = run / results.best_run if results else run
    quoted_run = shlex.quote(str(run))
    output_label = TASK_TYPES[card.type_name].prediction_description
    sections = [
        *_learning_sections(charted_run, card.task),
        *([Section("Runs", _run_blocks(run, results))] if results else []),
        Section("Architecture", model_blocks(model.settings, output_label)),
        Section("Next steps", [code_block(f"albertine predict {quoted_run} --data NEW --out OUT")]),
    ]
    key_figures = [(metric_title(name), format_metric(name, scores[name])) for name in shown_metrics(scores)]
    return Page(run.resolve().name, _summary(card), key_figures, sections)


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
    _, best = min(evaluations, key=lambda one: score_to_minimize(card.task, one[1], one[0]), default=(0, {}))
    return best


def _learning_sections(run: Path, task: str) -> list[Section]:
    return [Section("Training", [side_by_side(finetuning_charts(run, task))])] if _read_metrics(run) else []


def _read_metrics(run: Path) -> list[MetricsLine]:
    return read_metrics(run) if (run / METRICS_FILE).exists() else []


def _run_blocks(run: Path, results: StoredFinetuneResults) -> list[str]:
    rows = [
        [
            result.run_name or run.resolve().name,
            f"{result.lr:.3g}",
            f"{result.batch_size}",
            f"{result.dropout:g}",
            f"{result.best_step:,} of {result.steps:,}",
            format_metrics(result.metrics),
        ]
        for result in results.runs
    ]
    if results.baseline:
        rows.append(["bag of words", *[""] * 4, format_metrics(results.baseline.metrics)])
    table = html_table(
        ("run", "learning rate", "batch size", "dropout", "best step", "on dev"), rows, wrap_last_column=True
    )
    return [table, *([paragraphs(_as_sentence(results.baseline_advice))] if results.baseline_advice else [])]


def _as_sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _summary(card: TaskCard) -> str:
    num_unnamed = len(card.labels) - _MAX_LABELS
    label_list = ", ".join(card.labels[:_MAX_LABELS]) + (
        f" and {num_unnamed:,} more" if num_unnamed > 0 else ""
    )
    data = card.task if card.is_official else "your own data"
    return f"A model fine-tuned on {data} ({TASK_TYPES[card.type_name].title})." + (
        f" Labels: {label_list}." if label_list else ""
    )

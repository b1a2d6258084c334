"""The report of a tuned run, or of several of a kind: how it went, what each came to, and how to ask it."""

import json
import shlex
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.finetune.finetune import RESULTS_FILE
from albertine.interop.load import load_checkpoint
from albertine.report.curves import finetuning_charts
from albertine.report.page import Page, Section, columns, command_block, html_table
from albertine.report.pretraining_page import model_blocks
from albertine.tasks.card import TaskCard, read_card
from albertine.tasks.metrics.scores import format_metric, format_metrics, primary_metric, shown_metrics
from albertine.train.metrics_log import METRICS_FILE, MetricsLine, held_out_scores, read_metrics

_MAX_LABELS = 12  # that are named
_OUTPUT_LABELS = {
    "classify": "one of its labels", "regress": "a number", "tag": "a label for each word",
    "span": "where the answer is", "choice": "which option",
}  # fmt: skip


def finetuning_page(run: Path) -> Page:
    """Lay out a run: one by itself, or the folder of several, which is the best of them."""
    model = load_checkpoint(run)
    card = read_card(run, model)
    results = _read_results(run)
    scores = results["median"] if results else _best_dev_scores(run, card)
    curves = run / results["best"] if results else run
    quoted = shlex.quote(str(run))
    sections = [
        *_learning_sections(curves, card.task),
        *([Section("The runs", [_run_table(run, results)])] if results else []),
        Section("The network", model_blocks(model.settings, _OUTPUT_LABELS[card.type_name])),
        Section("What to do next", [command_block(f"albertine predict {quoted} --data NEW --out OUT")]),
    ]
    key_figures = [(name, format_metric(name, scores[name])) for name in shown_metrics(scores)]
    return Page(run.resolve().name, _summary(card), key_figures, sections)


def _read_results(run: Path) -> dict[str, Any] | None:
    """Return what runs came to; one of several, or one under way, has no such file."""
    file = run / RESULTS_FILE
    if not file.exists():
        return None
    try:
        found: Any = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        found = None
    if not isinstance(found, dict) or not {"median", "best", "runs"} <= set(found):
        raise InputError(f"{file}: torn; run the same albertine finetune again: it writes this file anew")
    return found


def _best_dev_scores(run: Path, card: TaskCard) -> dict[str, float]:
    """Return the best scores on dev so far."""
    evaluations = [held_out_scores(line) for line in _read_metrics(run)]
    return max(filter(None, evaluations), key=lambda scores: primary_metric(card.task, scores), default={})


def _learning_sections(run: Path, task: str) -> list[Section]:
    return [Section("How it learned", [columns(finetuning_charts(run, task))])] if _read_metrics(run) else []


def _read_metrics(run: Path) -> list[MetricsLine]:
    return read_metrics(run) if (run / METRICS_FILE).exists() else []


def _run_table(run: Path, results: dict[str, Any]) -> str:
    rows = [
        [
            one["name"] or run.resolve().name, f"{one['lr']:.3g}", f"{one['batch']}", f"{one['dropout']:g}",
            f"{one['step']:,} of {one['steps']:,}", format_metrics(one["scores"]),
        ]
        for one in results["runs"]
    ]  # fmt: skip
    return html_table(("run", "rate", "batch", "dropout", "best at", "on dev"), rows, wrap_last_column=True)


def _summary(card: TaskCard) -> str:
    num_unnamed = len(card.labels) - _MAX_LABELS
    label_list = ", ".join(card.labels[:_MAX_LABELS]) + (
        f" and {num_unnamed:,} more" if num_unnamed > 0 else ""
    )
    return f"A model tuned on {card.task} ({card.type_name})." + (
        f" Labels: {label_list}." if label_list else ""
    )

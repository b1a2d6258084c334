"""Prints the results of fine-tuning, as a table or as JSON."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from rich.markup import escape
from rich.table import Table

from albertine import progress
from albertine.display import counted
from albertine.finetune.results import FinetuneResults, common_metrics
from albertine.storage.objects import display_path
from albertine.storage.urls import storage_url
from albertine.tasks.metrics.display import (
    format_metric,
    format_metrics,
    metric_title,
    shown_metrics,
)


def show_finetune_results(out: str | Path, results: FinetuneResults, *, as_json: bool) -> None:
    """Print the results of all runs; print nothing in processes that have none."""
    runs = results.runs
    if not runs:
        return
    if as_json:
        progress.print_json(results.to_json())
        return
    names = shown_metrics(common_metrics(runs))
    console = progress.result_console()
    console.print(_table(out, results, names))
    best = results.best
    published = best.run_name or f"the model of step {best.best_step:,}"
    console.print(
        f"{results.task}, on dev; {display_path(Path(out))} is {published}", highlight=False, markup=False
    )
    if results.num_settings > 1:
        console.print(
            f"the best of {results.num_settings} points on these examples, so its score is somewhat too high",
            highlight=False,
            markup=False,
        )
    if storage_url(out) is None:  # the page is written into the run
        progress.print_message(
            f"albertine report {shlex.quote(str(out))}: a page on what the model gets wrong"
        )
    if results.baseline:
        known = results.baseline.metrics  # a run that an earlier version began has other names
        scores = format_metrics({name: known[name] for name in names if name in known})
        console.print(f"bag of words, on the same examples: {scores}", highlight=False, markup=False)
    if results.baseline_advice:
        console.print(results.baseline_advice, highlight=False, markup=False, soft_wrap=True)


def _table(out: str | Path, results: FinetuneResults, names: Sequence[str]) -> Table:
    """Return a table of the runs with these metrics, and their spread if several have the best settings."""
    table = progress.result_table(
        *("run", "learning rate", "batch size", "dropout", "best step", "metrics"),
        left_aligned=("run", "metrics"),
    )
    for run in results.runs:
        best_step = run.progress
        if run.restarts:
            best_step += f", {counted(run.restarts, 'restart')}"
        cells = (f"{run.lr:.3g}", f"{run.batch_size:,}", f"{run.dropout:g}", best_step)
        metrics = {name: run.metrics[name] for name in names}
        table.add_row(escape(run.run_name or Path(out).name), *cells, escape(format_metrics(metrics)))
    like_best = results.runs_like_best
    if len(like_best) > 1:
        medians = format_metrics({name: results.median_metrics[name] for name in names})
        ranges = [_range(name, [run.metrics[name] for run in like_best]) for name in names]
        of_best = " of the best point" if results.num_settings > 1 else ""
        table.add_row(f"median{of_best}", *[""] * 4, escape(medians))
        table.add_row(f"range{of_best}", *[""] * 4, escape(", ".join(ranges)))
    return table


def _range(name: str, values: Sequence[float]) -> str:
    return f"{metric_title(name)} {format_metric(name, min(values))} to {format_metric(name, max(values))}"

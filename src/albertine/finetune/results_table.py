"""Prints results of fine-tuning, as a table or JSON."""

import json
from dataclasses import asdict
from pathlib import Path

from albertine import progress
from albertine.finetune.finetune import FinetuneResults
from albertine.tasks.metrics.display import format_metric, format_metrics, result_table, shown_metrics


def show_finetune_results(out: str | Path, results: FinetuneResults, *, as_json: bool) -> None:
    """Print the results of all runs; processes other than the main one have none and print nothing."""
    runs = results.runs
    if not runs:
        return
    if as_json:
        found = {
            "task": results.task,
            "median": results.median_metrics,
            "runs": [asdict(one) for one in runs],
        }
        print(json.dumps(found, indent=2))
        return
    names = shown_metrics(runs[0].metrics)
    table = result_table(
        "run",
        "learning rate",
        "batch size",
        "dropout",
        "best step",
        "metrics",
        left_aligned=("run", "metrics"),
    )
    for one in runs:
        at = f"{one.best_step:,} of {one.steps:,}" + (f", {one.restarts} restarts" if one.restarts else "")
        cells = (f"{one.lr:.3g}", f"{one.batch_size:,}", f"{one.dropout:g}", at)
        metrics = {name: one.metrics[name] for name in names}
        table.add_row(one.run_name or Path(out).name, *cells, format_metrics(metrics))
    if len(runs) > 1:
        medians = results.median_metrics
        table.add_row("median", *[""] * 4, format_metrics({name: medians[name] for name in names}))
        values = {name: [one.metrics[name] for one in runs] for name in names}
        ranges = (
            f"{name} {format_metric(name, min(row))}-{format_metric(name, max(row))}"
            for name, row in values.items()
        )
        table.add_row("range", *[""] * 4, ", ".join(ranges))
    console = progress.result_console()
    console.print(table)
    best = results.best
    what = f"{out} is {best.run_name}" if best.run_name else f"{out} is the model of step {best.best_step:,}"
    console.print(f"{results.task}, on dev; {what}", highlight=False, markup=False)
    if best.best_step == 0:
        progress.print_message(
            f"{out}: no evaluation was better than the one before training; give it more steps"
        )

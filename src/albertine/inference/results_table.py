"""What tuning, evaluating and joining came to, on the terminal or as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.table import Table

from albertine import progress
from albertine.finetune.finetune import median_metrics
from albertine.finetune.run import FinetuneResult
from albertine.inference.ensemble import EnsembleResult
from albertine.inference.evaluate import EvaluationResult, paper_averages
from albertine.tasks.metrics.scores import format_metric, format_metrics, primary_metric, shown_metrics


def show_finetune_results(out: Path, task: str, results: Sequence[FinetuneResult], *, as_json: bool) -> None:
    """Print what runs came to; nothing, where another process does."""
    if not results:
        return
    if as_json:
        found = {"task": task, "median": median_metrics(results), "runs": [asdict(one) for one in results]}
        print(json.dumps(found, indent=2))
        return
    names = shown_metrics(results[0].metrics)
    table = _table("run", "rate", "batch", "dropout", "best at", "scores", left_aligned=("run", "scores"))
    for one in results:
        at = f"{one.best_step:,} of {one.steps:,}" + (f", {one.restarts} restarts" if one.restarts else "")
        cells = (f"{one.lr:.3g}", f"{one.batch_size:,}", f"{one.dropout:g}", at)
        table.add_row(
            one.run_name or out.name, *cells, format_metrics({name: one.metrics[name] for name in names})
        )
    if len(results) > 1:
        medians = median_metrics(results)
        table.add_row("median", *[""] * 4, format_metrics({name: medians[name] for name in names}))
        each = {name: [one.metrics[name] for one in results] for name in names}
        ranges = (
            f"{name} {format_metric(name, min(row))}-{format_metric(name, max(row))}"
            for name, row in each.items()
        )
        table.add_row("from-to", *[""] * 4, ", ".join(ranges))
    printed = progress.result_console()
    printed.print(table)
    best = max(results, key=lambda one: primary_metric(task, one.metrics))
    what = f"{out} is {best.run_name}" if best.run_name else f"{out} is the model of step {best.best_step:,}"
    printed.print(f"{task}, on dev; {what}", highlight=False, markup=False)
    if best.best_step == 0:
        progress.print_message(
            f"{out}: tuning made nothing better, and it is as it began; give it more steps"
        )


def show_evaluations(results: Sequence[EvaluationResult], *, as_json: bool) -> None:
    """Print how good models are."""
    means = paper_averages(results)
    if as_json:
        print(json.dumps({"models": [asdict(one) for one in results], "averages": means}, indent=2))
        return
    table = _table(
        "model", "task", "part", "examples", "scores", left_aligned=("model", "task", "part", "scores")
    )
    for one in results:
        table.add_row(one.model, one.task, one.split, f"{one.num_examples:,}", format_metrics(one.metrics))
    printed = progress.result_console()
    printed.print(table)
    for name, value in means.items():
        printed.print(f"average as in {name}: {100 * value:.1f}", highlight=False)


def show_ensemble(result: EnsembleResult, *, as_json: bool) -> None:
    """Print what an ensemble came to."""
    if as_json:
        print(json.dumps(asdict(result), indent=2))
        return
    table = _table("model", "alone", "taken")
    for source, value in result.candidates.items():
        place = str(result.selected.index(source) + 1) if source in result.selected else ""
        table.add_row(source, f"{100 * value:.2f}", place)
    table.add_row("together", f"{100 * result.primary_metric:.2f}", str(len(result.selected)))
    printed = progress.result_console()
    printed.print(table)
    summary = f"{result.task}, on dev: {format_metrics(result.metrics)}; {100 * result.gain:+.2f} over the best alone"
    printed.print(summary, highlight=False)


def _table(*titles: str, left_aligned: Sequence[str] = ()) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in titles:
        is_left = title in (left_aligned or titles[:1])
        long = title in ("model", "scores")  # these take more lines where there is too little room
        table.add_column(
            title,
            justify="left" if is_left else "right",
            no_wrap=not long,
            overflow="fold",
            min_width=24 if title == "scores" else None,
        )
    return table

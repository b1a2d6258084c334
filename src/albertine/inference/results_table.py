"""Prints the results of evaluations and ensembles, as tables or as JSON."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.markup import escape

from albertine import progress
from albertine.inference.ensemble import EnsembleResult
from albertine.inference.evaluate import EvaluationResult, paper_averages
from albertine.tasks.formats.locations import is_folder
from albertine.tasks.metrics.display import format_metrics


def show_evaluations(results: Sequence[EvaluationResult], *, as_json: bool) -> None:
    """Print the metrics of models, and the paper's averages that they allow."""
    averages = paper_averages(results)
    if as_json:
        progress.print_json({"results": [asdict(result) for result in results], "averages": averages})
        return
    has_depth = any(result.mean_depth is not None for result in results)
    columns = ("model", "task", "data", "examples", *(("depth",) if has_depth else ()), "metrics")
    table = progress.result_table(*columns, left_aligned=("model", "task", "data", "metrics"))
    for result in results:
        table.add_row(
            escape(result.model),
            escape(result.task),
            escape(result.split if is_folder(result.data) else Path(result.data).name),
            f"{result.num_examples:,}",
            *([] if result.mean_depth is None else [f"{result.mean_depth:.2f}"]),
            escape(format_metrics(result.metrics)),
        )
    console = progress.result_console()
    console.print(table)
    for name, value in averages.items():
        console.print(f"average as in {name}: {100 * value:.1f}", highlight=False)


def show_ensemble(result: EnsembleResult, *, as_json: bool) -> None:
    """Print the metrics of an ensemble and of its candidates."""
    if as_json:
        progress.print_json(asdict(result))
        return
    table = progress.result_table("model", "single", "selected")
    for source, value in result.candidates.items():
        selection_number = str(result.selected.index(source) + 1) if source in result.selected else ""
        table.add_row(escape(source), f"{100 * value:.2f}", selection_number)
    table.add_row("ensemble", f"{100 * result.primary_metric:.2f}", str(len(result.selected)))
    console = progress.result_console()
    console.print(table)
    summary = f"{result.task}, on dev: {format_metrics(result.metrics)}"
    gain = f"{100 * result.gain:+.2f} over the best single model"
    if len(result.selected) < len(result.candidates):
        gain += ", on the examples that selected the members, so somewhat too high"
    console.print(f"{summary}; {gain}", highlight=False, markup=False)

"""`albertine evaluate`: evaluates models and prints the results, as tables or as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import groupby

from rich.markup import escape

from albertine import progress
from albertine.display import display_text
from albertine.errors import InputError
from albertine.inference.evaluate import evaluate
from albertine.inference.minimal_pairs import MinimalPairsResult, PairAccuracy, evaluate_minimal_pairs
from albertine.inference.results_table import show_evaluations
from albertine.inference.settings import EvaluateSettings
from albertine.inference.show_exit_curve import show_exit_curves
from albertine.tasks.registry import MINIMAL_PAIR_TASKS, is_minimal_pair_task


def show_evaluation(models: Sequence[str], settings: EvaluateSettings, *, as_json: bool) -> None:
    """Evaluate models on their tasks or on minimal pairs, and print the results."""
    if len(set(models)) < len(models):
        raise InputError("a model is named twice; name each model once")
    if is_minimal_pair_task(settings.task):
        if settings.exit is not None or settings.exits is not None:
            raise InputError(f"--exit and --exits are for fine-tuned models, not for --task {settings.task}")
        show_minimal_pairs(evaluate_minimal_pairs(models, settings), as_json=as_json)
        return
    option = next((name for name in ("method", "pairs") if name in settings.explicit_keys), None)
    if option is not None:
        raise InputError(f"--{option} is for --task {', '.join(MINIMAL_PAIR_TASKS)}; leave it out")
    if settings.exits is not None:
        show_exit_curves(models, settings, as_json=as_json)
        return
    show_evaluations(evaluate(models, settings), as_json=as_json)


def show_minimal_pairs(results: Sequence[MinimalPairsResult], *, as_json: bool) -> None:
    """Print the accuracies of models on minimal pairs, a table for each model."""
    if as_json:
        progress.print_json({"results": [asdict(result) for result in results]})
        return
    console = progress.result_console()
    for model, model_results in groupby(results, lambda result: result.model):
        methods = list(model_results)
        title = f"{model}: accuracy in %, with 95% interval"
        console.print(title, highlight=False, markup=False, soft_wrap=True)
        titles = [title for result in methods for title in (result.method, "interval", "ties")]
        table = progress.result_table("paradigm", "pairs", *titles)
        for rows in zip(*map(_table_rows, methods), strict=True):
            first = rows[0]
            name = escape(display_text(first.name))
            indented = f"  {name}" if first.phenomenon else name
            table.add_row(indented, f"{first.num_pairs:,}", *(cell for row in rows for cell in _cells(row)))
        console.print(table)


def _table_rows(result: MinimalPairsResult) -> Iterator[PairAccuracy]:
    """Yield each phenomenon followed by its paradigms, the paradigms without a phenomenon, then all pairs."""
    for phenomenon in result.phenomena:
        yield phenomenon
        yield from (paradigm for paradigm in result.paradigms if paradigm.phenomenon == phenomenon.name)
    yield from (paradigm for paradigm in result.paradigms if not paradigm.phenomenon)
    yield result.overall


def _cells(accuracy: PairAccuracy) -> tuple[str, str, str]:
    interval = f"{100 * accuracy.low:.1f} to {100 * accuracy.high:.1f}"
    return f"{100 * accuracy.accuracy:.1f}", interval, f"{accuracy.ties:,}"

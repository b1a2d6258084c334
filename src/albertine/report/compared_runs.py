"""Reads the runs of a comparison."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from albertine import progress
from albertine.display import display_text
from albertine.errors import InputError
from albertine.finetune.model_selection import score_to_minimize
from albertine.finetune.results import RESULTS_FILE, StoredFinetuneResults, read_finetune_results, runs_like
from albertine.finetune.run import FinetuneResult
from albertine.interop.hub import ENSEMBLE_FILE, refuse_ensemble
from albertine.pretrain.settings import PretrainSettings
from albertine.report.evaluated_samples import num_evaluated_samples
from albertine.report.run_comparison import ComparedRun, RunComparison
from albertine.settings.sources import build_settings
from albertine.storage.cache import local_folder
from albertine.storage.objects import display_path
from albertine.tasks.registry import find_task
from albertine.tasks.task import Task
from albertine.train.metrics_log import METRICS_FILE, MetricsLine, held_out_scores, read_metrics
from albertine.train.run_folder import (
    SETTINGS_FILE,
    not_a_run_error,
    read_run_settings,
    unfinished_run_progress,
)

PRETRAINING_SCORES = (
    "mlm_loss", "mlm_accuracy", "next_loss", "next_accuracy", "pair_loss", "pair_accuracy"
)  # fmt: skip
_SEED_SETTINGS = {"seeds", "train.seed"}


def compare_runs(folders: Sequence[str | Path]) -> RunComparison:
    """Return a comparison of pre-training runs, or of fine-tuning runs on one task; also of URLs."""
    if len(folders) < 2:
        raise InputError("give two or more runs to compare")
    runs = tuple(_read_run(Path(folder)) for folder in folders)
    names = [run.name for run in runs]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise InputError(f"{twice}: given twice")
    first = runs[0]
    for run in runs[1:]:
        if run.task != first.task:
            raise InputError(
                f"{run.name}: {_kind(run)}, and {first.name} is {_kind(first)}; compare runs of one kind"
            )
    return RunComparison(runs)


def _kind(run: ComparedRun) -> str:
    return "a pre-training run" if run.task is None else f"a fine-tuning run on {run.task}"


def _read_run(run: Path) -> ComparedRun:
    name, folder = display_path(run), local_folder(run, _is_compared)
    refuse_ensemble(folder)
    results = read_finetune_results(folder)
    curve_folder = folder / results.best_run if results else folder
    if not (curve_folder / SETTINGS_FILE).exists():
        raise not_a_run_error(curve_folder, name if curve_folder == folder else curve_folder)
    source = read_run_settings(curve_folder)
    settings = {key: _value_at(source.values, key) for key in sorted(source.keys - _SEED_SETTINGS)}
    lines = _read_lines(curve_folder)
    steps = [line for line in lines if "tokens" in line]
    if not steps:
        raise InputError(f"{name}: no training step yet; compare the runs later")
    if text := unfinished_run_progress(curve_folder):
        progress.print_message(f"{name}: {text}; comparing its scores so far")
    task = _task_name(str(settings["task"]), curve_folder) if "task" in settings else None
    metric = None if task is None else _selecting_metric(find_task(task), settings.get("metric"))
    selected_task = None if task is None else find_task(task).compared_by(metric)
    if results:
        scores = {run.seed: run.metrics for run in _one_per_seed(results)}
    else:
        seed = _value_at(source.values, "train.seed") or 0
        scores = {seed: _last_scores(lines) if selected_task is None else _best_scores(lines, selected_task)}
    call_results = results or _results_of_call(folder)
    by_seed = list(scores.values())
    names = [name for name in by_seed[0] if all(name in row for row in by_seed)]
    return ComparedRun(
        name=name,
        task=task,
        metric=metric,
        curve_folder=curve_folder,
        settings=settings,
        seeds=tuple(scores),
        # The first seed of a call selects the held-out examples of all its runs.
        held_out_seed=min(run.seed for run in call_results.runs) if call_results else min(scores),
        dev_sha256=call_results.dev_sha256 if call_results else None,
        scores={key: tuple(row[key] for row in by_seed) for key in names},
        task_scores=()
        if selected_task is None
        else tuple(_task_score(name, selected_task, row) for row in by_seed),
        steps=steps[-1]["step"],
        tokens=int(steps[-1]["tokens"]),
        seconds=steps[-1].get("seconds") or 0.0,
        evaluated_samples=None if task else num_evaluated_samples(build_settings(PretrainSettings, source)),
    )


def _results_of_call(run_folder: Path) -> StoredFinetuneResults | None:
    """Return the results of the call that wrote one of several runs; None if there are none."""
    try:
        results = read_finetune_results(run_folder.parent)
    except InputError:  # the folder above may have another program's file of this name
        return None
    is_listed = results is not None and any(run.run_name == run_folder.name for run in results.runs)
    return results if is_listed else None


def _selecting_metric(task: Task, metric: Any) -> str | None:
    """Return the metric of a run's settings; None for that of the task, which may also be given by name."""
    own = task.primary_metrics or task.task_type.primary_metrics
    return metric if isinstance(metric, str) and own != (metric,) else None


def _is_compared(name: str) -> bool:
    """Return whether a file of a run on object storage is needed to compare it."""
    return name.rpartition("/")[2] in (SETTINGS_FILE, METRICS_FILE, RESULTS_FILE, ENSEMBLE_FILE)


def _one_per_seed(results: StoredFinetuneResults) -> list[FinetuneResult]:
    """Return the runs of all seeds; of a sweep, those with the settings of the best run."""
    best = next((run for run in results.runs if run.run_name == results.best_run), results.runs[0])
    return runs_like(best, results.runs)


def _task_name(task: str, folder: Path) -> str:
    try:
        return find_task(task).name
    except InputError:
        raise InputError(
            f"{folder / SETTINGS_FILE}: unknown task {display_text(task)}; use the version of Albertine that "
            "wrote the run"
        ) from None


def _task_score(name: str, task: Task, metrics: Mapping[str, float]) -> float:
    if not metrics:
        raise InputError(f"{name}: no evaluation on dev yet; compare the runs later")
    try:
        return task.primary_metric(metrics)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _read_lines(folder: Path) -> list[MetricsLine]:
    if not (folder / METRICS_FILE).exists():
        raise InputError(f"{folder / METRICS_FILE}: missing, and the comparison needs it; restore the file")
    return read_metrics(folder)


def _last_scores(lines: Sequence[MetricsLine]) -> dict[str, float]:
    """Return the scores of the last evaluation of a pre-training run; empty if there was none."""
    evaluations = [scores for line in lines if (scores := held_out_scores(line))]
    last = evaluations[-1] if evaluations else {}
    return {name: last[name] for name in PRETRAINING_SCORES if name in last}


def _best_scores(lines: Sequence[MetricsLine], task: Task) -> dict[str, float]:
    """Return the scores of the best evaluation of a fine-tuning run; empty if there was none."""
    evaluations = [(line["step"], scores) for line in lines if (scores := held_out_scores(line))]
    _, best = min(evaluations, key=lambda one: score_to_minimize(task, one[1], one[0]), default=(0, {}))
    return best


def _value_at(values: Mapping[str, Any], key: str) -> Any:
    """Return the value of a dotted key; None if it is missing."""
    value: Any = values
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value

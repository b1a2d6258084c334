"""Fine-tunes a model on a task: one run, one run for each seed, or a sweep.

OUT/                       the best model on dev, of the best run
OUT/results.json           the results of all runs
OUT/dev_predictions.json   the predictions of the best model on dev, for its report
OUT/seed-0/, OUT/lr-.../   the runs, if there are several
"""

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from albertine import progress
from albertine.atomic import is_unused
from albertine.errors import InputError
from albertine.executors.executor import Executor
from albertine.finetune.baseline import baseline_advice, evaluate_baseline
from albertine.finetune.dev_outcomes import predict_dev
from albertine.finetune.dev_predictions import one_label_advice, read_dev_predictions
from albertine.finetune.duration import check_length_and_grid, with_all_values, with_measured_steps
from albertine.finetune.prepare import FinetuneData, prepare_task
from albertine.finetune.results import FinetuneResults, stored_baseline
from albertine.finetune.run import FinetuneResult, finetune_run
from albertine.finetune.settings import FinetuneSettings
from albertine.finetune.trials import SINGLE_RUN, trials
from albertine.storage.objects import display_path
from albertine.tasks.examples import examples_checksum
from albertine.train.checkpoints import CHECKPOINTS_FOLDER
from albertine.train.distributed import Distributed, init_distributed
from albertine.train.mirrored_run import mirrored_run
from albertine.train.parallel_runs import run_on_cluster
from albertine.train.run_folder import (
    NO_RUN_FOLDER,
    check_command,
    publish_model,
    read_run_settings,
)
from albertine.train.trackers import check_tracker_installed


def finetune(
    model: str | Path | None,
    out: str | Path,
    settings: FinetuneSettings,
    *,
    sweep: bool = False,
    executor: Executor | None = None,
) -> FinetuneResults:
    """Fine-tune a model on a task, or resume where an interrupted call stopped.

    Args:
        model: a run, a checkpoint, a URL of one, or a hub name; None if `settings.init_from` names it.
        out: output folder or URL, which holds the best model on dev when the function returns.
        settings: task, data and hyperparameters; unset hyperparameters take the paper's values for the task,
            and a length in minutes becomes a number of steps, measured before the first run.
        sweep: try all combinations of `settings.grid`, which only `SweepSettings` have.
        executor: a cluster for the runs (see `open_cluster`); None for this process.
    """
    with mirrored_run(Path(out)) as folder:
        return _finetune_in(folder, model, settings, sweep=sweep, executor=executor)


def _finetune_in(
    out: Path,
    model: str | Path | None,
    settings: FinetuneSettings,
    *,
    sweep: bool,
    executor: Executor | None,
) -> FinetuneResults:
    """Fine-tune a model in a local folder; see `finetune`."""
    check_tracker_installed(settings.train.tracker)
    _check_output_folder(out, settings, is_single=not sweep and settings.seeds == 1)
    check_length_and_grid(settings, sweep=sweep)
    with init_distributed(settings.device, settings.train.timeout_minutes) as distributed:
        if executor is not None and distributed.world_size > 1:
            raise InputError("--cluster: cannot be combined with torchrun; leave out one of them")
        source = None if model is None else str(model)
        data = prepare_task(source, settings)
        settings = replace(settings, init_from=source or settings.init_from)
        runs_begun = [out, *sorted(out.glob("seed-*"))]
        settings = with_all_values(with_measured_steps(runs_begun, settings, data, distributed), data)
        settings_by_run = trials(settings, sweep=sweep)
        _check_runs_of_call(out, settings_by_run.keys())
        runs = _run_trials(out, settings_by_run, data, distributed, executor)
        if not distributed.is_main:
            return FinetuneResults(data.task.name, ())
        results = FinetuneResults(
            data.task.name,
            tuple(runs),
            metric=data.card.metric,
            dev_sha256=examples_checksum(example for example, _ in data.dev),
        )
        return _write_results(out, results, data, settings)


def _write_results(
    out: Path, results: FinetuneResults, data: FinetuneData, settings: FinetuneSettings
) -> FinetuneResults:
    """Write the best model, the results and its predictions on dev; return the results with a baseline."""
    if results.best.run_name != SINGLE_RUN:
        publish_model(out, out / results.best.run_name)
    balanced = settings.train.class_weights == "balanced"
    known = stored_baseline(out, results.best.metrics)
    if baseline := evaluate_baseline(data, known, balanced=balanced):
        advice = baseline_advice(baseline.metrics, results.best, data, settings)
        results = replace(results, baseline=baseline, baseline_advice=advice)
    results.write(out)
    predictions = read_dev_predictions(out)
    if predictions is None:
        predictions = predict_dev(out, data.train_examples, data.dev, settings.device)
        predictions.write(out)
    if (label := predictions.only_label(data.task.task_type)) is not None and not results.problem:
        cannot_weight = balanced or settings.train.learned_exit
        advice = one_label_advice(label, balanced=cannot_weight)
        progress.print_message(f"{display_path(out)}: {advice}")
    return results


def _run_trials(
    out: Path,
    settings_by_run: Mapping[str, FinetuneSettings],
    data: FinetuneData,
    distributed: Distributed,
    executor: Executor | None,
) -> list[FinetuneResult]:
    """Return the results of all runs: one after another in this process, or on a cluster."""
    if executor is not None:
        jobs = {out / name: (out / name, name, settings) for name, settings in settings_by_run.items()}
        steps = sum(settings.train.steps for settings in settings_by_run.values())
        run_trial = partial(_run_trial, data)
        return run_on_cluster("Fine-tuning", run_trial, jobs, steps, executor, distributed.device)
    results = []
    for number, (name, settings) in enumerate(settings_by_run.items(), start=1):
        if len(settings_by_run) > 1 and distributed.is_main:
            progress.print_message(f"run {number} of {len(settings_by_run)}: {name}")
        results.append(finetune_run(out / name, name, settings, data, distributed, keeps_predictions=True))
    return results


def _run_trial(data: FinetuneData, job: tuple[Path, str, FinetuneSettings]) -> FinetuneResult:
    """Return the result of a run in a worker of a cluster."""
    run, name, settings = job
    with init_distributed(settings.device) as distributed:
        return finetune_run(run, name, settings, data, distributed, keeps_predictions=True)


def _check_runs_of_call(out: Path, names: Collection[str]) -> None:
    """Raise `InputError` if a folder holds runs of another call, beside which new ones would begin.

    More or fewer seeds, or points of a sweep, are no other call.
    """
    begun = {_without_seed(folder.parent.name) for folder in out.glob(f"*/{CHECKPOINTS_FOLDER}/")}
    wanted = set(map(_without_seed, names))
    others = sorted(begun - wanted)
    if others and wanted - begun:
        raise InputError(
            f"{out}: holds the run {others[0]}, which is not one of this call; repeat the former call, also "
            "with more seeds, or name another --out"
        )


def _without_seed(name: str) -> str:
    """Return the name of a point of a sweep; a single point has runs that are only named by their seeds."""
    return re.sub("(?<=.)-seed-[0-9]+$", "", name)


def _check_output_folder(out: Path, settings: FinetuneSettings, *, is_single: bool) -> None:
    """Raise `InputError` unless the folder is missing or empty, or holds runs of the same task and kind.

    The runs themselves compare all settings, but only after the data has been read.
    """
    is_run, runs = (out / CHECKPOINTS_FOLDER).is_dir(), list(out.glob(f"*/{CHECKPOINTS_FOLDER}/"))
    # A killed process may have left the first run's folder empty.
    if not is_run and not runs and not is_unused(out) and not all(map(is_unused, out.glob("*"))):
        raise InputError(f"{out}: {NO_RUN_FOLDER}")
    if not is_single and is_run:
        raise InputError(f"{out}: is a single run; name another --out for several runs")
    if is_single and runs:
        raise InputError(f"{out}: holds several runs; name another --out for a single run")
    for run in (out, *(checkpoints.parent for checkpoints in runs)):
        try:
            stored = read_run_settings(run)
        except (InputError, OSError):  # missing or damaged; a run resumes from the settings in its checkpoint
            continue
        check_command(run, stored, FinetuneSettings)
        if (task := stored.values.get("task")) not in (None, settings.task):
            raise InputError(f"{run}: a run on {task}, not {settings.task}; name another --out")

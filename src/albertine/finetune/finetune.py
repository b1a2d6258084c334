"""Fine-tuning: one run, several with different seeds, or a grid of them; the best is what the folder is.

RUN/                       a model, the best on dev
RUN/results.json           what came out, of all runs
RUN/seed-0/, RUN/lr-.../   the runs, where there are several
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median

from albertine import progress
from albertine.atomic import atomic_file
from albertine.errors import InputError
from albertine.finetune.paper_defaults import with_task_defaults
from albertine.finetune.prepare import prepare_task
from albertine.finetune.run import FinetuneResult, finetune_run
from albertine.finetune.trials import trials
from albertine.tasks.metrics.scores import primary_metric
from albertine.tasks.settings import FinetuneSettings
from albertine.train.checkpoints import CHECKPOINTS_FOLDER
from albertine.train.distributed import init_distributed
from albertine.train.run_folder import publish_model
from albertine.train.trackers import check_tracker_installed

RESULTS_FILE = "results.json"


def finetune(
    source: str | None, out: Path, settings: FinetuneSettings, *, sweep: bool = False
) -> tuple[str, list[FinetuneResult]]:
    """Tune a model on a task into a folder, or go on where that was broken off.

    Returns the task's name and what each run came to; that only the first of several processes tells.
    """
    check_tracker_installed(settings.train.tracker)
    _check_output_folder(out)
    with init_distributed(settings.device) as distributed:
        data = prepare_task(source, settings)
        base = with_task_defaults(
            replace(settings, init_from=source or settings.init_from),
            data.task.name,
            data.model_settings,
            data.num_samples,
            data.card.max_length,
        )
        runs = dict(trials(base, sweep=sweep)) or {"": base}
        if "" not in runs and (out / CHECKPOINTS_FOLDER).exists():
            raise InputError(f"{out}: is a run; several of them need a folder of their own")
        outcomes = []
        for number, (name, one) in enumerate(runs.items(), start=1):
            if len(runs) > 1 and distributed.is_main:
                progress.print_message(f"run {number} of {len(runs)}: {name}")
            outcomes.append(finetune_run(out / name, name, one, data, distributed))
        if not distributed.is_main:
            return data.task.name, []
        _write_results(out, data.task.name, outcomes)
        return data.task.name, outcomes


def _check_output_folder(out: Path) -> None:
    """Refuse a folder of something else, before any work is done."""
    if out.exists() and (
        not out.is_dir()
        or (
            any(out.iterdir())
            and not (out / CHECKPOINTS_FOLDER).is_dir()
            and not any(out.glob(f"*/{CHECKPOINTS_FOLDER}/"))
        )
    ):
        raise InputError(f"{out}: exists already and is no run; name another folder or remove it")


def _write_results(out: Path, task: str, outcomes: Sequence[FinetuneResult]) -> None:
    """Make the folder the best of its runs, and write what came out."""
    best = max(outcomes, key=lambda one: primary_metric(task, one.metrics))
    if best.run_name:
        publish_model(out, out / best.run_name)
    found = {
        "task": task,
        "median": median_metrics(outcomes),
        "best": best.run_name,
        "runs": [asdict(one) for one in outcomes],
    }
    with atomic_file(out / RESULTS_FILE) as file:
        file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def median_metrics(results: Sequence[FinetuneResult]) -> dict[str, float]:
    """Return the median of every score."""
    return {name: median(one.metrics[name] for one in results) for name in results[0].metrics}

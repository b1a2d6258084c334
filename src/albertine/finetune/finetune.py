"""Fine-tuning: one run, several with different seeds, or a sweep; the folder is the best model.

OUT/                       the best model on dev
OUT/results.json           results of all runs
OUT/seed-0/, OUT/lr-.../   the runs, if there are several
"""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median

from albertine import progress
from albertine.atomic import atomic_file
from albertine.errors import InputError
from albertine.finetune.paper_defaults import with_task_defaults
from albertine.finetune.prepare import prepare_task
from albertine.finetune.run import FinetuneResult, finetune_run
from albertine.finetune.settings import FinetuneSettings
from albertine.finetune.trials import trials
from albertine.tasks.registry import primary_metric
from albertine.train.checkpoints import CHECKPOINTS_FOLDER
from albertine.train.distributed import init_distributed
from albertine.train.run_folder import publish_model
from albertine.train.trackers import check_tracker_installed

RESULTS_FILE = "results.json"


@dataclass(frozen=True)
class FinetuneResults:
    """The results of all runs; empty in all processes but the main one.

    Attributes:
        task: name of the task.
        runs: one result for each run.
    """

    task: str
    runs: tuple[FinetuneResult, ...]

    @property
    def best(self) -> FinetuneResult:
        """The run with the highest primary metric on dev."""
        return max(self.runs, key=lambda one: primary_metric(self.task, one.metrics))

    @property
    def median_metrics(self) -> dict[str, float]:
        """The median of each metric over the runs."""
        return {name: median(one.metrics[name] for one in self.runs) for name in self.runs[0].metrics}

    def write(self, out: Path) -> None:
        """Write the results into the folder of the runs."""
        found = {
            "task": self.task,
            "median": self.median_metrics,
            "best_run": self.best.run_name,
            "runs": [asdict(one) for one in self.runs],
        }
        with atomic_file(out / RESULTS_FILE) as file:
            file.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def finetune(
    model: str | Path | None, out: str | Path, settings: FinetuneSettings, *, sweep: bool = False
) -> FinetuneResults:
    """Fine-tune a model on a task, or resume where an interrupted call stopped.

    Args:
        model: a run, the folder of a checkpoint, or a hub name; None if `settings.init_from` names it.
        out: folder of the runs, which is the best model on dev when the function returns.
        settings: task, data and hyperparameters; what is not set is the paper's for the task.
        sweep: try all combinations of `settings.grid`; needs `SweepSettings`.
    """
    out = Path(out)
    check_tracker_installed(settings.train.tracker)
    _check_output_folder(out)
    with init_distributed(settings.device) as distributed:
        source = None if model is None else str(model)
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
            raise InputError(f"{out}: is a single run; name another --out for several runs")
        results = []
        for number, (name, one) in enumerate(runs.items(), start=1):
            if len(runs) > 1 and distributed.is_main:
                progress.print_message(f"run {number} of {len(runs)}: {name}")
            results.append(finetune_run(out / name, name, one, data, distributed))
        if not distributed.is_main:
            return FinetuneResults(data.task.name, ())
        found = FinetuneResults(data.task.name, tuple(results))
        if found.best.run_name:
            publish_model(out, out / found.best.run_name)
        found.write(out)
        return found


def _check_output_folder(out: Path) -> None:
    """Raise `InputError` for a folder of something else, before any work is done."""
    if out.exists() and (
        not out.is_dir()
        or (
            any(out.iterdir())
            and not (out / CHECKPOINTS_FOLDER).is_dir()
            and not any(out.glob(f"*/{CHECKPOINTS_FOLDER}/"))
        )
    ):
        raise InputError(f"{out}: exists already and is no run; name another folder or remove it")

"""Runs side by side: what their settings differ in, their scores, and whether the scores are comparable."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from albertine.display import display_text
from albertine.errors import InputError
from albertine.finetune.model_selection import score_to_minimize
from albertine.finetune.results import RESULTS_FILE, StoredFinetuneResults, read_finetune_results, runs_like
from albertine.finetune.run import FinetuneResult
from albertine.interop.hub import ENSEMBLE_FILE, refuse_ensemble
from albertine.paired_statistics import PairedDifference, paired_difference
from albertine.pretrain.settings import PretrainSettings
from albertine.report.evaluated_samples import num_evaluated_samples
from albertine.settings.sources import build_settings
from albertine.storage.cache import local_folder
from albertine.storage.objects import display_path
from albertine.tasks.metrics.display import shown_metrics
from albertine.tasks.registry import find_task
from albertine.tasks.task import Task
from albertine.train.metrics_log import METRICS_FILE, MetricsLine, held_out_scores, read_metrics
from albertine.train.run_folder import SETTINGS_FILE, not_a_run_error, read_run_settings

PRETRAINING_SCORES = ("mlm_loss", "mlm_accuracy", "pair_loss", "pair_accuracy")
# Runs that differ in one of these are evaluated on different samples or examples.
_SETTINGS_OF_MEASUREMENT = {
    "corpus", "curriculum.length", "curriculum.mlm_probability", "model.vocab_size", "dev",
}  # fmt: skip
_TABLES_OF_MEASUREMENT = ("objective.",)
_SETTINGS_OF_TRAIN_ONLY = {"objective.text_fraction", "objective.distinct_epochs"}
_SETTINGS_WITHOUT_DEV = {"data", "held_out"}  # these select the examples if --dev is not given
_SETTINGS_OF_SEEDS = {"seeds", "train.seed"}


@dataclass(frozen=True)
class ComparedRun:
    """A run, or the runs of one call with several seeds.

    Attributes:
        name: the folder as the user named it, or the URL.
        task: name of the task; None for pre-training.
        metric: metric that selected the best model; None for that of the task.
        curve_folder: folder of the run, or of the best of several, whose curves are drawn.
        settings: settings by dotted key.
        seeds: the seed of each run.
        held_out_seed: the seed that selected the held-out examples, if there are any.
        scores: values of each score, one for each seed.
        task_scores: the score by which models for the task are compared, for each seed; empty for
            pre-training.
        steps: number of steps.
        tokens: number of training tokens of the run in `curve_folder`.
        seconds: training time of the run in `curve_folder`.
        evaluated_samples: number of held-out samples of pre-training; None for a task.
    """

    name: str
    task: str | None
    metric: str | None
    curve_folder: Path
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    held_out_seed: int
    scores: Mapping[str, tuple[float, ...]]
    task_scores: tuple[float, ...]
    steps: int
    tokens: int
    seconds: float
    evaluated_samples: int | None

    @property
    def holds_out_examples(self) -> bool:
        """Whether the examples for evaluation are a part of the data, selected by a seed."""
        data = self.settings.get("data")
        if self.task is None or data is None or self.settings.get("dev") is not None:
            return False
        return not find_task(self.task).has_dev_split(str(data))


@dataclass(frozen=True)
class RunComparison:
    """Runs of one kind, the first of which the others are compared with."""

    runs: tuple[ComparedRun, ...]

    @property
    def folder(self) -> str:
        """The folder that all names of runs begin with; empty if there is none."""
        return "/".join(self._common_parts)

    @property
    def short_names(self) -> list[str]:
        """The names of the runs, without that folder."""
        return ["/".join(run.name.split("/")[len(self._common_parts) :]) for run in self.runs]

    @property
    def _common_parts(self) -> list[str]:
        parents = [run.name.split("/")[:-1] for run in self.runs]
        levels = takewhile(lambda parts: len(set(parts)) == 1, zip(*parents, strict=False))
        common = [parts[0] for parts in levels]
        is_folder = any(part and not part.endswith(":") for part in common)  # not only / or s3://
        return common if is_folder else []

    @property
    def differing_settings(self) -> dict[str, tuple[Any, ...]]:
        """The values of each setting that is not the same in all runs; None where a run lacks it.

        The seeds are among them if each run has one.
        """
        keys = dict.fromkeys(key for run in self.runs for key in run.settings)
        values = {key: tuple(run.settings.get(key) for run in self.runs) for key in keys}
        if all(len(run.seeds) == 1 for run in self.runs):
            values["train.seed"] = tuple(run.seeds[0] for run in self.runs)
        return {key: row for key, row in values.items() if any(value != row[0] for value in row)}

    @property
    def score_names(self) -> list[str]:
        """Names of the scores that all runs have."""
        return [name for name in self.runs[0].scores if all(name in run.scores for run in self.runs)]

    @property
    def metric(self) -> str | None:
        """Metric that selects the best model in all runs; None for that of the task, or if they differ."""
        metrics = {run.metric for run in self.runs}
        return metrics.pop() if len(metrics) == 1 else None

    @property
    def _measured_otherwise(self) -> list[str]:
        """What differs between the runs so that their scores are of other samples."""
        keys = set(_SETTINGS_OF_MEASUREMENT)
        keys |= {key for key in self.differing_settings if key.startswith(_TABLES_OF_MEASUREMENT)}
        keys -= _SETTINGS_OF_TRAIN_ONLY
        if any(run.settings.get("dev") is None for run in self.runs):
            keys |= _SETTINGS_WITHOUT_DEV
        found = [key for key in self.differing_settings if key in keys]
        counts = [run.evaluated_samples for run in self.runs]
        if not found and len(set(counts)) > 1:
            found.append(
                f"the number of samples ({', '.join(map(str, counts))}; see --train.evaluate-tokens)"
            )
        if len({run.held_out_seed for run in self.runs if run.holds_out_examples}) > 1:
            found.append("the seed, which selects the held-out examples")
        return found

    def difference(self, run: ComparedRun) -> PairedDifference | None:
        """Return how much a run's task score is above that of the first run, over the same seeds.

        None for the first run, for pre-training, if the runs have fewer than two seeds in common, and if they
        are measured on other data or selected by other metrics.
        """
        first = self.runs[0]
        common = [seed for seed in run.seeds if seed in first.seeds]
        if run is first or not run.task_scores or len(common) < 2 or self._measured_otherwise:
            return None
        if run.metric != first.metric:
            return None
        by_seed, first_by_seed = (
            dict(zip(compared.seeds, compared.task_scores, strict=True)) for compared in (run, first)
        )
        return paired_difference([by_seed[seed] for seed in common], [first_by_seed[seed] for seed in common])

    @property
    def warnings(self) -> list[str]:
        """What a reader of the scores has to know."""
        warnings = []
        if self._measured_otherwise:
            warnings.append(
                f"the scores are not of the same samples, because the runs differ in "
                f"{', '.join(self._measured_otherwise)}; measure all models on the same data, with "
                + ("albertine probe" if self.runs[0].task is None else "albertine evaluate")
            )
        if len({run.metric for run in self.runs}) > 1:
            names = dict.fromkeys(run.metric or "that of the task" for run in self.runs)
            warnings.append(
                f"the runs selected their best models by different metrics ({', '.join(names)}), so their "
                "scores are not compared; fine-tune with the same --metric"
            )
        if all(len(run.seeds) == 1 for run in self.runs):
            warnings.append("one seed for each: a small difference can be chance")
        return warnings

    def to_json(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {
            "task": self.runs[0].task,
            "differing_settings": {key: list(row) for key, row in self.differing_settings.items()},
            "runs": [
                {
                    "run": run.name,
                    "seeds": list(run.seeds),
                    "steps": run.steps,
                    "tokens": run.tokens,
                    "seconds": run.seconds,
                    "scores": {name: list(run.scores[name]) for name in run.scores},
                    "difference_from_first": difference.to_json()
                    if (difference := self.difference(run))
                    else None,
                }
                for run in self.runs
            ],
            "warnings": self.warnings,
        }


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
    settings = {key: _value_at(source.values, key) for key in sorted(source.keys - _SETTINGS_OF_SEEDS)}
    lines = _read_lines(curve_folder)
    steps = [line for line in lines if "tokens" in line]
    if not steps:
        raise InputError(f"{name}: no training step yet; compare the runs later")
    task = _task_name(str(settings["task"]), curve_folder) if "task" in settings else None
    metric = None if task is None else _selecting_metric(find_task(task), settings.get("metric"))
    selected_task = None if task is None else find_task(task).compared_by(metric)
    if results:
        runs = _one_per_seed(results)
        seeds, metrics = [run.seed for run in runs], [run.metrics for run in runs]
        held_out_seed = min(run.seed for run in results.runs)
    else:
        seeds = [_value_at(source.values, "train.seed") or 0]
        held_out_seed = seeds[0]
        metrics = [_last_scores(lines) if selected_task is None else _best_scores(lines, selected_task)]
    shown = [name for name in shown_metrics(metrics[0]) if all(name in row for row in metrics)]
    return ComparedRun(
        name=name,
        task=task,
        metric=metric,
        curve_folder=curve_folder,
        settings=settings,
        seeds=tuple(seeds),
        held_out_seed=held_out_seed,
        scores={key: tuple(row[key] for row in metrics) for key in shown},
        task_scores=()
        if selected_task is None
        else tuple(_task_score(name, selected_task, row) for row in metrics),
        steps=steps[-1]["step"],
        tokens=int(steps[-1]["tokens"]),
        seconds=steps[-1].get("seconds") or 0.0,
        evaluated_samples=None
        if task
        else num_evaluated_samples(build_settings(PretrainSettings, read_run_settings(curve_folder))),
    )


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

"""The results of fine-tuning: `results.json` in the output folder."""

import json
import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from albertine.atomic import atomic_file
from albertine.errors import InputError
from albertine.finetune.baseline import BaselineResult
from albertine.finetune.model_selection import LOSS, score_to_minimize
from albertine.finetune.run import FinetuneResult
from albertine.input_files import read_json_object
from albertine.json_input import JsonError, dataclass_from_json
from albertine.tasks.registry import find_task

RESULTS_FILE = "results.json"


def common_metrics(runs: Sequence[FinetuneResult]) -> list[str]:
    """Return the names of the metrics that all runs have; another version may have written some of them."""
    return [name for name in runs[0].metrics if all(name in run.metrics for run in runs)]


@dataclass(frozen=True)
class FinetuneResults:
    """The results of all runs; only the main process gets them, in the others `runs` is empty.

    Attributes:
        task: name of the task.
        runs: one result for each run.
        baseline: scores of a bag of words; None if the task type has no such baseline.
        baseline_advice: what would improve the best model, if the bag of words scores higher; else None.
        metric: metric by which models are compared; None for that of the task.
        dev_sha256: checksum of the examples for evaluation, by which runs that are compared show that they
            have the same; None if it is not known.
    """

    task: str
    runs: tuple[FinetuneResult, ...]
    baseline: BaselineResult | None = None
    baseline_advice: str | None = None
    metric: str | None = None
    dev_sha256: str | None = None

    @property
    def best(self) -> FinetuneResult:
        """The run with the best model on dev; see `model_selection`."""

        def score(run: FinetuneResult) -> float:
            loss = math.inf if run.loss is None else run.loss
            task = find_task(self.task).compared_by(self.metric)
            return score_to_minimize(task, {**run.metrics, LOSS: loss}, run.best_step)

        return min(self.runs, key=score)

    @property
    def runs_like_best(self) -> tuple[FinetuneResult, ...]:
        """The runs with the hyperparameters of the best: all runs, or in a sweep those of its best point."""
        return tuple(runs_like(self.best, self.runs))

    @property
    def num_settings(self) -> int:
        """Number of different hyperparameters; more than one in a sweep."""
        return len(set(map(_hyperparameters, self.runs)))

    @property
    def median_metrics(self) -> dict[str, float]:
        """The median of each metric over the runs with the hyperparameters of the best."""
        runs = self.runs_like_best
        return {name: median(run.metrics[name] for run in runs) for name in common_metrics(runs)}

    @property
    def problem(self) -> str | None:
        """Why even the best run learned nothing, and what to do; None if it learned something."""
        return self.best.problem if self.runs else None

    def to_json(self) -> dict[str, Any]:
        """Return the results as JSON values."""
        return {
            "task": self.task,
            "metric": self.metric,
            "median": self.median_metrics,
            "best_run": self.best.run_name,
            "runs": [asdict(run) for run in self.runs],
            "baseline": asdict(self.baseline) if self.baseline else None,
            "baseline_advice": self.baseline_advice,
            "dev_sha256": self.dev_sha256,
        }

    def write(self, out: Path) -> None:
        """Write `results.json` into the output folder."""
        with atomic_file(out / RESULTS_FILE) as file:
            file.write_text(json.dumps(self.to_json(), indent=2) + "\n", encoding="utf-8")


def runs_like(best: FinetuneResult, runs: Iterable[FinetuneResult]) -> list[FinetuneResult]:
    """Return the runs that differ from one of them in their seed at most."""
    return [run for run in runs if _hyperparameters(run) == _hyperparameters(best)]


def _hyperparameters(run: FinetuneResult) -> tuple[str, int, float, int]:
    """Return what a sweep varies; each restart of a run has halved its learning rate."""
    return f"{run.lr * 2**run.restarts:.6g}", run.batch_size, run.dropout, run.steps


@dataclass(frozen=True)
class StoredFinetuneResults:
    """The content of `results.json`; see `FinetuneResults.write`."""

    task: str
    median: dict[str, float]
    best_run: str
    runs: list[FinetuneResult]
    baseline: BaselineResult | None = None
    baseline_advice: str | None = None
    metric: str | None = None
    dev_sha256: str | None = None  # earlier versions wrote none


def read_finetune_results(folder: Path) -> StoredFinetuneResults | None:
    """Return the results in a folder; None for one of several runs, and for an unfinished run."""
    file = folder / RESULTS_FILE
    if not file.exists():
        return None
    advice = "run the same albertine finetune command again to write it"
    try:
        results = dataclass_from_json(StoredFinetuneResults, read_json_object(file, advice))
    except JsonError as error:
        raise InputError(f"{file}: {error}; {advice}") from None
    if not results.runs:
        raise InputError(f"{file}: no runs; {advice}")
    return results


def stored_baseline(folder: Path, metric_names: Collection[str]) -> BaselineResult | None:
    """Return the scores of the bag of words that an earlier call wrote; None if there are none.

    A damaged file is not an error, because the scores can be computed again.
    """
    try:
        values = read_json_object(folder / RESULTS_FILE, "").get("baseline")
        baseline = dataclass_from_json(BaselineResult, values)
    except (InputError, JsonError, OSError):
        return None
    return baseline if set(baseline.metrics) == set(metric_names) else None

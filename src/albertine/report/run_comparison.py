"""Runs side by side: what their settings differ in, their scores, and whether the scores are comparable."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

from albertine.paired_statistics import PairedDifference, paired_difference
from albertine.storage.urls import storage_url
from albertine.tasks.metrics.display import shown_metrics
from albertine.tasks.registry import find_task

# Runs that differ in one of these are evaluated on different samples or examples.
_EVALUATION_SETTINGS = {
    "corpus", "curriculum.length", "curriculum.mlm_probability", "model.vocab_size", "dev",
    "label", "label_separator", "answers",
}  # fmt: skip
_EVALUATION_TABLES = ("objective.",)
_TRAINING_ONLY_SETTINGS = {
    "objective.text_fraction",
    "objective.distinct_epochs",
    "objective.causal_fraction",
}
_SETTINGS_WITHOUT_DEV = {"data", "held_out"}  # these select the examples if --dev is not given

_PATH_SETTINGS = {"corpus", "data", "dev", "init_from"}


def _comparable(key: str, value: Any) -> Any:
    """Return the value of a setting; if it is a path, in one spelling, such as data.csv for ./data.csv."""
    is_path = key in _PATH_SETTINGS and isinstance(value, str | Path) and storage_url(value) is None
    return os.path.normpath(value) if is_path else value


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
        dev_sha256: checksum of the examples for evaluation of a task; None if it is not known.
        scores: values of each score that all seeds have, one for each seed.
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
    dev_sha256: str | None
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

    @cached_property
    def differing_settings(self) -> dict[str, tuple[Any, ...]]:
        """The values of each setting that is not the same in all runs; None where a run lacks it.

        The seeds are among them if each run has one.
        """
        keys = dict.fromkeys(key for run in self.runs for key in run.settings)
        values = {key: tuple(_comparable(key, run.settings.get(key)) for run in self.runs) for key in keys}
        if all(len(run.seeds) == 1 for run in self.runs):
            values["train.seed"] = tuple(run.seeds[0] for run in self.runs)
        return {key: row for key, row in values.items() if any(value != row[0] for value in row)}

    @property
    def score_names(self) -> list[str]:
        """Names of the scores to show, of those that all runs have."""
        return shown_metrics(
            name for name in self.runs[0].scores if all(name in run.scores for run in self.runs)
        )

    @property
    def metric(self) -> str | None:
        """Metric that selects the best model in all runs; None for that of the task, or if they differ."""
        metrics = {run.metric for run in self.runs}
        return metrics.pop() if len(metrics) == 1 else None

    @cached_property
    def _evaluation_differences(self) -> list[str]:
        """What differs between the runs so that their scores are of other samples."""
        checksums = {run.dev_sha256 for run in self.runs}
        if None in checksums:
            return self._evaluation_settings_differences()
        if len(checksums) == 1:  # paths may differ, as glue and glue/CoLA
            return []
        return self._evaluation_settings_differences() or ["the content of the evaluation data"]

    def _evaluation_settings_differences(self) -> list[str]:
        """Return what differs by the settings, as if equal paths had equal content."""
        keys = set(_EVALUATION_SETTINGS)
        keys |= {key for key in self.differing_settings if key.startswith(_EVALUATION_TABLES)}
        keys -= _TRAINING_ONLY_SETTINGS
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
        if run is first or not run.task_scores or len(common) < 2 or self._evaluation_differences:
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
        if self._evaluation_differences:
            warnings.append(
                f"the scores are not of the same samples, because the runs differ in "
                f"{', '.join(self._evaluation_differences)}; measure all models on the same data, with "
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

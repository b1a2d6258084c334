"""Steps with which all arms of a claim train for the same time.

A few steps of each arm are timed first, side by side if the runs are. The times are stored, so that a
study that is run again has the same runs:

STORE/timings/HASH.json    seconds of a step
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from albertine.checksums import json_checksum
from albertine.device import choose_device, precision_name
from albertine.errors import InputError
from albertine.executors.executor import Executor
from albertine.pretrain.run import pretrain
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import SettingsSource, build_settings
from albertine.stored_results import StoredResults
from albertine.study.claim import merged
from albertine.study.data import StudyData
from albertine.study.execution import execute
from albertine.study.run_measurements import flops_per_token
from albertine.train.metrics_log import read_metrics

TIMINGS_FOLDER = "timings"
_TIMED_STEPS, _FIRST_STEPS = 12, 3  # the first steps also prepare kernels


@dataclass(frozen=True)
class MeasuredStep:
    """The time of a step, in seconds."""

    seconds: float


@dataclass(frozen=True)
class StepTiming:
    """Measures the time of a step of an arm.

    Attributes:
        data: text and corpus.
        values: settings of `albertine pretrain` that the arm sets, as nested tables.
    """

    data: StudyData
    values: dict[str, Any]

    @property
    def is_measured(self) -> bool:
        """Whether the time is stored."""
        return self._name in self._results

    def seconds(self) -> float:
        """Return the seconds of a step; measure them unless they are stored."""
        seconds = self._results.get_as(MeasuredStep, self._name, self._measure).seconds
        if seconds <= 0:
            file = self.folder.with_suffix(".json")
            raise InputError(f"{file}: seconds = {seconds}; remove it and run the same command again")
        return seconds

    @property
    def folder(self) -> Path:
        """Path of the result without its suffix."""
        return self.data.store / TIMINGS_FOLDER / self._name

    @property
    def settings(self) -> PretrainSettings:
        """Settings of the arm."""
        return build_settings(PretrainSettings, SettingsSource(self.values, "timing"))

    @property
    def _results(self) -> StoredResults:
        return StoredResults(self.data.store / TIMINGS_FOLDER)

    @property
    def _name(self) -> str:
        return json_checksum([self.values, self._precision, self.data.corpus_checksum])[:16]

    @property
    def _precision(self) -> str:
        return precision_name(self.settings.train.precision, choose_device(self.settings.device))

    def _measure(self) -> MeasuredStep:
        own = {
            "corpus": str(self.data.corpus),
            # With a rate of 0 no weight changes, so that no arm diverges.
            "train": {
                "steps": _TIMED_STEPS,
                "warmup": 0,
                "lr": 0.0,
                "evaluate_every": _TIMED_STEPS,
                "precision": self._precision,
            },
        }
        settings = build_settings(PretrainSettings, SettingsSource(merged(self.values, own), "timing"))
        with TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            pretrain(run, settings)
            rates = [line["tokens_per_second"] for line in read_metrics(run) if "tokens_per_second" in line]
        return MeasuredStep(settings.train.batch_tokens / median(rates[_FIRST_STEPS:]))


def measure_times(timings: Iterable[StepTiming], executor: Executor | None = None) -> None:
    """Measure the times that are not stored, where the runs will be; see `execute`."""
    remaining = [timing for timing in timings if not timing.is_measured]
    jobs = {timing.folder: timing.seconds for timing in remaining}
    if jobs:
        widest = max(timing.settings.model.hidden_size for timing in remaining)
        execute("Timing steps", jobs, _TIMED_STEPS * len(jobs), widest, executor, are_timed=True)


def equal_time_steps(timings: Mapping[str, StepTiming], reference: str) -> dict[str, int]:
    """Return for each arm the steps that take the time of the reference with its own steps.

    Before the times are measured, FLOPs stand for them.
    """
    steps = timings[reference].settings.train.steps
    are_measured = all(timing.is_measured for timing in timings.values())
    costs = {
        arm: timing.seconds() if are_measured else _step_flops(timing.settings)
        for arm, timing in timings.items()
    }
    return {arm: max(1, round(steps * costs[reference] / cost)) for arm, cost in costs.items()}


def _step_flops(settings: PretrainSettings) -> float:
    return flops_per_token(settings) * settings.train.batch_tokens

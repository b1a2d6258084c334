"""Steps with which all arms of a claim train for the same time.

A few steps of each arm are timed first, side by side if the runs are. The times are stored, so that a
study that is run again, also on another machine, has the same runs:

STORE/timings/MACHINE/HASH.json    seconds of a step on a kind of machine
STORE/timings/HASH.json            the same from earlier versions, which did not store the machine
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from albertine import progress
from albertine.checksums import json_checksum
from albertine.device import choose_device, machine_name, precision_name
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
    """The time of a step.

    Attributes:
        seconds: the time.
        machine: where it was measured, see `machine_name`; None if an earlier version measured it.
        measured_at: when it was measured, in seconds since 1970; 0 if an earlier version measured it.
    """

    seconds: float
    machine: str | None = None
    measured_at: float = 0.0


@dataclass(frozen=True)
class StepTiming:
    """The times of a step of an arm, on each kind of machine on which it was measured.

    Attributes:
        data: text and corpus.
        values: settings of `albertine pretrain` that the arm sets, as nested tables.
        precision: "fp32" or "bf16", the same on all nodes of a cluster.
    """

    data: StudyData
    values: dict[str, Any]
    precision: str

    @classmethod
    def of(cls, data: StudyData, values: dict[str, Any]) -> "StepTiming":
        """Return the times of an arm in the precision of its runs, which is that of this machine."""
        settings = build_settings(PretrainSettings, SettingsSource(values, "timing"))
        return cls(data, values, precision_name(settings.train.precision, choose_device(settings.device)))

    @property
    def folder(self) -> Path:
        """Path that stands for the arm while it is measured."""
        return self.data.store / TIMINGS_FOLDER / self._name

    @property
    def settings(self) -> PretrainSettings:
        """Settings of the arm."""
        return build_settings(PretrainSettings, SettingsSource(self.values, "timing"))

    @property
    def _name(self) -> str:
        return json_checksum([self.values, self.precision, self.data.corpus_checksum])[:16]

    def is_measured(self, kind: str) -> bool:
        """Return whether the time on a kind of machine is stored; see `machine_kinds`."""
        return self._name in self._results(kind)

    def measured(self, kind: str) -> MeasuredStep:
        """Return the stored time on a kind of machine."""
        step = self._results(kind).read_as(MeasuredStep, self._name)
        assert step is not None
        if step.seconds <= 0:
            file = self.data.store / TIMINGS_FOLDER / kind / f"{self._name}.json"
            raise InputError(f"{file}: seconds = {step.seconds}; remove it and run the same command again")
        return step

    def measure(self) -> None:
        """Measure the time on this machine, unless that of its kind is stored."""
        machine = machine_name(choose_device(self.settings.device))
        results = self._results(_kind(machine))
        results.get_as(MeasuredStep, self._name, lambda: MeasuredStep(self._measure(), machine, time.time()))

    def _results(self, kind: str) -> StoredResults:
        return StoredResults(self.data.store / TIMINGS_FOLDER / kind)

    def _measure(self) -> float:
        own = {
            "corpus": str(self.data.corpus),
            # With a rate of 0 no weight changes, so that no arm diverges.
            "train": {
                "steps": _TIMED_STEPS,
                "warmup": 0,
                "lr": 0.0,
                "evaluate_every": _TIMED_STEPS,
                "precision": self.precision,
            },
        }
        settings = build_settings(PretrainSettings, SettingsSource(merged(self.values, own), "timing"))
        with TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            pretrain(run, settings)
            rates = [line["tokens_per_second"] for line in read_metrics(run) if "tokens_per_second" in line]
        return float(settings.train.batch_tokens / median(rates[_FIRST_STEPS:]))


def _kind(machine: str) -> str:
    """Return the name of the folder for a machine of `machine_name`."""
    return re.sub(r"[^a-z0-9]+", "-", machine.lower()).strip("-")


def machine_kinds(store: Path) -> list[str]:
    """Return the kinds of machines that have timed steps; "" for times of earlier versions."""
    folder = store / TIMINGS_FOLDER
    return ["", *sorted(path.name for path in folder.iterdir() if path.is_dir())] if folder.is_dir() else []


def _common_kind(timings: Mapping[str, StepTiming]) -> str | None:
    """Return the kind of machine on which the steps of all arms were timed; None if there is none.

    It need not be that of this machine: a study that moves keeps its runs. Of several kinds it is the one
    that was complete first, because there may be runs by its times.
    """
    stores = {timing.data.store for timing in timings.values()}
    kinds = [kind for store in stores for kind in machine_kinds(store)]
    complete = [kind for kind in kinds if all(one.is_measured(kind) for one in timings.values())]
    return min(
        complete,
        key=lambda kind: max(one.measured(kind).measured_at for one in timings.values()),
        default=None,
    )


def timed_on(timings: Mapping[str, StepTiming]) -> str | None:
    """Return the machine on which the steps of all arms were timed; None if it is unknown."""
    kind = _common_kind(timings)
    return None if kind is None else next(iter(timings.values())).measured(kind).machine


def measure_times(timings: Mapping[str, StepTiming], executor: Executor | None = None) -> None:
    """Measure the times of all arms on one kind of machine, where the runs will be; see `execute`.

    If all are stored for some kind, none is measured.
    """
    if not timings or _common_kind(timings) is not None:
        return
    store = next(iter(timings.values())).data.store
    if any(timing.is_measured(kind) for timing in timings.values() for kind in machine_kinds(store)):
        progress.print_message(
            "the steps of all arms are timed on one kind of machine; finished runs of an arm whose number of "
            "steps changes by that are trained again"
        )
    jobs = {timing.folder: timing.measure for timing in timings.values()}
    # Also that of arms whose time is stored: it decides on the number of threads.
    widest = max(timing.settings.model.hidden_size for timing in timings.values())
    execute("Timing steps", jobs, _TIMED_STEPS * len(jobs), widest, executor, are_timed=True)
    if _common_kind(timings) is None:
        raise InputError(_why_incomplete(timings))


def _why_incomplete(timings: Mapping[str, StepTiming]) -> str:
    """Return why the times that were just measured are not of one kind of machine."""
    store = next(iter(timings.values())).data.store
    kinds = {
        arm: [kind for kind in machine_kinds(store) if kind and timing.is_measured(kind)]
        for arm, timing in timings.items()
    }
    if missing := next((arm for arm, found in kinds.items() if not found), None):
        return (
            f"{store / TIMINGS_FOLDER}: no time of a step of {missing} after measuring; with --cluster, all "
            "nodes need the same folder --out"
        )
    where = "; ".join(f"{arm} on {', '.join(found)}" for arm, found in kinds.items())
    return (
        f"equal_time: the steps were timed on different kinds of machines ({where}); run the command "
        "without --cluster first, or on nodes of one kind"
    )


def equal_time_steps(timings: Mapping[str, StepTiming], reference: str) -> dict[str, int]:
    """Return for each arm the steps that take the time of the reference with its own steps.

    Before the times are measured, FLOPs stand for them.
    """
    steps = timings[reference].settings.train.steps
    kind = _common_kind(timings)
    costs = {
        arm: _step_flops(timing.settings) if kind is None else timing.measured(kind).seconds
        for arm, timing in timings.items()
    }
    return {arm: max(1, round(steps * costs[reference] / cost)) for arm, cost in costs.items()}


def _step_flops(settings: PretrainSettings) -> float:
    return flops_per_token(settings) * settings.train.batch_tokens

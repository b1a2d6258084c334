"""The numbers of an arm of a claim, over its seeds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from albertine.paired_statistics import half_width
from albertine.study.measures import find_measure
from albertine.study.study_run import StudyRun


@dataclass(frozen=True)
class ArmReport:
    """The numbers of an arm.

    Attributes:
        name: name of the arm.
        runs: its runs, one for each seed.
        values: numbers of each run by measure, in the unit of pages; None where the run failed.
        failures: seeds whose training or fine-tuning failed, with the reason.
        machines: the machines that have trained each run; see `StudyRun.machines`.
    """

    name: str
    runs: tuple[StudyRun, ...]
    values: Mapping[str, Sequence[float | None]]
    failures: Mapping[int, str]
    machines: Sequence[tuple[str, ...]] = ()

    @property
    def steps(self) -> int | None:
        """Steps of the pre-training of each run; with equal time, those that fit into it."""
        return self.runs[0].settings.train.steps if self.runs else None

    def cell(self, measure: str) -> str:
        """Return mean and half the 95% interval of a measure, as text."""
        values = [value for value in self.values[measure] if value is not None]
        if not values:
            return "failed" if self.failures else "\N{EN DASH}"
        text = find_measure(measure).text
        if len(values) < 2 or stdev(values) == 0:
            return text(fmean(values))
        half = half_width(stdev(values), len(values))
        return f"{text(fmean(values))} \N{PLUS-MINUS SIGN}{text(half)}"

    def mean(self, measure: str) -> float | None:
        """Return the mean of a measure over the seeds, in the unit of pages; None if no run gave it."""
        values = [value for value in self.values[measure] if value is not None]
        return fmean(values) if values else None

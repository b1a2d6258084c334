"""A part of a study run, such as the training or a task, with a stored result of its own."""

from collections.abc import Callable
from dataclasses import dataclass

from albertine.stored_results import StoredResults
from albertine.study.measures import MEASURES, MeasureSource
from albertine.study.run_measurements import PartResult

_SOURCES_WITH_GAPS = ("probe", "layers")  # sources whose measures may be missing
_LARGEST_NUMBER = 1e100  # larger ones come from a damaged file, and their percentages could be infinite


@dataclass(frozen=True)
class RunPart:
    """A part of a run.

    Attributes:
        name: name of its result, with all settings of the evaluation.
        measures: the measures that it gives.
        compute: computes them.
    """

    name: str
    measures: tuple[str, ...]
    compute: Callable[[], PartResult]

    def result(self, results: StoredResults) -> PartResult | None:
        """Return its stored result; None if there is none, or if a number is missing or damaged."""
        result = results.read_as(PartResult, self.name)
        if result is None or result.failure is not None:
            return result
        return result if self._has_measures(result) and _has_possible_numbers(result) else None

    def _has_measures(self, result: PartResult) -> bool:
        return all(
            name in result.values
            and (result.values[name] is not None or MEASURES[name].source in _SOURCES_WITH_GAPS)
            for name in self.measures
        )


def measures_from(*sources: MeasureSource) -> tuple[str, ...]:
    """Return the measures that the sources give."""
    return tuple(name for name, measure in MEASURES.items() if measure.source in sources)


def _has_possible_numbers(result: PartResult) -> bool:
    return all(abs(value or 0.0) <= _LARGEST_NUMBER for value in result.values.values())

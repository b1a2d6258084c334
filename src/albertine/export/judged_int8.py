"""Quantizes an export to int8, judges it, and keeps activations in floating point where that helps.

If the score falls by more than half a point, activations are ranked by the error that their rounding causes
in the outputs. The worst ones then stay in floating point: first one, then two, then four, until the score
is high enough. Weights are always in int8.
"""

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from torch import Tensor

from albertine import progress
from albertine.export.accuracy import Int8Scores, Judge
from albertine.export.result import check_loss, write_record
from albertine.export.settings import ExportSettings
from albertine.model.strip import Strip

if TYPE_CHECKING:  # needs optional libraries
    from albertine.export.quantizers import Quantizer

TOLERATED_LOSS = 0.5  # points of a score
_MEASURED_TOKENS = 2048  # of the input that shows the errors

# Computes the outputs of the export in a folder, by name.
OutputsOf = Callable[[Path, Sequence[Strip]], Sequence[Mapping[str, Tensor]]]


def quantize_judged(
    folder: Path,
    files: list[str],
    settings: ExportSettings,
    judge: Judge | None,
    outputs_of: OutputsOf,
    *,
    name: str,
    force: bool,
) -> Int8Scores | None:
    """Quantize an export, and return the scores before and after; None without data that judge it.

    Args:
        folder: folder of the export, in fp32.
        files: names of its files.
        settings: its format.
        judge: computes scores, and has input for the calibration; None if there are no data.
        outputs_of: computes outputs of the export, in fp32 but for what is in int8.
        name: name of the export, for messages.
        force: keep a model that loses more than one point.
    """
    strips = [] if judge is None else judge.calibration_strips()
    if judge is None or not judge.has_labels:
        _quantize(folder, files, settings, strips)
        return None
    measured = _evenly_chosen(strips)
    expected = outputs_of(folder, measured)
    _quantize(folder, files, settings, strips)
    scores = Int8Scores(judge.before(), judge.after(folder))
    if scores.loss > TOLERATED_LOSS:
        progress.print_message(
            f"{name}: int8 loses {scores.loss:.1f} points; looking for activations that must not be rounded"
        )
        with _Activations(folder, files, settings) as activations:
            worst_first = activations.ranked(lambda: _error(outputs_of(folder, measured), expected))
            scores = _keep_worst(activations, worst_first, judge, scores)
    check_loss(scores, name, force=force)
    return scores


def _quantize(folder: Path, files: list[str], settings: ExportSettings, strips: Sequence[Strip]) -> None:
    from albertine.export.int8 import quantize  # needs optional libraries

    quantize(folder, settings.to, strips, in_steps=settings.in_steps)
    write_record(files, folder, settings, "int8")


class _Activations:
    """The activations of an export in int8, of which some can be kept in floating point.

    As a context manager, it has a copy of the files, in which all are rounded.
    """

    def __init__(self, folder: Path, files: list[str], settings: ExportSettings):
        from albertine.export.quantizers import find_quantizers  # needs optional libraries

        self.folder, self._files, self._settings = folder, files, settings
        self._quantizers = find_quantizers(folder, settings.to)
        self._copy = TemporaryDirectory()

    def __enter__(self) -> "_Activations":
        _copy_files(self._files, self.folder, Path(self._copy.name))
        return self

    def __exit__(self, *_: object) -> None:
        self._copy.cleanup()

    def keep(self, quantizers: Sequence["Quantizer"]) -> None:
        """Write the files with all activations rounded except by these quantizers."""
        from albertine.export.quantizers import remove_quantizers

        _copy_files(self._files, Path(self._copy.name), self.folder)
        remove_quantizers(self.folder, self._settings.to, quantizers)
        write_record(self._files, self.folder, self._settings, "int8")

    def ranked(self, error: Callable[[], float]) -> list["Quantizer"]:
        """Return all quantizers, first the one that alone causes the largest error of the outputs.

        Together, their errors hide each other: without one of ten bad quantizers, outputs are hardly better.
        """
        errors = {}
        for quantizer in self._quantizers:
            self.keep([other for other in self._quantizers if other != quantizer])
            errors[quantizer] = error()
        return sorted(errors, key=errors.__getitem__, reverse=True)


def _copy_files(names: Sequence[str], source: Path, target: Path) -> None:
    """Copy those files that exist; an export in int8 may have none for large weights."""
    for name in names:
        if (source / name).is_file():
            (target / name).parent.mkdir(exist_ok=True)
            shutil.copyfile(source / name, target / name)


def _keep_worst(
    activations: _Activations, worst_first: Sequence["Quantizer"], judge: Judge, rounded: Int8Scores
) -> Int8Scores:
    """Keep as few activations in floating point as the score needs, and return the scores.

    If the score stays too low, the number with the highest score is kept.
    """
    best = rounded
    for count in _doubled_counts(len(worst_first)):
        activations.keep(worst_first[:count])
        after = judge.after(activations.folder)
        scores = replace(rounded, after=after, kept=count, activations=len(worst_first))
        if scores.loss < best.loss:
            best = scores
        if best.loss <= TOLERATED_LOSS:
            break
    activations.keep(worst_first[: best.kept])
    return best


def _doubled_counts(largest: int) -> list[int]:
    """Return 1, 2, 4, ... and the largest."""
    return [2**power for power in range(largest.bit_length()) if 2**power < largest] + [largest]


def _evenly_chosen(strips: Sequence[Strip]) -> Sequence[Strip]:
    """Return as many strips as show the errors; they are sorted by length."""
    tokens = sum(len(strip.tokens) for strip in strips)
    return strips[:: max(1, round(tokens / _MEASURED_TOKENS))]


def _error(outputs: Sequence[Mapping[str, Tensor]], expected: Sequence[Mapping[str, Tensor]]) -> float:
    """Return the sum of squared differences, of each output in units of the sum of its squares."""
    total = 0.0
    for actual_by_name, expected_by_name in zip(outputs, expected, strict=True):
        for name, values in expected_by_name.items():
            total += float((actual_by_name[name] - values).square().sum() / values.square().sum())
    return total if math.isfinite(total) else math.inf

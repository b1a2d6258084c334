"""Quantizes an export to int8, judges it, and keeps activations in floating point where that helps.

If the score falls by more than half a point, activations are ordered by sensitivity: the error of the outputs
if only that activation is quantized. The most sensitive ones then stay in floating point: first one, then
two, then four, until the score is high enough. Weights are always in int8.
"""

import math
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from albertine import progress
from albertine.display import counted
from albertine.export.accuracy import Int8Scores, Judge
from albertine.export.result import SEARCH_ABOVE_LOSS, check_loss, write_record
from albertine.export.settings import ExportSettings
from albertine.model.strip import Strip

if TYPE_CHECKING:  # needs optional libraries
    from albertine.export.quantizers import Quantizer

_MIN_CALIBRATION = 50
_MIN_JUDGED = round(100 / SEARCH_ABOVE_LOSS)  # with fewer examples, one of them is more points than that
_MEASURED_TOKENS = 2048  # tokens of the calibration input on which errors are measured

# Runs the export in a folder on strips, and yields its outputs by name.
OutputsOf = Callable[[Path, Sequence[Strip]], Iterator[Mapping[str, Tensor]]]


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
        outputs_of: runs the export; products that are not in int8 are in fp32.
        name: name of the export, for messages.
        force: keep a model that loses more than one point.
    """
    strips = [] if judge is None else judge.calibration_strips()
    count = sum(len(strip.lengths) for strip in strips)
    if settings.to == "openvino" and count < _MIN_CALIBRATION:
        progress.print_message(
            f"{name}: calibrated with {counted(count, 'sequence')}; with some hundred, the measured ranges "
            "have the usual values"
        )
    if judge is None or not judge.has_labels:
        _quantize(folder, files, settings, strips)
        return None
    measured = _evenly_chosen(strips)
    expected = list(outputs_of(folder, measured))
    _quantize(folder, files, settings, strips)
    scores = Int8Scores(judge.score_source(), judge.score_export(folder))
    if scores.loss > SEARCH_ABOVE_LOSS:
        after = scores.after
        few = " (some hundred measure it better)" if after.count < _MIN_JUDGED else ""
        progress.print_message(
            f"{name}: int8 loses {scores.loss:.1f} points on {after.count:,} {after.unit}{few}; measuring "
            "which activations must stay in floating point"
        )
        with TemporaryDirectory(dir=folder) as original:
            export = _copy_export(folder, files, settings, Path(original))
            ordered = export.sorted_by_sensitivity(lambda: _error(outputs_of(folder, measured), expected))
            scores = _keep_sensitive_in_float(export, ordered, judge, scores)
        if not scores.float_activations:
            progress.print_message(f"{name}: floating point did not raise the score; all stay in int8")
    check_loss(scores, name, force=force)
    return scores


def _quantize(folder: Path, files: list[str], settings: ExportSettings, strips: Sequence[Strip]) -> None:
    from albertine.export.int8 import quantize  # needs optional libraries

    quantize(folder, settings.to, strips, in_steps=settings.in_steps)
    write_record(files, folder, settings, "int8")


@dataclass(frozen=True)
class _QuantizedExport:
    """An export in int8, of which some activations can stay in floating point.

    Attributes:
        folder: folder of the export.
        original: folder with a copy of its graphs, in which all activations are quantized.
        files: names of the files of the export.
        settings: its format.
        quantizers: the quantizers of all activations.
    """

    folder: Path
    original: Path
    files: list[str]
    settings: ExportSettings
    quantizers: Sequence["Quantizer"]

    def keep_in_float(self, quantizers: Sequence["Quantizer"]) -> None:
        """Write the graphs with all activations quantized except those of some quantizers."""
        from albertine.export.quantizers import write_without

        write_without(self.original, self.folder, self.settings.to, quantizers)
        write_record(self.files, self.folder, self.settings, "int8")

    def sorted_by_sensitivity(self, error: Callable[[], float]) -> list["Quantizer"]:
        """Return all quantizers, first the one that alone changes the outputs the most.

        Without one of many bad quantizers, the outputs would hardly be better: the errors of the others would
        hide the gain.
        """
        errors = {}
        for quantizer in progress.track(self.quantizers, "Measuring activations", unit="activations"):
            self.keep_in_float([other for other in self.quantizers if other != quantizer])
            errors[quantizer] = error()
        return sorted(errors, key=errors.__getitem__, reverse=True)


def _copy_export(
    folder: Path, files: list[str], settings: ExportSettings, original: Path
) -> _QuantizedExport:
    from albertine.export.quantizers import find_quantizers  # needs optional libraries

    for name in files:
        if Path(name).name == name and (folder / name).is_file():  # the graphs are not in subfolders
            shutil.copyfile(folder / name, original / name)
    return _QuantizedExport(folder, original, files, settings, find_quantizers(original, settings.to))


def _keep_sensitive_in_float(
    export: _QuantizedExport, ordered: Sequence["Quantizer"], judge: Judge, quantized: Int8Scores
) -> Int8Scores:
    """Keep the first 1, 2, 4, ... activations in floating point until the score is high enough; return it.

    If it never is, the number with the highest score is kept.
    """
    best = last = quantized
    for count in _doubled_counts(len(ordered)):
        export.keep_in_float(ordered[:count])
        after = judge.score_export(export.folder)
        last = replace(quantized, after=after, float_activations=count, activations=len(ordered))
        if last.loss < best.loss:
            best = last
        if best.loss <= SEARCH_ABOVE_LOSS:
            break
    if best is not last:
        export.keep_in_float(ordered[: best.float_activations])
    return best


def _doubled_counts(largest: int) -> list[int]:
    """Return 1, 2, 4, ... and the largest."""
    return [2**power for power in range(largest.bit_length()) if 2**power < largest] + [largest]


def _evenly_chosen(strips: Sequence[Strip]) -> Sequence[Strip]:
    """Return strips of about `_MEASURED_TOKENS` tokens, at equal intervals, so that all lengths occur."""
    tokens = sum(len(strip.tokens) for strip in strips)
    return strips[:: max(1, round(tokens / _MEASURED_TOKENS))]


def _error(outputs: Iterator[Mapping[str, Tensor]], expected: Sequence[Mapping[str, Tensor]]) -> float:
    """Return the sum over strips and outputs of |actual - expected|^2 / |expected|^2."""
    tiny = torch.finfo(torch.float32).tiny
    total = 0.0
    for actual_by_name, expected_by_name in zip(outputs, expected, strict=True):
        for name, values in expected_by_name.items():
            squares = (actual_by_name[name] - values).square().sum()
            total += float(squares / values.square().sum().clamp(min=tiny))
    return total if math.isfinite(total) else math.inf

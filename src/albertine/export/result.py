"""What all exports share: the checks before, the record of the files, the judgement of int8, the result."""

import json
import math
from dataclasses import dataclass
from pathlib import Path

from albertine import progress
from albertine.checksums import file_checksum
from albertine.engines.libraries import check_libraries
from albertine.errors import InputError, WorkError
from albertine.export.accuracy import Int8Scores
from albertine.export.settings import ExportSettings
from albertine.interop.export_record import ExportRecord
from albertine.settings.export import ExportPrecision
from albertine.storage.upload import check_output_folder
from albertine.text.tokenizer import Tokenizer

MAX_LOSS = 1.0  # points of a score that a model in int8 may lose
SEARCH_ABOVE_LOSS = 0.5  # points above which some activations stay in floating point, if that helps


@dataclass(frozen=True)
class ExportResult:
    """What was exported.

    Attributes:
        files: names of the files of the model.
        num_bytes: their size.
        difference: largest difference of its outputs in fp32 from those of the source, in units of the
            largest value if that is above 1.
        scores: what int8 costs; None in fp32 or without data.
    """

    files: tuple[str, ...]
    num_bytes: int
    difference: float
    scores: Int8Scores | None = None


def check_export(out: Path, settings: ExportSettings, *, force: bool) -> None:
    """Raise `InputError` if an export cannot be written to a folder."""
    if force and settings.precision == "fp32":
        raise InputError("--force: only int8 loses accuracy; leave it out")
    check_output_folder(out)
    check_libraries(settings.to, settings.precision)


def write_record(
    files: list[str], folder: Path, settings: ExportSettings, precision: ExportPrecision
) -> None:
    """Write the record of an export, with the checksums of those of its files that exist."""
    checksums = {name: file_checksum(folder / name) for name in files if (folder / name).is_file()}
    ExportRecord(settings.to, precision, settings.in_steps, checksums, settings.embeds).write(folder)


def write_pipeline(tokenizer: Tokenizer, folder: Path) -> None:
    """Write a tokenizer as `tokenizer.json`, which the programs of the README read, beside its own files."""
    pipeline = json.dumps(tokenizer.pipeline(), ensure_ascii=False)
    (folder / "tokenizer.json").write_text(pipeline, encoding="utf-8")


def check_loss(scores: Int8Scores, out: str, *, force: bool) -> None:
    """Raise `WorkError` if int8 loses more than `MAX_LOSS`; with `force`, only say so."""
    before, after = scores.before, scores.after
    if scores.loss <= MAX_LOSS:
        return
    if not math.isfinite(scores.loss):
        raise WorkError(f"{out}: the score is undefined on these {after.unit}; give others")
    message = (
        f"int8 loses {scores.loss:.1f} points on {after.count:,} {after.unit}: {before.text} before, "
        f"{after.text} after"
    )
    if not force:
        raise WorkError(f"{out}: {message}; nothing was written. --force keeps it, and fp32 loses nothing")
    progress.print_message(f"{out}: {message}; kept because of --force")

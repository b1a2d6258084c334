"""`albertine export`: a checkpoint as a folder that ONNX Runtime, OpenVINO or a browser runs.

The export is written in fp32 and compared with its source. For int8 it is then quantized, and both
are evaluated on the user's data. A folder that loses too much, or differs, is not kept.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from albertine import progress
from albertine.atomic import atomic_folder, refuse_existing_folder
from albertine.checksums import file_checksum
from albertine.engines.conversion import check_convertible, check_steps
from albertine.engines.exported_folder import open_export
from albertine.engines.libraries import check_libraries
from albertine.errors import InputError, WorkError
from albertine.export.accuracy import Accuracy, create_judge, describe_scores
from albertine.export.npm_packages import NpmPackage, package_archives
from albertine.export.readme import write_readme
from albertine.export.settings import ExportSettings
from albertine.export.web_page import write_page
from albertine.export.web_tokenizer import check_web_tokenizer, find_node
from albertine.interop.export_record import ExportRecord
from albertine.interop.hub import locate_checkpoint
from albertine.interop.huggingface import TASK_CARD_FILE, write_config
from albertine.interop.load import has_masked_head, load_checkpoint
from albertine.model.model import Model
from albertine.settings.engine import EngineOptions
from albertine.settings.export import ExportPrecision
from albertine.tasks.checkpoint_card import read_card, read_card_file
from albertine.text.tokenizer import load_tokenizer

MAX_LOSS = 1.0  # points of a score that a model in int8 may lose


@dataclass(frozen=True)
class ExportResult:
    """What was exported.

    Attributes:
        files: names of the files of the model.
        num_bytes: their size.
        difference: largest difference of its logits in fp32 from those of the source, in units of the
            largest logit if that is above 1.
        before: scores of the source in fp32; None in fp32 or without data.
        after: scores of the export in int8.
    """

    files: tuple[str, ...]
    num_bytes: int
    difference: float
    before: Accuracy | None = None
    after: Accuracy | None = None


def export(
    source: str | Path, out: str | Path, settings: ExportSettings, *, force: bool = False
) -> ExportResult:
    """Export a fine-tuned or pre-trained model, verify it, and return what was exported.

    Args:
        source: a run, the folder of a checkpoint, or a hub name.
        out: folder to write; must not exist yet, or be empty.
        settings: format, precision, and data for int8.
        force: in int8, keep a model that loses more than one point, or that no data judged.
    """
    out = Path(out)
    if force and settings.precision == "fp32":
        raise InputError("--force: only int8 loses accuracy; leave it out")
    refuse_existing_folder(out)
    check_libraries(settings.to, settings.precision)
    folder = locate_checkpoint(source)
    model = load_checkpoint(folder)
    check_convertible(model, str(source))
    if settings.in_steps:
        _check_steps(model, source, settings)
    if settings.to == "web":
        find_node()  # not only after the work
    archives = package_archives(settings.packages) if settings.to == "web" else {}
    judge = None
    if settings.precision == "int8":
        judge = create_judge(str(source), folder, model, settings, must_judge=not force)
    with atomic_folder(out) as partial:
        files = _write_fp32(model, folder, partial, settings)
        difference = _verify(model, partial, out)
        before = after = None
        if settings.precision == "int8":
            from albertine.export.int8 import quantize

            calibration = judge.calibration_strips() if judge and settings.to == "openvino" else []
            quantize(partial, settings.to, calibration, in_steps=settings.in_steps)
            _record(files, partial, settings, "int8")
            if judge is not None and judge.has_labels:
                before, after = judge.before(), judge.after(partial)
                _check_loss(before, after, out, force=force)
        written = [partial / name for name in files if (partial / name).is_file()]
        scores = "" if before is None or after is None else describe_scores(before, after)
        if settings.to == "web":
            _write_page(partial, out.resolve().name, model, settings, archives)
        write_readme(partial, out.resolve().name, model, settings, written, scores)
        num_bytes = sum(file.stat().st_size for file in written)
    return ExportResult(tuple(file.name for file in written), num_bytes, difference, before, after)


def _check_steps(model: Model, source: str | Path, settings: ExportSettings) -> None:
    """Raise `InputError` if a model cannot be written with a graph for each block and head."""
    option = "--to web" if settings.to == "web" else "--exits"
    check_steps(model, source, option)
    if settings.to == "openvino" and has_masked_head(model):
        raise InputError(
            f"{source}: pre-trained; its embedding and its head share their largest matrix, which separate "
            "OpenVINO files would hold twice; use --to onnx"
        )


def _write_fp32(model: Model, folder: Path, partial: Path, settings: ExportSettings) -> list[str]:
    from albertine.engines.model_files import write_model  # needs optional libraries

    files = write_model(model, partial, settings.to, in_steps=settings.in_steps)
    write_config(model, partial, load_tokenizer(folder, model.settings.vocab_size))
    if not has_masked_head(model):
        card = read_card(folder, model.settings, model.head_settings, model.label_names)
        (partial / TASK_CARD_FILE).write_text(card.to_json(), encoding="utf-8")
    _record(files, partial, settings, "fp32")
    return files


def _write_page(
    partial: Path, name: str, model: Model, settings: ExportSettings, archives: Mapping[NpmPackage, Path]
) -> None:
    """Write the page of a web export, and compare its tokenizer with that of the model."""
    tokenizer = load_tokenizer(partial, model.settings.vocab_size)
    card = None if has_masked_head(model) else read_card_file(partial / TASK_CARD_FILE)
    write_page(partial, name, model, tokenizer, card, settings, archives)
    check_web_tokenizer(partial, tokenizer)


def _record(files: list[str], partial: Path, settings: ExportSettings, precision: ExportPrecision) -> None:
    checksums = {name: file_checksum(partial / name) for name in files if (partial / name).is_file()}
    ExportRecord(settings.to, precision, settings.in_steps, checksums).write(partial)


def _verify(model: Model, partial: Path, out: Path) -> float:
    from albertine.engines.verify import verify_export

    return verify_export(model, open_export(partial, EngineOptions("cpu", "fp32")), out)


def _check_loss(before: Accuracy, after: Accuracy, out: Path, *, force: bool) -> None:
    """Raise `WorkError` if int8 loses more than `MAX_LOSS`; with `force`, only say so."""
    loss = 100 * (before.score - after.score)
    if loss <= MAX_LOSS:
        return
    if not math.isfinite(loss):
        raise WorkError(f"{out}: the score is undefined on these examples; give others")
    scores = f"{before.text} before, {after.text} after"
    message = f"int8 loses {loss:.1f} points on {after.count:,} {after.unit}: {scores}"
    if not force:
        raise WorkError(f"{out}: {message}; nothing was written. --force keeps it, and fp32 loses nothing")
    progress.print_message(f"{out}: {message}; kept because of --force")

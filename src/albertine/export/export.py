"""`albertine export`: a checkpoint as a folder that ONNX Runtime, OpenVINO or a browser runs.

The export is written in fp32 and compared with its source. For int8 it is then quantized, and both
are evaluated on the user's data. A folder that loses too much, or differs, is not kept.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from torch import Tensor

from albertine.atomic import atomic_folder
from albertine.engines.conversion import check_convertible, check_steps
from albertine.engines.exported_folder import open_export
from albertine.engines.stepped_engine import SteppedEngine
from albertine.errors import InputError
from albertine.export.encoder import export_encoder
from albertine.export.judged_int8 import quantize_judged
from albertine.export.judges import create_judge
from albertine.export.npm_packages import NpmPackage, package_archives
from albertine.export.readme import write_readme
from albertine.export.result import ExportResult, check_export, write_pipeline, write_record
from albertine.export.settings import ExportSettings
from albertine.export.web_page import write_page
from albertine.export.web_tokenizer import check_web_tokenizer, find_node
from albertine.inference.finetuned_model import adapted_card
from albertine.interop.hub import TASK_CARD_FILE, locate_checkpoint
from albertine.interop.load import check_has_head, has_masked_head, load_checkpoint
from albertine.interop.save_checkpoint import write_config
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings.engine import EngineOptions
from albertine.storage.objects import display_path
from albertine.storage.upload import output_folder
from albertine.tasks.card import TaskCard
from albertine.tasks.checkpoint_card import read_card
from albertine.tasks.registry import find_task
from albertine.text.tokenizer import load_tokenizer


def export(
    source: str | Path, out: str | Path, settings: ExportSettings, *, force: bool = False
) -> ExportResult:
    """Export a fine-tuned or pre-trained model, or its encoder, verify it, and return what was exported.

    Args:
        source: a run, the folder of a checkpoint, or a hub name.
        out: folder to write, or its URL on object storage; must not exist yet, or be empty.
        settings: format, precision, and data for int8.
        force: write an int8 model even if it loses more than one point, or if no data measure its loss.
    """
    if settings.embeds:
        return export_encoder(source, Path(out), settings, force=force)
    out = Path(out)
    check_export(out, settings, force=force)
    if settings.task is not None:
        find_task(settings.task)  # an unknown task must fail before a model is loaded
    folder = locate_checkpoint(source)
    model = load_checkpoint(folder)
    check_has_head(model, source)
    check_convertible(model, str(source))
    card = _task_card(str(source), folder, model, settings.task)
    if settings.in_steps:
        _check_steps(model, source, settings)
    if settings.to == "web":
        find_node()  # must fail before the export, not after it
    archives = package_archives(settings.packages) if settings.to == "web" else {}
    judge = None
    if settings.precision == "int8":
        judge = create_judge(str(source), folder, model, settings, must_judge=not force)
    with output_folder(out) as local, atomic_folder(local) as partial:
        files = _write_fp32(model, folder, card, partial, settings)
        difference = _verify(model, partial, display_path(out))
        scores = None
        if settings.precision == "int8":
            scores = quantize_judged(
                partial, files, settings, judge, _outputs, name=display_path(out), force=force
            )
        written = [partial / name for name in files if (partial / name).is_file()]
        text = "" if scores is None else scores.text
        if settings.to == "web":
            _write_page(partial, out.resolve().name, model, card, settings, archives)
        write_readme(partial, out.resolve().name, model, settings, written, text)
        num_bytes = sum(file.stat().st_size for file in written)
    return ExportResult(tuple(file.name for file in written), num_bytes, difference, scores)


def _task_card(source: str, folder: Path, model: Model, task: str | None) -> TaskCard | None:
    """Return the task card of an export; None for a pre-trained model.

    Args:
        source: name of the model given by the user.
        folder: folder of its checkpoint.
        model: the model.
        task: task to use in place of the model's own; None for its own.
    """
    if has_masked_head(model):
        if task is not None:
            raise InputError(f"--task {task}: {source} is pre-trained; fine-tune it first, or use embed")
        return None
    card = read_card(folder, model.settings, model.head_settings, model.label_names)
    return card if task is None else adapted_card(card, task, source)


def _check_steps(model: Model, source: str | Path, settings: ExportSettings) -> None:
    """Raise `InputError` if a model cannot be written with a graph for each block and head."""
    option = "--to web" if settings.to == "web" else "--exits"
    check_steps(model, source, option)
    if settings.to == "openvino" and has_masked_head(model):
        raise InputError(
            f"{source}: pre-trained; its embedding and head share their largest matrix, and with --exits, "
            "OpenVINO would store it twice; use --to onnx"
        )


def _write_fp32(
    model: Model, folder: Path, card: TaskCard | None, partial: Path, settings: ExportSettings
) -> list[str]:
    from albertine.engines.model_files import write_model  # needs optional libraries

    files = write_model(model, partial, settings.to, in_steps=settings.in_steps)
    if card is not None and card.labels:
        model.label_names = card.labels  # the task may have named them
    tokenizer = load_tokenizer(folder, model.settings.vocab_size)
    write_config(model, partial, tokenizer)
    write_pipeline(tokenizer, partial)
    if card is not None:
        (partial / TASK_CARD_FILE).write_text(card.to_json(), encoding="utf-8")
    write_record(files, partial, settings, "fp32")
    return files


def _write_page(
    partial: Path,
    name: str,
    model: Model,
    card: TaskCard | None,
    settings: ExportSettings,
    archives: Mapping[NpmPackage, Path],
) -> None:
    """Write the page of a web export, and compare its tokenizer with that of the model."""
    tokenizer = load_tokenizer(partial, model.settings.vocab_size)
    write_page(partial, name, model, tokenizer, card, settings, archives)
    check_web_tokenizer(partial, tokenizer)


def _outputs(folder: Path, strips: Sequence[Strip]) -> Iterator[dict[str, Tensor]]:
    """Yield the logits of each strip; if each step has a head of its own, after each step."""
    engine = open_export(folder, EngineOptions("cpu", "fp32"))
    for strip in strips:
        if isinstance(engine, SteppedEngine) and engine.head_settings.exits == "own":
            depths = range(1, engine.model_settings.layers + 1)
            logits = {depth: engine.logits(strip, depth) for depth in depths}
            yield {f"{name} {depth}": logits[depth][name] for depth in depths for name in logits[depth]}
        else:
            yield engine.logits(strip)


def _verify(model: Model, partial: Path, out: str) -> float:
    from albertine.engines.verify import verify_export

    return verify_export(model, open_export(partial, EngineOptions("cpu", "fp32")), out)

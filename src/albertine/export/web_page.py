"""The page of a web export: its settings in `page.json`, its scripts, and the libraries.

FOLDER/index.html, style.css, *.js    the page, the same for every model
FOLDER/lib/                           ONNX Runtime and the tokenizer library
FOLDER/page.json                      tasks, labels, depth and files of this model
"""

import gzip
import json
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

from albertine.engines.step_files import STOP, TABLE_FILE, block_graphs, head_graphs, step_files
from albertine.export.npm_packages import CPU_LIBRARY_FILES, NpmPackage, copy_libraries
from albertine.export.settings import ExportSettings
from albertine.model.model import Model
from albertine.tasks.card import TaskCard
from albertine.tasks.registry import TASK_TYPES, create_task_type
from albertine.tasks.types.inputs import InputField
from albertine.text.spaceless_scripts import SPACELESS_RANGES
from albertine.text.tokenizer import Tokenizer

PAGE_FILES = ("index.html", "style.css", "app.js", "chart.js", "tasks.js", "tokenizer.js", "worker.js")
_MAX_DEEPER = 2  # times the trained depth that the page computes, where the plan allows it
_LABELS = {
    "text": "Text",
    "text_pair": "Second text",
    "context": "Passage",
    "question": "Question",
    "options": "Options",
    "first": "First text",
    "second": "Second text",
}


def write_page(
    folder: Path,
    name: str,
    model: Model,
    tokenizer: Tokenizer,
    card: TaskCard | None,
    settings: ExportSettings,
    archives: Mapping[NpmPackage, Path],
) -> None:
    """Write the page into the folder of an export.

    Args:
        folder: the folder, with the files of the model.
        name: name of the export.
        model: the exported model.
        tokenizer: its tokenizer.
        card: its task card; None if it is pre-trained.
        settings: settings of the export.
        archives: archives of the libraries.
    """
    has_gpu = settings.precision == "fp32"  # WebGPU has no products in int8
    sources = files("albertine.export") / "web"
    for page_file in PAGE_FILES:
        (folder / page_file).write_bytes((sources / page_file).read_bytes())
    copy_libraries(archives, folder / "lib", gpu=has_gpu)
    content = {
        "name": name,
        "precision": settings.precision,
        "gpu": has_gpu,
        "special": vars(tokenizer.special_ids),
        "mask": tokenizer.vocabulary[tokenizer.special_ids.mask],
        "vocabulary": len(tokenizer),
        **_plan(model),
        **_files(folder, model),
        "tasks": _pretraining_tasks(model, tokenizer) if card is None else [_task(model, tokenizer, card)],
    }
    (folder / "page.json").write_text(
        json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8"
    )


def _plan(model: Model) -> dict[str, Any]:
    """Return the steps of depth: the files of the blocks and the head of each, up to the deepest."""
    settings = model.settings
    can_deepen = settings.shares_all_layers and model.head_settings.exits != "own"
    deepest = (
        min(1000 // settings.inner_groups, _MAX_DEEPER * settings.layers) if can_deepen else settings.layers
    )
    heads = [f"{name}.onnx" for name in head_graphs(settings, model.head_settings)]
    blocks = block_graphs(settings, max(deepest, settings.layers))
    return {
        "trained": settings.layers,
        "blocks": [[f"{name}.onnx" for name in names] for names in blocks],
        "heads": heads + heads[-1:] * (deepest - settings.layers),
        "step_signal": settings.step_signal,
        "marks_matches": settings.mark_matches,
        "compares_pairs": model.head_settings.matching,
    }


def _files(folder: Path, model: Model) -> dict[str, Any]:
    """Return the files that the page loads; it shows every step and needs no exit unit."""
    names = [name for name in step_files(model.settings, model.head_settings) if name != f"{STOP}.onnx"]
    return {"table": TABLE_FILE, "files": {name: (folder / name).stat().st_size for name in names}}


def _task(model: Model, tokenizer: Tokenizer, card: TaskCard) -> dict[str, Any]:
    head = model.head_settings
    task_type = create_task_type(card, tokenizer, answerable=head.answerable)
    return {
        "task": card.type_name,
        "predicts": TASK_TYPES[card.type_name].prediction_description,
        "labels": list(card.labels),
        "max_length": min(card.max_length, model.settings.max_length),
        "fields": [_field(field) for field in task_type.input_fields()],
        "options": head.options,
        "answerable": head.answerable,
        "allows_no_answer": card.allows_no_answer,
        "no_answer_threshold": card.no_answer_threshold,
        "label_threshold": card.label_threshold,
        "stride": card.sequence.stride,
        "max_question_length": card.sequence.max_question_length,
        "max_answer_length": card.sequence.max_answer_length,
        "num_candidates": card.sequence.num_candidates,
        "spaceless_ranges": SPACELESS_RANGES,
    }


def _pretraining_tasks(model: Model, tokenizer: Tokenizer) -> list[dict[str, Any]]:
    """Return what a pre-trained model predicts: masked tokens and, with a pair head, the order of texts."""
    mask = tokenizer.vocabulary[tokenizer.special_ids.mask]
    fill_mask = {
        "task": "fill-mask",
        "title": "Masked tokens",
        "predicts": "masked tokens",
        "fields": [_field(InputField("text", f"She went to the {mask} and bought a book."))],
    }
    first = InputField("first", "Ida took the key.")
    second = InputField("second", "Then she opened the door.")
    order = {
        "task": "order",
        "title": "Sentence order",
        "predicts": "whether two texts are in order",
        "fields": [_field(first), _field(second)],
    }
    tasks = [fill_mask, order] if model.head_settings.kind == "pretrain" else [fill_mask]
    return [{**task, "labels": [], "max_length": model.settings.max_length} for task in tasks]


def _field(field: InputField) -> dict[str, Any]:
    return {
        "name": field.name,
        "label": _LABELS[field.name] if field.type != "words" else "Sentence",
        "example": field.example,
        "type": field.type,
        "required": field.required,
        "count": field.count,
    }


def first_visit_bytes(folder: Path) -> tuple[int, int]:
    """Return the size of the files that a browser loads to run the model on its CPU, plain and gzipped."""
    page = json.loads((folder / "page.json").read_text(encoding="utf-8"))
    names = [*PAGE_FILES, "page.json", "tokenizer.json", *page["files"]]
    contents = [(folder / name).read_bytes() for name in names]
    contents += [(folder / "lib" / name).read_bytes() for name in CPU_LIBRARY_FILES]
    return sum(map(len, contents)), sum(len(gzip.compress(content)) for content in contents)

"""Writes pooling and layers that follow a model, in the layout of the library sentence-transformers."""

import json
from pathlib import Path
from typing import Any

from albertine.interop.safetensors_file import write_tensors
from albertine.interop.sentence_transformers_folder import (
    ACTIVATIONS,
    LENGTH_FILES,
    MODULES_FILE,
    OPTIONS_FILE,
    SentenceModules,
)
from albertine.model.sentence_vectors import DenseLayer
from albertine.settings import ModelSettings


def write_sentence_modules(folder: Path, modules: SentenceModules, model: ModelSettings) -> list[str]:
    """Write `modules.json` beside a model, and a folder for each module; return the names of all files.

    Args:
        folder: folder of the model.
        modules: the modules; `model_folder` is not used.
        model: settings of the model.
    """
    before = set(folder.rglob("*"))
    modes = list(modules.poolings)
    pooling = {
        "embedding_dimension": model.hidden_size,
        "pooling_mode": modes if len(modes) > 1 else modes[0],
    }
    _write_module(folder, "1_Pooling", pooling)
    names = ["Transformer", "Pooling"]
    for layer in modules.layers:
        names.append(_write_layer(folder, len(names), layer))
    if modules.normalize:
        names.append(_write_layer(folder, len(names), None))
    entries = [
        {
            "idx": number,
            "name": str(number),
            "path": f"{number}_{name}" if number else "",
            "type": f"sentence_transformers.models.{name}",
        }
        for number, name in enumerate(names)
    ]
    _write_json(folder / MODULES_FILE, entries)
    # Without a length, a reader would take that of the tokenizer.
    max_length = min(modules.max_length or model.max_length, model.max_length)
    length = {"max_seq_length": max_length, "do_lower_case": modules.lower_case}
    _write_json(folder / LENGTH_FILES[0], length)
    if modules.options:
        _write_json(folder / OPTIONS_FILE, modules.options)
    new = sorted(set(folder.rglob("*")) - before)
    return [file.relative_to(folder).as_posix() for file in new if file.is_file()]


def _write_layer(folder: Path, number: int, layer: DenseLayer | None) -> str:
    """Write a dense layer, or for None the division of vectors by their length; return the module's kind."""
    if layer is None:
        _write_module(folder, f"{number}_Normalize", {})
        return "Normalize"
    _write_dense(folder, f"{number}_Dense", layer)
    return "Dense"


def _write_dense(folder: Path, name: str, layer: DenseLayer) -> None:
    out_size, in_size = layer.weight.shape
    activation = next(path for path, short in ACTIVATIONS.items() if short == layer.activation)
    config = {
        "in_features": in_size,
        "out_features": out_size,
        "bias": layer.bias is not None,
        "activation_function": activation,
    }
    _write_module(folder, name, config)
    tensors = {"linear.weight": layer.weight}
    if layer.bias is not None:
        tensors["linear.bias"] = layer.bias
    write_tensors(tensors, folder / name / "model.safetensors")


def _write_module(folder: Path, name: str, config: dict[str, Any]) -> None:
    (folder / name).mkdir()
    _write_json(folder / name / "config.json", config)


def _write_json(file: Path, value: Any) -> None:
    file.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")

"""Saves checkpoints in the layout of `transformers`: `config.json` and `model.safetensors`.

`transformers` loads what Albertine saves, without missing or unexpected tensors. Two exceptions: layers of
a head that `transformers` lacks are in a file of their own, and where they replace its head, `transformers`
begins with a new one. Other layers of an encoder that it lacks are in `model.safetensors`, and the modelling
file in the folder defines them.
"""

import json
import shutil
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albertine.atomic import atomic_folder
from albertine.interop.safetensors_file import write_tensors
from albertine.interop.tensor_names import (
    checkpoint_family,
    parameter_mappings,
)
from albertine.interop.transformers_config import (
    MODELING_FILE,
    transformers_config,
)
from albertine.model.model import Model
from albertine.settings import HeadSettings, ModelSettings
from albertine.text.tokenizer import Tokenizer

_UNLIMITED_LENGTH = 1_000_000  # `transformers` writes a larger `model_max_length` if there is no limit


def save_folder(model: Model, folder: str | Path, *, tokenizer: Tokenizer | None = None) -> None:
    """Write a checkpoint that `transformers` opens, as an atomic write.

    Args:
        model: the model to write.
        folder: destination; must not exist yet, or be empty.
        tokenizer: tokenizer to write beside the model.
    """
    with atomic_folder(Path(folder)) as partial:
        checkpoint_writer(model, tokenizer=tokenizer)(partial)


def checkpoint_writer(
    model: Model,
    *,
    tokenizer: Tokenizer | None = None,
    depth: int | None = None,
    parameters: Mapping[str, Tensor] | None = None,
    without: Collection[str] = (),
) -> Callable[[Path], None]:
    """Copy a model to the CPU and return a function that writes the copy into a folder.

    Args:
        model: the model to copy.
        tokenizer: tokenizer to write beside the model.
        depth: number of layers in the config, if it differs from that of the model.
        parameters: full parameters by name, for a model whose own parameters are sharded over ranks.
        without: names of parameters to leave out; the config is then that of an encoder without a head.
    """
    settings = replace(model.settings, layers=depth or model.settings.layers)
    config = transformers_config(settings, model.head_settings, model.label_names)
    if without:
        config = _encoder_config(settings, model.head_settings)
    tensors = transformers_tensors(model, parameters, without)
    own_files = _own_files(model, parameters)

    def write(folder: Path) -> None:
        _write_config(config, folder, tokenizer, settings.max_length)
        write_tensors(tensors, folder / "model.safetensors", {"format": "pt"})
        if not settings.is_published_architecture:
            shutil.copyfile(Path(__file__).with_name(MODELING_FILE), folder / MODELING_FILE)
        for name, own_tensors in own_files.items():
            write_tensors(own_tensors, folder / name)

    return write


def write_config(model: Model, folder: Path, tokenizer: Tokenizer | None = None) -> None:
    """Write the config of a model and its tokenizer into a folder, as beside the weights of a checkpoint."""
    config = transformers_config(model.settings, model.head_settings, model.label_names)
    _write_config(config, folder, tokenizer, model.settings.max_length)


def write_encoder_config(model: ModelSettings, folder: Path, tokenizer: Tokenizer) -> None:
    """Write the config of an encoder without a head, and its tokenizer, into a folder."""
    _write_config(_encoder_config(model, HeadSettings()), folder, tokenizer, model.max_length)


def _encoder_config(model: ModelSettings, head: HeadSettings) -> dict[str, Any]:
    """Return the config of an encoder without a head; that of ALBERT has the dropout of a future head."""
    config = transformers_config(model, head)
    config["architectures"] = [f"{config['model_type'].capitalize()}Model"]
    del config["albertine"]["head"]
    return config


def _write_config(
    config: Mapping[str, Any], folder: Path, tokenizer: Tokenizer | None, max_length: int
) -> None:
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    if tokenizer:
        tokenizer.save(folder)
        _write_max_length(folder / "tokenizer_config.json", max_length)


def _write_max_length(file: Path, max_length: int) -> None:
    """Set `model_max_length`, to which `transformers` truncates texts, unless the file already limits it."""
    options = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    if not isinstance(options, dict):
        return
    limit = options.get("model_max_length")
    if not isinstance(limit, int | float) or not limit < _UNLIMITED_LENGTH:
        file.write_text(
            json.dumps(options | {"model_max_length": max_length}, indent=2) + "\n", encoding="utf-8"
        )


def transformers_tensors(
    model: Model, parameters: Mapping[str, Tensor] | None = None, without: Collection[str] = ()
) -> dict[str, Tensor]:
    """Return the tensors of a model, by their names in `transformers`, copied to the CPU.

    Args:
        model: the model.
        parameters: values to use in place of the model's own, by parameter name.
        without: names of parameters to leave out.
    """
    parameters = _detached_parameters(model) if parameters is None else parameters
    family = checkpoint_family(model.settings)
    tensors: dict[str, Tensor] = {}
    for mapping in parameter_mappings(model.settings, model.head_settings, family):
        for copy in () if mapping.file or mapping.name in without else mapping.copies:
            parts = parameters[mapping.name].chunk(len(copy))
            tensors |= {name: part.cpu().clone().contiguous() for name, part in zip(copy, parts, strict=True)}
    if family == "albert" and not model.settings.has_projection:
        width = model.settings.hidden_size
        tensors["albert.encoder.embedding_hidden_mapping_in.weight"] = torch.eye(width)
        tensors["albert.encoder.embedding_hidden_mapping_in.bias"] = torch.zeros(width)
    return tensors


def _own_files(model: Model, parameters: Mapping[str, Tensor] | None) -> dict[str, dict[str, Tensor]]:
    """Return the tensors of the layers that `transformers` lacks, by file and name, copied to the CPU."""
    parameters = _detached_parameters(model) if parameters is None else parameters
    files: dict[str, dict[str, Tensor]] = {}
    for mapping in parameter_mappings(model.settings, model.head_settings, checkpoint_family(model.settings)):
        if mapping.file:
            ((name,),) = mapping.copies
            files.setdefault(mapping.file, {})[name] = parameters[mapping.name].cpu().clone()
    return files


def _detached_parameters(model: Model) -> dict[str, Tensor]:
    return {name: parameter.detach() for name, parameter in model.named_parameters()}

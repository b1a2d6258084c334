"""Loads and saves checkpoints in the layout of `transformers`: `config.json` and `model.safetensors`.

Albertine loads what `transformers` saves, and `transformers` loads what Albertine saves, without
missing or unexpected tensors. Two exceptions: layers of a head that `transformers` lacks are in a file
of their own, and where they replace its head, `transformers` begins with a new one. Other layers of an
encoder that it lacks are in `model.safetensors`, and the modelling file in the folder defines them.
"""

import json
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albertine import progress
from albertine.atomic import atomic_folder
from albertine.display import display_long
from albertine.errors import InputError
from albertine.interop.model_from_tensors import (
    check_no_unnamed_head,
    check_no_unused_tensors,
    model_from_tensors,
    resolve_tied_tensors,
)
from albertine.interop.safetensors_file import write_tensors
from albertine.interop.tensor_names import (
    ANSWERABLE_FILE,
    CO_MATCHING_FILE,
    EXITS_FILE,
    MATCHING_FILE,
    NEXT_SENTENCE_ARCHITECTURE,
    NEXT_SENTENCE_RENAMES,
    Family,
    ParameterMapping,
    checkpoint_family,
    parameter_mappings,
)
from albertine.interop.transformers_config import (
    MODELING_FILE,
    config_architecture,
    encoder_head_settings,
    head_settings_from_config,
    label_names_from_config,
    model_family,
    model_settings_from_config,
    read_config,
    saved_model_settings,
    transformers_config,
)
from albertine.interop.weight_files import read_safetensors, read_weights
from albertine.model.model import Model
from albertine.settings import HeadSettings, ModelSettings
from albertine.text.tokenizer import Tokenizer

_UNLIMITED_LENGTH = 1_000_000  # `transformers` writes a larger `model_max_length` if there is no limit
TASK_CARD_FILE = "task.json"  # of a fine-tuned model; written and read by `albertine.tasks`


def load_folder(
    folder: Path, head: HeadSettings | None = None, *, seed: int = 0, encoder_only: bool = False
) -> Model:
    """Return the model of a checkpoint folder, in evaluation mode.

    Args:
        folder: a checkpoint in the layout of `transformers`.
        head: a head in place of the checkpoint's own (see `model_from_tensors`).
        seed: seed of newly initialized parameters.
        encoder_only: whether a head that the checkpoint lacks will not be used, so that no message says that
            it is new.
    """
    file = folder / "config.json"
    config = read_config(file)
    model_family(config, str(file))  # refuse an unsupported model before reading its tensors
    stored_tensors, source = read_weights(folder)
    return build_model(config, file, stored_tensors, source, head, seed=seed, encoder_only=encoder_only)


def build_model(
    config: Mapping[str, Any],
    config_file: Path,
    stored_tensors: dict[str, Tensor],
    tensor_file: Path,
    head: HeadSettings | None,
    *,
    seed: int,
    encoder_only: bool = False,
) -> Model:
    """Return a model built from a config and tensors, in evaluation mode.

    Args:
        config: content of `config.json`.
        config_file: file of the config, which error messages name.
        stored_tensors: tensors of the checkpoint, by their names in `transformers`.
        tensor_file: file of the tensors, which error messages name.
        head: a head in place of the checkpoint's own.
        seed: seed of newly initialized parameters.
        encoder_only: whether a head that the checkpoint lacks will not be used, so that no message says that
            it is new.
    """
    family = model_family(config, str(config_file))
    tensors = _with_family_prefix(stored_tensors, family)
    own_head = _own_head(config, config_file, tensors) if head is None else None
    if head is None and own_head is None:
        check_no_unnamed_head(tensors, tensor_file)
    if own_head is not None and config_architecture(config, str(config_file)) == NEXT_SENTENCE_ARCHITECTURE:
        tensors = {NEXT_SENTENCE_RENAMES.get(name, name): tensor for name, tensor in tensors.items()}
    head_settings = head or own_head or encoder_head_settings(config, str(config_file))
    if head_settings.kind in ("pretrain", "mlm"):
        resolve_tied_tensors(tensors, tensor_file, family)
    settings = _model_settings(config, config_file, family, tensors, head_settings)
    mappings = parameter_mappings(settings, head_settings, family)
    check_no_unused_tensors(tensors, mappings, tensor_file, family, is_own_head=own_head is not None)
    of_own_files = mappings
    if own_head is None:
        of_own_files = _comparison(mappings, head_settings, config, tensors, config_file.parent)
    tensors |= _tensors_of_own_files(config_file.parent, of_own_files)
    model, newly_initialized = model_from_tensors(
        settings, head_settings, mappings, tensors, tensor_file, is_own_head=own_head is not None, seed=seed
    )
    if newly_initialized and not (encoder_only and own_head is None):
        layers = ", ".join(dict.fromkeys(name.rpartition(".")[0] for name in newly_initialized))
        progress.print_message(
            f"{config_file.parent}: head {head_settings.kind} is newly initialized ({layers})"
        )
    if own_head is None:
        model.missing_parameters = tuple(newly_initialized)
    if own_head is not None:
        model.label_names = label_names_from_config(config, head_settings, str(config_file))
    return model.eval()


def _own_head(
    config: Mapping[str, Any], config_file: Path, tensors: Mapping[str, Tensor]
) -> HeadSettings | None:
    """Return the settings of a checkpoint's own head; None if it has none.

    `transformers` keeps the settings of a head that matches texts, but saves its own head, with a classifier.
    It also keeps those of an exit unit, but not the unit.
    """
    head = head_settings_from_config(config, str(config_file))
    if head is not None and head.learned_exit and _may_lack_file(config_file.with_name(EXITS_FILE)):
        head = replace(head, learned_exit=False)
    if head is not None and (head.co_matching or head.matching) and "classifier.weight" in tensors:
        return replace(head, co_matching=False, matching=False)
    return head


def _comparison(
    mappings: Sequence[ParameterMapping],
    head: HeadSettings,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    folder: Path,
) -> list[ParameterMapping]:
    """Return the layers that compare texts, if a new head has them in common with the checkpoint's.

    Nothing else of the checkpoint's head is read, which may be one that is not supported. A folder that
    `transformers` has saved lacks these layers, whatever its config says.
    """
    if "classifier.weight" in tensors:  # `transformers` has saved the folder, with its own head
        return []
    own = config.get("albertine")
    stored = own.get("head") if isinstance(own, Mapping) else None
    files = {
        file
        for name, file in (("co_matching", CO_MATCHING_FILE), ("matching", MATCHING_FILE))
        if getattr(head, name) and isinstance(stored, Mapping) and stored.get(name) is True
        if not _may_lack_file(folder / file)
    }
    return [mapping for mapping in mappings if mapping.file in files]


def _tensors_of_own_files(folder: Path, mappings: Sequence[ParameterMapping]) -> dict[str, Tensor]:
    """Return the tensors of the layers of heads that have files of their own.

    Raises `InputError` if a file is missing, except in a folder that `transformers` has written, which lacks
    these files. There an answerable layer gets fresh weights, the heads of all steps of depth are copies of
    the last one, and there is no exit unit.
    """
    tensors: dict[str, Tensor] = {}
    for name in sorted({mapping.file for mapping in mappings if mapping.file}):
        file = folder / name
        if name in (ANSWERABLE_FILE, EXITS_FILE) and _may_lack_file(file):
            continue
        if not file.is_file():
            raise InputError(f"{file}: missing; get the file again")
        read_tensors = read_safetensors(file)
        expected = [mapping.copies[0][0] for mapping in mappings if mapping.file == name]
        if unexpected := read_tensors.keys() - set(expected):
            raise InputError(
                f"{file}: unexpected tensor {display_long(min(unexpected))}; "
                "the model of the config has no such parameter"
            )
        missing = next((tensor for tensor in expected if tensor not in read_tensors), None)
        if missing is not None:
            raise InputError(f"{file}: tensor {missing} is missing; get the file again")
        tensors |= read_tensors
    return tensors


def _may_lack_file(file: Path) -> bool:
    """Return whether a file is missing from a folder that `transformers` has written, without a task card."""
    return not file.is_file() and not file.with_name(TASK_CARD_FILE).exists()


def _with_family_prefix(tensors: dict[str, Tensor], family: Family) -> dict[str, Tensor]:
    """Return the tensors with the prefix of the family, which an encoder saved without a head lacks."""
    if any(name.startswith(family + ".") for name in tensors):
        return dict(tensors)
    return {f"{family}.{name}": tensor for name, tensor in tensors.items()}


def _model_settings(
    config: Mapping[str, Any], file: Path, family: Family, tensors: Mapping[str, Tensor], head: HeadSettings
) -> ModelSettings:
    """Return the settings stored under "albertine", or other ones if the tensors do not match them.

    Training in `transformers` changes two things. The identity matrix that is saved for a
    missing projection becomes another matrix, so the settings must have a projection. (A
    checkpoint of Google's code stores no tensors for a missing projection.) The
    copies of a shared block become different, so the settings are those that the keys of
    `transformers` describe.
    """
    settings_from_keys = model_settings_from_config(config, str(file))
    saved_settings = saved_model_settings(config, str(file))
    if saved_settings is None:
        return settings_from_keys
    if family == "albert" and not saved_settings.has_projection:
        weight = tensors.get("albert.encoder.embedding_hidden_mapping_in.weight")
        bias = tensors.get("albert.encoder.embedding_hidden_mapping_in.bias")
        is_stored = weight is not None or bias is not None
        if is_stored and (weight is None or bias is None or not _is_identity(weight, bias)):
            saved_settings = replace(saved_settings, always_project=True)
    for mapping in parameter_mappings(saved_settings, head, family):
        first, *others = ([tensors.get(name) for name in copy] for copy in mapping.copies)
        for other in others:
            if any(
                a is None or b is None or not torch.equal(a, b) for a, b in zip(first, other, strict=True)
            ):
                progress.print_message(
                    f"{file.parent}: the copies of a shared block differ; loaded as one group per layer"
                )
                return settings_from_keys
    return saved_settings


def _is_identity(weight: Tensor, bias: Tensor) -> bool:
    """Return whether a linear layer does not change its input."""
    is_square = weight.dim() == 2 and weight.shape[0] == weight.shape[1]
    return is_square and torch.equal(weight.float(), torch.eye(len(weight))) and not bias.any()


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

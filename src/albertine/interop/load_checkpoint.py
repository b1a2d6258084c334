"""Loads checkpoints in the layout of `transformers`: `config.json` and `model.safetensors`.

Albertine loads what `transformers` saves, without missing or unexpected tensors. Layers of a head that
`transformers` lacks are in a file of their own; see `save_checkpoint`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albertine import progress
from albertine.display import display_long
from albertine.errors import InputError
from albertine.interop.hub import TASK_CARD_FILE
from albertine.interop.model_from_tensors import (
    check_no_unnamed_head,
    check_no_unused_tensors,
    model_from_tensors,
    resolve_tied_tensors,
)
from albertine.interop.tensor_names import (
    ANSWERABLE_FILE,
    CO_MATCHING_FILE,
    EXITS_FILE,
    MATCHING_FILE,
    NEXT_SENTENCE_ARCHITECTURE,
    NEXT_SENTENCE_RENAMES,
    Family,
    ParameterMapping,
    parameter_mappings,
)
from albertine.interop.transformers_config import (
    config_architecture,
    encoder_head_settings,
    head_settings_from_config,
    label_names_from_config,
    model_family,
    model_settings_from_config,
    read_config,
    saved_model_settings,
)
from albertine.interop.weight_files import read_safetensors, read_weights
from albertine.model.model import Model
from albertine.settings import HeadSettings, ModelSettings


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
            + _replaced_head(config, config_file, head_settings)
        )
    if own_head is None:
        model.missing_parameters = tuple(newly_initialized)
    if own_head is not None:
        model.label_names = label_names_from_config(config, head_settings, str(config_file))
    return model.eval()


def _replaced_head(config: Mapping[str, Any], config_file: Path, new_head: HeadSettings) -> str:
    """Return the end of the message about a new head, if the checkpoint has a head of the same kind."""
    try:
        own_head = head_settings_from_config(config, str(config_file))
    except InputError:  # a new head may replace one that is not supported
        return ""
    if own_head is None or own_head.kind != new_head.kind:
        return ""
    return f"; the checkpoint's own {own_head.kind} head is dropped; albertine.load without `head` keeps it"


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

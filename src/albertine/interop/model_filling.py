"""Puts a checkpoint's tensors into a model: every one checked before any memory is taken, none left over.

A head that a checkpoint brings is taken whole. Under another head only what
pre-training has taught is taken (the pooler, the MLM and pair layers); the layers
of a task are drawn anew, even where a checkpoint has some of the same name.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from albertine.errors import InputError
from albertine.interop.tensor_names import Family, ParameterMapping, tied_tensors
from albertine.model.model import Model, init_weights
from albertine.settings import HeadSettings, ModelSettings

# The one layer of ours that transformers has no place for; it travels in a file of its own.
ANSWERABLE_MAPPINGS = tuple(
    ParameterMapping(f"head.answerable.{part}", ((f"answerable.{part}",),)) for part in ("weight", "bias")
)

_TASK_LAYERS = ("head.out.", "head.answerable.")
_HEAD_PREFIXES = ("predictions.", "sop_classifier.", "cls.", "classifier.", "qa_outputs.", "answerable.")


def model_from_tensors(
    settings: ModelSettings,
    head: HeadSettings,
    mappings: list[ParameterMapping],
    tensors: Mapping[str, Tensor],
    source: Path,
    *,
    is_own_head: bool,
    seed: int,
) -> tuple[Model, list[str]]:
    """Make a model from tensors; return it with the parameters that were drawn anew.

    Args:
        settings: the network's settings.
        head: the head's settings.
        mappings: where each parameter lies.
        tensors: the checkpoint's, by the names of `transformers`.
        source: the file to name when a tensor is wrong.
        is_own_head: whether this is the checkpoint's own head.
        seed: what is drawn anew is drawn from this.
    """
    with torch.device("meta"):
        model = Model(settings, head, seed=None)
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    found: dict[str, Tensor] = {}
    for mapping in mappings:
        missing = [name for name in mapping.copies[0] if name not in tensors]
        if (mapping.name.startswith(_TASK_LAYERS) and not is_own_head) or (
            missing and _may_be_missing(mapping, is_own_head=is_own_head)
        ):
            continue
        if missing:
            raise InputError(f"{source}: tensor {missing[0]} is missing")
        found[mapping.name] = _joined_parameter(mapping, tensors, shapes[mapping.name], source)
    model.to_empty(device="cpu")
    for name, parameter in model.named_parameters():
        if name in found:
            parameter.data.copy_(found[name])
    newly_initialized = [name for name in shapes if name not in found]
    init_weights(model, seed, newly_initialized)
    return model, newly_initialized


def _may_be_missing(mapping: ParameterMapping, *, is_own_head: bool) -> bool:
    """Tell whether a parameter may be absent: of another head, or of the layer that nobody else writes."""
    return mapping.name.startswith("head.answerable.") or (
        mapping.name.startswith("head.") and not is_own_head
    )


def _joined_parameter(
    mapping: ParameterMapping, tensors: Mapping[str, Tensor], shape: torch.Size, source: Path
) -> Tensor:
    """Return the value of one parameter, checked."""
    names = mapping.copies[0]
    parts = [tensors[name] for name in names]
    for name, part in zip(names, parts, strict=True):
        expected = [shape[0] // len(names), *shape[1:]]
        if list(part.shape) != expected:
            raise InputError(
                f"{source}: tensor {name} has shape {list(part.shape)}, not {expected} as the config says"
            )
        if not part.is_floating_point():
            raise InputError(f"{source}: tensor {name} is {part.dtype}; only floating-point weights are read")
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def check_no_unused_tensors(
    tensors: Mapping[str, Tensor],
    mappings: list[ParameterMapping],
    source: Path,
    family: Family,
    *,
    is_own_head: bool,
) -> None:
    """Refuse tensors that the model has no place for; other heads and what says nothing new may pass."""
    used = {name for slot in mappings for copy in slot.copies for name in copy}
    ignored_prefixes = (f"{family}.pooler.", f"{family}.encoder.embedding_hidden_mapping_in.")
    for name in sorted(tensors.keys() - used):
        if name.startswith(ignored_prefixes) or name.endswith(("position_ids", "token_type_ids")):
            continue
        if name.startswith(_HEAD_PREFIXES) or (not is_own_head and not name.startswith(f"{family}.")):
            continue
        raise InputError(f"{source}: tensor {name} has no place in this model")


def check_no_unnamed_head(tensors: Mapping[str, Tensor], source: Path) -> None:
    """Refuse a trained head that no config names: it would be thrown away without a word."""
    name = next((name for name in sorted(tensors) if name.startswith(_HEAD_PREFIXES)), None)
    if name is not None:
        raise InputError(
            f"{source}: holds {name}, but the config names no architecture; name one there, or give a head"
        )


def resolve_tied_tensors(tensors: dict[str, Tensor], source: Path, family: Family) -> None:
    """Take a tied tensor from its other name where only that is there; refuse one that differs."""
    for copy, original in tied_tensors(family).items():
        if copy in tensors and original not in tensors:
            tensors[original] = tensors[copy]
        if copy in tensors and not torch.equal(tensors[copy], tensors[original]):
            raise InputError(f"{source}: tensor {copy} differs from {original}, to which it is tied")

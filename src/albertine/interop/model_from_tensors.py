"""Builds a model from the tensors of a checkpoint, after checking all of them.

With the checkpoint's own head, the whole head is loaded. With another head, only the layers
that do not depend on the task are loaded (pooler, MLM and pair layers, and those that compare
texts); its task layers are newly initialized, even if the checkpoint has tensors of the same name.
"""

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from albertine.display import display_long
from albertine.errors import InputError
from albertine.interop.tensor_names import Family, ParameterMapping, tied_tensors
from albertine.model.model import Model, init_weights
from albertine.settings import HeadSettings, ModelSettings

_EXIT_HEADS, _EXIT_UNIT = "exit_heads.", "exit_unit."
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
    """Return a model built from tensors, and the names of its newly initialized parameters.

    Args:
        settings: settings of the model.
        head: settings of the head.
        mappings: the tensors of each parameter.
        tensors: tensors of the checkpoint, by their names in `transformers`.
        source: file of the tensors, which error messages name.
        is_own_head: whether `head` is the checkpoint's own.
        seed: seed of newly initialized parameters.
    """
    with torch.device("meta"):
        model = Model(settings, head, seed=None)
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    has_exits = any(name.startswith((_EXIT_HEADS, _EXIT_UNIT)) for name in tensors)
    values: dict[str, Tensor] = {}
    for mapping in mappings:
        if mapping.name.startswith((_EXIT_HEADS, _EXIT_UNIT)) and not has_exits:
            continue
        file = source.with_name(mapping.file) if mapping.file else source
        missing = [name for name in mapping.copies[0] if name not in tensors]
        if (mapping.name.startswith(_TASK_LAYERS) and not is_own_head) or (
            missing and _may_be_missing(mapping, is_own_head=is_own_head)
        ):
            continue
        if missing:
            raise InputError(
                f"{file}: tensor {missing[0]} is missing; get the file again or correct the config"
            )
        values[mapping.name] = _joined_parameter(mapping, tensors, shapes[mapping.name], file)
    model.to_empty(device="cpu")
    for name, parameter in model.named_parameters():
        if name in values:
            parameter.data.copy_(values[name])
    newly_initialized = [name for name in shapes if name not in values and not name.startswith(_EXIT_HEADS)]
    init_weights(model, seed, newly_initialized)
    if not has_exits:
        model.copy_head_to_exits()
    return model, newly_initialized


def _may_be_missing(mapping: ParameterMapping, *, is_own_head: bool) -> bool:
    """Return whether the checkpoint may lack a parameter: one of a new head, or of the answerable layer."""
    return mapping.name.startswith("head.answerable.") or (
        mapping.name.startswith("head.") and not is_own_head
    )


def _joined_parameter(
    mapping: ParameterMapping, tensors: Mapping[str, Tensor], shape: torch.Size, source: Path
) -> Tensor:
    """Return the value of one parameter, after checking the shapes and dtypes of its tensors."""
    names = mapping.copies[0]
    parts = [tensors[name] for name in names]
    for name, part in zip(names, parts, strict=True):
        expected = [shape[0] // len(names), *shape[1:]]
        if list(part.shape) != expected:
            raise InputError(
                f"{source}: tensor {name} has shape {list(part.shape)}, but the config requires {expected}"
            )
        if not part.is_floating_point():
            raise InputError(
                f"{source}: tensor {name} is {part.dtype}; only floating-point weights are supported"
            )
        check_finite(name, part, source)
    return torch.cat(parts) if len(parts) > 1 else parts[0]


def check_finite(name: str, tensor: Tensor, source: Path) -> None:
    """Raise `InputError` if a tensor has a value that is NaN or infinite, in fp32 if it has more bits."""
    if tensor.itemsize == 1 or tensor.dtype == torch.float64:  # torch has no sums in fp8
        tensor = tensor.float()
    # The sum is fifteen times as fast as a test of each value. It may also overflow.
    if tensor.sum(dtype=torch.float32).isfinite():
        return
    if not tensor.isfinite().all():
        raise InputError(
            f"{source}: tensor {name} has values that are NaN or infinite in fp32; get the file again"
        )


def check_no_unused_tensors(
    tensors: Mapping[str, Tensor],
    mappings: list[ParameterMapping],
    source: Path,
    family: Family,
    *,
    is_own_head: bool,
) -> None:
    """Raise `InputError` if a tensor is of no parameter; tensors of other heads and buffers are ignored."""
    used = {name for mapping in mappings for copy in mapping.copies for name in copy}
    ignored_prefixes = (f"{family}.pooler.", f"{family}.encoder.embedding_hidden_mapping_in.")
    for name in sorted(tensors.keys() - used):
        if name.startswith(ignored_prefixes) or name.endswith(("position_ids", "token_type_ids")):
            continue
        if name.startswith(_HEAD_PREFIXES) or (not is_own_head and not name.startswith(f"{family}.")):
            continue
        raise InputError(
            f"{source}: unexpected tensor {display_long(name)}; the model of the config has no such parameter"
        )


def check_no_unnamed_head(tensors: Mapping[str, Tensor], source: Path) -> None:
    """Raise `InputError` if the config names no head but the checkpoint has one, which would be ignored."""
    name = next((name for name in sorted(tensors) if name.startswith(_HEAD_PREFIXES)), None)
    if name is not None:
        raise InputError(
            f"{source}: has {display_long(name)}, but the config names no architecture; "
            "add one to it, or pass a head"
        )


def resolve_tied_tensors(tensors: dict[str, Tensor], source: Path, family: Family) -> None:
    """Add tied tensors that are stored only as the copy; raise `InputError` if copy and original differ."""
    for copy, original in tied_tensors(family).items():
        if copy in tensors and original not in tensors:
            tensors[original] = tensors[copy]
        if copy in tensors and not _equals_in_lower_precision(tensors[copy], tensors[original]):
            for name in (copy, original):
                if tensors[name].is_floating_point():
                    check_finite(name, tensors[name], source)
            raise InputError(f"{source}: tensor {copy} differs from {original}, but the two must be tied")


def _equals_in_lower_precision(a: Tensor, b: Tensor) -> bool:
    """Return whether two tensors are equal in the lower of their precisions, to which one may be cast."""
    if a.is_floating_point() and b.is_floating_point():
        dtype = min(a.dtype, b.dtype, key=lambda dtype: dtype.itemsize)
        a, b = a.to(dtype), b.to(dtype)
    return torch.equal(a, b)

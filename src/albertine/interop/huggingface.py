"""Checkpoints in the layout of `transformers`: a folder of `config.json` and `model.safetensors`.

What was saved there loads here, and what is saved here opens there, with no
tensor missing and none left over.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from albertine import progress
from albertine.interop.config import config_of, family_in, head_in, labels_in, model_in, plan_in, read_config
from albertine.interop.filling import (
    ANSWERABLE,
    filled_model,
    refuse_surplus,
    refuse_unnamed_head,
    settle_ties,
)
from albertine.interop.names import Family, family_of, slots
from albertine.interop.tensors import read_safetensors, read_tensors
from albertine.model.network import Model
from albertine.settings import HeadSettings, ModelSettings
from albertine.tensors import write_tensors
from albertine.text.tokenizer import Tokenizer
from albertine.whole import new_folder

_NO_LIMIT = 1_000_000
_BESIDE = "answerable.safetensors"
CARD = "task.json"  # beside a tuned model, and the business of whoever tuned it


def load_folder(folder: Path, head: HeadSettings | None = None, *, seed: int = 0) -> Model:
    """Load a checkpoint, ready to evaluate; with `head`, under another head (see `filling`)."""
    file = folder / "config.json"
    config = read_config(file)
    family_in(config, str(file))  # refuse a foreign model before reading its tensors
    stored, source = read_tensors(folder)
    return assemble(config, file, stored, source, head, seed=seed)


def assemble(
    config: Mapping[str, Any],
    file: Path,
    stored: dict[str, Tensor],
    source: Path,
    head: HeadSettings | None,
    *,
    seed: int,
) -> Model:
    """Make a model from a config and tensors; `file` and `source` are where they came from."""
    family = family_in(config, str(file))
    tensors = _with_prefix(stored, family)
    found = head_in(config, str(file)) if head is None else None
    if head is None and found is None:
        refuse_unnamed_head(tensors, source)
    wanted = head or found or HeadSettings()
    if wanted.kind in ("pretrain", "mlm"):
        settle_ties(tensors, source, family)
    network = _network(config, file, family, tensors, wanted)
    table = slots(network, wanted, family)
    refuse_surplus(tensors, table, source, family, whole=found is not None)
    beside = file.parent / _BESIDE
    if wanted.answerable:
        table += ANSWERABLE
        tensors |= read_safetensors(beside) if beside.exists() else {}
    model, fresh = filled_model(network, wanted, table, tensors, source, whole=found is not None, seed=seed)
    if fresh:
        layers = ", ".join(dict.fromkeys(name.rpartition(".")[0] for name in fresh))
        progress.say(f"{file.parent}: head {wanted.kind} is freshly drawn ({layers})")
    if found is not None:
        model.labels = labels_in(config, wanted)
    return model.eval()


def _with_prefix(tensors: dict[str, Tensor], family: Family) -> dict[str, Tensor]:
    """Name the tensors of an encoder saved alone as they are called in a whole model."""
    if any(name.startswith(family + ".") for name in tensors):
        return dict(tensors)
    return {f"{family}.{name}": tensor for name, tensor in tensors.items()}


def _network(
    config: Mapping[str, Any], file: Path, family: Family, tensors: Mapping[str, Tensor], head: HeadSettings
) -> ModelSettings:
    """Return the plan that a config keeps, if the tensors still follow it; else what their format says.

    Trained on in `transformers`, copies of a shared half drift apart, and what was no
    projection becomes one: then the model is what its tensors are.
    """
    plain = model_in(config, str(file))
    kept = plan_in(config, str(file))
    if kept is None:
        return plain
    if family == "albert" and not kept.projects:
        weight = tensors.get("albert.encoder.embedding_hidden_mapping_in.weight")
        bias = tensors.get("albert.encoder.embedding_hidden_mapping_in.bias")
        if weight is None or bias is None or not _is_identity(weight, bias):
            kept = replace(kept, always_project=True)
    for slot in slots(kept, head, family):
        first, *others = ([tensors.get(name) for name in copy] for copy in slot.copies)
        for other in others:
            if any(
                a is None or b is None or not torch.equal(a, b) for a, b in zip(first, other, strict=True)
            ):
                progress.say(
                    f"{file.parent}: copies of a shared block differ; loaded as groups of whole layers"
                )
                return plain
    return kept


def _is_identity(weight: Tensor, bias: Tensor) -> bool:
    square = weight.dim() == 2 and weight.shape[0] == weight.shape[1]
    return square and torch.equal(weight.float(), torch.eye(len(weight))) and not bias.any()


def save_folder(model: Model, folder: str | Path, *, tokenizer: Tokenizer | None = None) -> None:
    """Write a checkpoint that `transformers` opens; `folder` appears whole or not at all.

    Args:
        model: what to write.
        folder: where; must not exist yet, or be empty.
        tokenizer: what goes along.
    """
    with new_folder(Path(folder)) as partial:
        frozen(model, tokenizer=tokenizer)(partial)


def frozen(
    model: Model,
    *,
    tokenizer: Tokenizer | None = None,
    depth: int | None = None,
    parameters: Mapping[str, Tensor] | None = None,
) -> Callable[[Path], None]:
    """Copy a model as it is now; return what writes the copy into a folder.

    Args:
        model: what to copy.
        tokenizer: what goes along.
        depth: how many layers it is to have, if not as many as it has.
        parameters: its parameters by name, where those in it are spread over processes.
    """
    network = replace(model.model, layers=depth or model.model.layers)
    config = config_of(network, model.head_settings, model.labels)
    tensors = tensors_of(model, parameters)
    beside = {
        name: one.cpu().clone() for name, one in model.head.state_dict().items() if "answerable" in name
    }

    def write(folder: Path) -> None:
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
        write_tensors(tensors, folder / "model.safetensors", {"format": "pt"})
        if beside:
            write_tensors(beside, folder / _BESIDE)
        if tokenizer:
            tokenizer.save(folder)
            _limit(folder / "tokenizer_config.json", network.max_length)

    return write


def _limit(file: Path, longest: int) -> None:
    """Say how long a text may be, where the tokenizer's file does not: `transformers` cuts by that."""
    options = json.loads(file.read_text(encoding="utf-8")) if file.exists() else None
    if isinstance(options, dict) and options.get("model_max_length", _NO_LIMIT) >= _NO_LIMIT:
        file.write_text(
            json.dumps(options | {"model_max_length": longest}, indent=2) + "\n", encoding="utf-8"
        )


def tensors_of(model: Model, parameters: Mapping[str, Tensor] | None = None) -> dict[str, Tensor]:
    """Return a model's tensors, or other values of its parameters, under the names of `transformers`."""
    if parameters is None:
        parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    family = family_of(model.model)
    tensors: dict[str, Tensor] = {}
    for slot in slots(model.model, model.head_settings, family):
        for copy in slot.copies:
            parts = parameters[slot.ours].chunk(len(copy))
            tensors |= {name: part.cpu().clone().contiguous() for name, part in zip(copy, parts, strict=True)}
    if family == "albert" and not model.model.projects:
        width = model.model.hidden_size
        tensors["albert.encoder.embedding_hidden_mapping_in.weight"] = torch.eye(width)
        tensors["albert.encoder.embedding_hidden_mapping_in.bias"] = torch.zeros(width)
    return tensors

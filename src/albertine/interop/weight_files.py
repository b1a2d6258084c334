"""Reads the tensors of a checkpoint folder, safely.

safetensors whole or in shards; `pytorch_model.bin` only as plain tensors, so that
a pickle that would run code is refused and never run.
"""

import json
import pickle
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from albertine.errors import InputError


def read_weights(folder: Path) -> tuple[dict[str, Tensor], Path]:
    """Return all tensors of a folder by name, and the file to name when one of them is wrong."""
    single_file, index, pickled = (
        folder / name for name in ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
    )
    for file, reader in ((single_file, read_safetensors), (index, _read_shards), (pickled, _read_pickle)):
        if file.is_file():
            return {_current_name(name): tensor for name, tensor in reader(file).items()}, file
    raise InputError(f"{folder}: has no model.safetensors and no pytorch_model.bin; is it a checkpoint?")


def _current_name(name: str) -> str:
    """Return today's name: in old checkpoints a norm's weight and bias are gamma and beta."""
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def read_safetensors(file: Path) -> dict[str, Tensor]:
    """Read one safetensors file."""
    try:
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise InputError(f"{file}: torn or not safetensors ({error}); get the file again") from None


def _read_shards(index: Path) -> dict[str, Tensor]:
    try:
        shard_names: dict[str, str] = dict(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
        shards = sorted(
            {Path(name).name for name in shard_names.values()}
        )  # beside the index, whatever it says
    except (ValueError, KeyError, TypeError, RecursionError):
        raise InputError(f"{index}: not an index of shards; get the file again") from None
    tensors: dict[str, Tensor] = {}
    for name in shards:
        shard = index.parent / name
        if not shard.is_file():
            raise InputError(f"{shard}: missing, though {index.name} names it; get the file again")
        tensors |= read_safetensors(shard)
    absent = sorted(shard_names.keys() - tensors.keys())
    if absent:
        raise InputError(f"{index}: tensor {absent[0]} is in no shard; get the files again")
    return tensors


def _read_pickle(file: Path) -> dict[str, Tensor]:
    try:
        content = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"{file}: refused, it holds more than tensors, which could run code ({reason[:120]}); "
            "convert it to safetensors where you trust it"
        ) from None
    except Exception as error:  # a torn pickle fails in whatever way its bytes lead to
        raise InputError(
            f"{file}: torn or no checkpoint ({str(error).partition(chr(10))[0]}); get it again"
        ) from None
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in content.items()
    ):
        raise InputError(f"{file}: holds something else than tensors by name")
    return content

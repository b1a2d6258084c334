"""Reads the tensors of a checkpoint folder.

They are in `model.safetensors`, in safetensors shards with an index, or in
`pytorch_model.bin`, which must hold only tensors: a pickle that would run code is refused.
"""

import pickle
import warnings
import zipfile
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from albertine.display import display_long
from albertine.errors import InputError
from albertine.input_files import check_regular_file, read_json_object

_MAX_HEADER_BYTES = 4_000_000  # about 40,000 tensors; a model of 1,000 layers has half of them


def read_weights(folder: Path) -> tuple[dict[str, Tensor], Path]:
    """Return all tensors of a folder by name, and the file that error messages name."""
    single_file, index, pickled = (
        folder / name for name in ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin")
    )
    for file, reader in ((single_file, read_safetensors), (index, _read_shards), (pickled, _read_pickle)):
        if file.is_file():
            return {_current_name(name): tensor for name, tensor in reader(file).items()}, file
    raise InputError(f"{folder}: has no model.safetensors and no pytorch_model.bin; name a checkpoint folder")


def _current_name(name: str) -> str:
    """Return the current name of a tensor; old checkpoints call weight and bias of a norm gamma and beta."""
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def read_safetensors(file: Path) -> dict[str, Tensor]:
    """Return the tensors of one safetensors file by name; raise `InputError` if it cannot be read."""
    try:
        _check_header_size(file)
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{file}: damaged, or not a safetensors file ({display_long(error)}); get the file again"
        ) from None


def _check_header_size(file: Path) -> None:
    """Raise `InputError` if the list of tensors in a safetensors file is too long to read in seconds."""
    check_regular_file(file)
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
    if size > _MAX_HEADER_BYTES:
        raise InputError(
            f"{file}: a header of {size:,} bytes, of at most {_MAX_HEADER_BYTES:,}; a model of this kind has "
            "far fewer tensors; get the file again"
        )


def _read_shards(index: Path) -> dict[str, Tensor]:
    try:
        shard_names: dict[str, str] = dict(read_json_object(index, "get the file again")["weight_map"])
        # Shards are beside the index; folders in their names are dropped.
        shards = sorted({Path(name).name for name in shard_names.values()})
    except (ValueError, KeyError, TypeError):
        raise InputError(f"{index}: not an index of shards; get the file again") from None
    tensors: dict[str, Tensor] = {}
    for name in shards:
        shard = index.parent / name
        if not shard.is_file():
            raise InputError(f"{shard}: missing, but {index.name} refers to it; get the file again")
        tensors |= read_safetensors(shard)
    missing = sorted(shard_names.keys() - tensors.keys())
    if missing:
        raise InputError(
            f"{index}: tensor {display_long(missing[0])} is in none of the shards; get the files again"
        )
    return tensors


def _read_pickle(file: Path) -> dict[str, Tensor]:
    check_regular_file(file)
    try:
        if _is_compressed(file):
            raise InputError(f"{file}: compressed, as torch never writes it; get the file again")
        with warnings.catch_warnings(action="ignore"):  # of unknown protocols; what it reads is checked
            content = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        reason = str(error).partition("\n")[0]
        raise InputError(
            f"{file}: refused: it holds objects that could run code ({display_long(reason)}); "
            "if you trust it, convert it to safetensors elsewhere"
        ) from None
    except InputError:
        raise
    except Exception as error:  # a damaged archive or pickle can raise anything
        raise InputError(
            f"{file}: damaged, or not a checkpoint ({display_long(error)}); get the file again"
        ) from None
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in content.items()
    ):
        raise InputError(f"{file}: must hold tensors by name and nothing else; save a state dict")
    return content


def _is_compressed(file: Path) -> bool:
    """Return whether a file is an archive with compressed members, whose size would be unknown."""
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist())

"""Reads the tensors of a checkpoint folder.

They are in `model.safetensors` or in `pytorch_model.bin`, or in shards of one of these formats with
an index. A .bin file must hold only tensors: a pickle that would run code is refused.
"""

import pickle
import re
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
from albertine.interop.export_record import COPY_AGAIN, EXPORT_FILE, exported_graph

_MAX_HEADER_BYTES = 4_000_000  # about 40,000 tensors; a model of 1,000 layers has half of them
_OTHER_WEIGHTS = ("tf_model*.h5", "flax_model*.msgpack", "model.*.safetensors", "pytorch_model.*.bin")
_WRAPPERS = ("module.", "_orig_mod.")


def read_weights(folder: Path) -> tuple[dict[str, Tensor], Path]:
    """Return all tensors of a folder by name, and the file that error messages name."""
    for name, reader in (
        ("model.safetensors", read_safetensors),
        ("model.safetensors.index.json", _read_shards),
        ("pytorch_model.bin", _read_pickle),
        ("pytorch_model.bin.index.json", _read_shards),
    ):
        file = folder / name
        if file.is_file():
            tensors = _without_wrappers(reader(file))
            return {_current_name(name): tensor for name, tensor in tensors.items()}, file
    other = next((file for pattern in _OTHER_WEIGHTS for file in sorted(folder.glob(pattern))), None)
    if other is not None:
        raise InputError(
            f"{folder}: its weights are in {other.name}, which is not supported; save them again as "
            "model.safetensors"
        )
    if graph := exported_graph(folder):
        raise InputError(f"{folder / EXPORT_FILE}: missing in an export with {graph.name}; {COPY_AGAIN}")
    raise InputError(f"{folder}: has no model.safetensors and no pytorch_model.bin; name a checkpoint folder")


def _without_wrappers(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors without the prefixes that DDP and `torch.compile` put before all names."""
    while tensors and (
        wrapper := next((w for w in _WRAPPERS if all(name.startswith(w) for name in tensors)), None)
    ):
        tensors = {name.removeprefix(wrapper): tensor for name, tensor in tensors.items()}
    return tensors


def _current_name(name: str) -> str:
    """Return the current name of a tensor; old checkpoints call weight and bias of a norm gamma and beta."""
    for old, new in ((".gamma", ".weight"), (".beta", ".bias")):
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def read_safetensors(file: Path) -> dict[str, Tensor]:
    """Return the tensors of one safetensors file by name; raise `InputError` if it cannot be read."""
    try:
        _check_header(file)
        return load_file(file)
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{file}: damaged, or not a safetensors file ({display_long(error)}); get the file again"
        ) from None


def _check_header(file: Path) -> None:
    """Raise `InputError` if the list of tensors in a safetensors file is missing or takes long to read."""
    beginning = _read_beginning(file)
    if beginning[8:9] != b"{":
        raise InputError(f"{file}: damaged, or not a safetensors file; get the file again")
    size = int.from_bytes(beginning[:8], "little")
    if size > _MAX_HEADER_BYTES:
        raise InputError(
            f"{file}: a header of {size:,} bytes, of at most {_MAX_HEADER_BYTES:,}; a model of this kind has "
            "far fewer tensors; get the file again"
        )


def _read_beginning(file: Path) -> bytes:
    """Return the first bytes of a file of weights; raise `InputError` if git-lfs has not downloaded it."""
    check_regular_file(file)
    with file.open("rb") as opened:
        beginning = opened.read(40)
    if beginning.startswith(b"version https://git-lfs"):
        raise InputError(f"{file}: a git-lfs pointer in place of the weights; run git lfs pull")
    return beginning


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
        tensors |= _read_pickle(shard) if shard.suffix == ".bin" else read_safetensors(shard)
    missing = sorted(shard_names.keys() - tensors.keys())
    if missing:
        raise InputError(
            f"{index}: tensor {display_long(missing[0])} is in none of the shards; get the files again"
        )
    return tensors


def _read_pickle(file: Path) -> dict[str, Tensor]:
    if not _read_beginning(file).startswith((b"PK", b"\x80")):  # an archive, or a pickle of early versions
        raise InputError(f"{file}: not a checkpoint; get the file again")
    try:
        if _is_compressed(file):
            raise InputError(f"{file}: compressed, as torch never writes it; get the file again")
        with warnings.catch_warnings(action="ignore"):  # of unknown protocols; what it reads is checked
            content = torch.load(file, map_location="cpu", weights_only=True)
    except InputError:
        raise
    except Exception as error:  # a damaged archive or pickle can raise anything
        reason = display_long(error)
        if isinstance(error, pickle.UnpicklingError):
            _refuse_code(file, str(error))
            reason = "not a pickle of tensors"  # torch explains in many lines how to read it nevertheless
        raise InputError(f"{file}: damaged, or not a checkpoint ({reason}); get the file again") from None
    if not isinstance(content, dict) or not all(
        isinstance(name, str) and isinstance(value, Tensor) for name, value in content.items()
    ):
        raise InputError(f"{file}: must hold tensors by name and nothing else; save a state dict")
    for name, tensor in content.items():
        if tensor.layout is not torch.strided or tensor.device.type != "cpu":
            kind = "on the meta device" if tensor.layout is torch.strided else tensor.layout
            raise InputError(
                f"{file}: tensor {display_long(name)} is {kind}; expected dense tensors with values; save "
                "them again"
            )
    return content


def _refuse_code(file: Path, explanation: str) -> None:
    """Raise `InputError` if torch has found a class or function in a pickle that is not one of tensors."""
    if name := re.search(r"(?:GLOBAL|function) (\S+)", explanation):
        raise InputError(
            f"{file}: refused: it holds objects that could run code ({display_long(name[1])}); "
            "if you trust it, convert it to safetensors elsewhere"
        )


def _is_compressed(file: Path) -> bool:
    """Return whether a file is an archive with compressed members, whose size would be unknown."""
    if not zipfile.is_zipfile(file):
        return False
    with zipfile.ZipFile(file) as archive:
        return any(info.compress_type != zipfile.ZIP_STORED for info in archive.infolist())

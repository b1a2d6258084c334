"""What the rows of a table depend on: a command resumes only after rows for which all of it is the same."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from albertine.checksums import file_checksum, json_checksum
from albertine.device import choose_device
from albertine.engines.engine import Engine
from albertine.engines.exported_folder import engine_name
from albertine.inference.resumable_file import unfinished_folder
from albertine.interop.hub import model_files
from albertine.settings import Settings
from albertine.storage.objects import find_object
from albertine.storage.urls import storage_url
from albertine.tasks.formats.locations import is_folder, local_data
from albertine.text.hub_datasets import HUB_PREFIX
from albertine.version import __version__

# Raise it if a command writes other rows than before, or computes them in other chunks.
_FORMAT = 3
# They do not change rows, or the engine has what they result in.
_SETTINGS_WITHOUT_EFFECT = ("data", "on_error", "device", "precision", "engine")


def row_identity(
    folders: Iterable[Path],
    engines: Sequence[Engine],
    device: str,
    settings: Settings,
    data: str,
    out: Path,
) -> dict[str, Any] | None:
    """Return all that rows depend on, by the names that a message may show; None if the data has no identity.

    Args:
        folders: local folders of the models.
        engines: the engines that run the models.
        device: the setting of the device.
        settings: the settings of the command, with the columns of the data.
        data: the data that they are read from.
        out: the output, which may be in the folder of the data.
    """
    data_identity = _data_identity(data, out)
    if data_identity is None:
        return None
    options = {
        f"--{name.replace('_', '-')}": value
        for name, value in asdict(settings).items()
        if name not in _SETTINGS_WITHOUT_EFFECT
    }
    return {
        "the version": [_FORMAT, __version__, torch.__version__],
        "the model": [list(_model_identity(folder)) for folder in folders],
        "the engine": "; ".join(f"{engine.name}{_library_version(engine)}" for engine in engines),
        "the device": choose_device(device).type,
        "the micro-batch": "; ".join(str(engine.micro_batch_tokens) for engine in engines),
        "the data": data_identity,
        **options,
    }


def _library_version(engine: Engine) -> str:
    """Return the version of the library of an export, such as " 1.23"; torch's is in "the version"."""
    package = engine_name(engine)
    return "" if package == "torch" else f" {version(package)}"


def _model_identity(folder: Path) -> Iterator[list[str]]:
    """Yield name and checksum of each file of a model."""
    for file in model_files(folder):
        yield [str(file.relative_to(folder)), file_checksum(file)]


def _data_identity(data: str, out: Path) -> list[Any] | None:
    """Return values that change if data changes; None for a data set of the hub, whose version is unknown."""
    if data.startswith(HUB_PREFIX):
        return None
    url = storage_url(data)
    if url is not None and not is_folder(data):
        found = find_object(url)
        return [url, found.size, found.version] if found and found.version else None
    path = Path(local_data(data)).resolve()
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    written = {out.resolve(), unfinished_folder(out).resolve()}
    states = [
        [str(file.relative_to(path)), *_file_state(file)]
        for file in files
        if file.is_file() and written.isdisjoint((file, file.parent))
    ]
    return [str(path), json_checksum(states)]


def _file_state(file: Path) -> tuple[int, int]:
    state = file.stat()
    return state.st_size, state.st_mtime_ns

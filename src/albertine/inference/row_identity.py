"""What the rows of a table depend on: a command resumes only after rows for which all of it is the same."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from albertine.checksums import file_checksum, json_checksum
from albertine.device import choose_device
from albertine.engines.engine import Engine
from albertine.settings import Settings
from albertine.storage.objects import find_object
from albertine.storage.urls import storage_url
from albertine.tasks.formats.locations import is_folder, local_data
from albertine.text.hub_datasets import HUB_PREFIX
from albertine.version import __version__

# Raise it if a command writes other rows than before, or computes them in other chunks.
_FORMAT = 1
# Of the files of a model, those that are read. Reports and predictions may appear beside them at any time.
_MODEL_SUFFIXES = (".json", ".safetensors", ".bin", ".onnx", ".data", ".xml", ".index", ".model", ".txt")
_RESULT_FILES = ("results.json", "dev_predictions.json")
# They do not change rows, or the engine has what they result in.
_SETTINGS_WITHOUT_EFFECT = ("data", "on_error", "device", "precision", "engine")


def row_identity(
    folders: Iterable[Path], engine: Engine, device: str, settings: Settings, data: str
) -> dict[str, Any] | None:
    """Return all that rows depend on, by the names that a message may show; None if the data has no identity.

    Args:
        folders: local folders of the models.
        engine: the engine that runs the first of them.
        device: the setting of the device.
        settings: the settings of the command, with the columns of the data.
        data: the data that they are read from.
    """
    data_identity = _data_identity(data)
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
        "the engine": [engine.name, choose_device(device).type, engine.micro_batch_tokens],
        "the data": data_identity,
        **options,
    }


def _model_identity(folder: Path) -> Iterator[list[str]]:
    """Yield name and checksum of each file of a model."""
    for file in sorted(folder.iterdir()):
        # The files of TensorFlow end in .data-00000-of-00001.
        is_read = file.suffix.partition("-")[0] in _MODEL_SUFFIXES and file.name not in _RESULT_FILES
        if is_read and file.is_file():
            yield [file.name, file_checksum(file)]


def _data_identity(data: str) -> list[Any] | None:
    """Return values that change if data changes; None for a data set of the hub, whose version is unknown."""
    if data.startswith(HUB_PREFIX):
        return None
    url = storage_url(data)
    if url is not None and not is_folder(data):
        found = find_object(url)
        return [url, found.size, found.modified_ns] if found and found.modified_ns else None
    path = Path(local_data(data)).resolve()
    files = sorted(path.rglob("*")) if path.is_dir() else [path]
    states = [[str(file.relative_to(path)), *_file_state(file)] for file in files if file.is_file()]
    return [str(path), json_checksum(states)]


def _file_state(file: Path) -> tuple[int, int]:
    state = file.stat()
    return state.st_size, state.st_mtime_ns

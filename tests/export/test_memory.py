"""An export has its weights once, on disk and in memory, whatever its layers share."""

import gc
import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from tests.export.test_model_files import PLANS, write_export
from tests.model.model_fixtures import SMALL

from albertine.checksums import file_checksum
from albertine.engines.exported_engine import INPUT_NAMES
from albertine.engines.exported_folder import open_export
from albertine.engines.single_graph_engine import SingleGraphEngine
from albertine.engines.verify import random_strips, verify_export
from albertine.export.int8 import quantize
from albertine.interop.export_record import ExportRecord, read_export_record
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.engine import EngineOptions
from albertine.settings.export import ExportFormat

# So wide and deep that twelve copies of a block are far more than anything else.
_SIZES: dict[str, Any] = {
    "hidden_size": 512,
    "heads": 8,
    "embedding_size": 64,
    "ffn_size": 2048,
    "layers": 12,
    "vocab_size": 100,
    "max_length": 64,
}
_WIDER: dict[str, Any] = {**_SIZES, "hidden_size": 1024, "ffn_size": 4096}
_BYTES_WITHOUT_WEIGHTS = 80e6
_UNSHARED: dict[str, Any] = {
    "share": "none",
    "groups": 1,
    "inner_groups": 1,
    "step_rank": 0,
    "step_vectors": False,
    "step_signal": False,
}


def _loaded_bytes(folder: Path, warm_up: Path) -> int:
    """Return what loading an export and running one sentence takes, in a process that knows the library."""
    sentence = Strip.from_sequences([range(16)])
    open_export(warm_up, EngineOptions("cpu", "fp32")).run(sentence)
    gc.collect()
    before = psutil.Process().memory_info().rss
    engine = open_export(folder, EngineOptions("cpu", "fp32"))
    engine.run(sentence)
    gc.collect()
    return int(psutil.Process().memory_info().rss - before)


def _model(settings: ModelSettings) -> Model:
    """Return a model whose layers differ as after a training: new differences are zero."""
    model = Model(settings, HeadSettings("classify"), seed=1).eval()
    generator = torch.Generator().manual_seed(2)
    for name, parameter in model.named_parameters():
        if "step_differences" in name:
            parameter.data.add_(torch.randn(parameter.shape, generator=generator), alpha=0.02)
    return model


def _stored_bytes(settings: ModelSettings) -> int:
    return sum(4 * weight.numel() for weight in Model(settings, HeadSettings("classify")).parameters())


def _file_bytes(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def _write_int8(model: Model, folder: Path, to: ExportFormat, *, in_steps: bool) -> None:
    write_export(model, folder, to, in_steps=in_steps)
    quantize(folder, to, list(random_strips(model)), in_steps=in_steps)
    files = [name for name in read_export_record(folder).checksums if (folder / name).exists()]
    ExportRecord(to, "int8", in_steps, {name: file_checksum(folder / name) for name in files}).write(folder)


def _loaded_in_new_process(folder: Path) -> int:
    """Return what loading the export in `folder` takes; a small one in `warm-up` loads the library first."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return int(pool.apply(_loaded_bytes, (folder / "export", folder / "warm-up")))


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
@pytest.mark.parametrize(
    ("name", "in_steps"),
    [
        ("shared", False),
        ("shared", True),
        *(
            pytest.param(name, in_steps, marks=pytest.mark.long)
            for name, in_steps in [
                ("shared attention", False),
                ("shared feed-forward", False),
                ("groups", False),
                ("groups", True),
                ("inner groups", False),
                ("step differences", False),
            ]
        ),
    ],
)
def test_weights_are_in_memory_once(name: str, in_steps: bool, to: ExportFormat, tmp_path: Path) -> None:
    settings = replace(PLANS[name], **_SIZES)
    for folder, one in (("warm-up", SMALL), ("export", settings)):
        write_export(_model(one), tmp_path / folder, to, in_steps=in_steps)
    loaded = _loaded_in_new_process(tmp_path)
    limit = 2 * _stored_bytes(settings) + _BYTES_WITHOUT_WEIGHTS
    assert loaded < limit, f"{loaded / 1e6:.0f} MB"
    assert limit < 2 * _stored_bytes(replace(settings, **_UNSHARED))  # so the test would see copies


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
@pytest.mark.parametrize("in_steps", [False, True], ids=["whole", "steps"])
def test_int8_weights_are_in_memory_once(in_steps: bool, to: ExportFormat, tmp_path: Path) -> None:
    settings = replace(SMALL, **_WIDER)
    for folder, one in (("warm-up", SMALL), ("export", settings)):
        _write_int8(_model(one), tmp_path / folder, to, in_steps=in_steps)
    loaded = _loaded_in_new_process(tmp_path)
    limit = 2 * _stored_bytes(settings) / 4 + _BYTES_WITHOUT_WEIGHTS
    assert loaded < limit, f"{loaded / 1e6:.0f} MB"
    assert limit < 2 * _stored_bytes(replace(settings, **_UNSHARED)) / 4  # so the test would see copies


def _bytes_after_shapes(folder: Path) -> list[int]:
    """Return the memory of the process after each 300 new shapes, the largest first."""
    engine = open_export(folder, EngineOptions("cpu", "fp32"))
    assert isinstance(engine, SingleGraphEngine)
    sizes = []
    shapes = [(rows, length) for rows in range(24, 0, -1) for length in range(40, 2, -1)]
    for number, shape in enumerate(shapes, start=1):
        ones = np.ones(shape, np.int64)
        engine.run_rows(dict.fromkeys(INPUT_NAMES, ones))
        if number % 300 == 0:
            sizes.append(psutil.Process().memory_info().rss)
    return sizes


@pytest.mark.slow
def test_memory_does_not_grow_with_ever_new_shapes(tmp_path: Path) -> None:
    write_export(_model(replace(SMALL, layers=1)), tmp_path / "export", "openvino", in_steps=False)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        first, second, third = pool.apply(_bytes_after_shapes, (tmp_path / "export",))
    assert second > first  # so the test would see that it grows
    assert third - second < (second - first) / 3, f"{first:,}, {second:,} and {third:,} bytes"


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
@pytest.mark.parametrize("name", ["shared", "step differences"])
def test_files_have_the_weights_once(name: str, to: ExportFormat, tmp_path: Path) -> None:
    settings = replace(PLANS[name], **_SIZES)
    model = _model(settings)
    engine = write_export(model, tmp_path / "export", to)
    verify_export(model, engine, "the export")
    stored = _stored_bytes(settings)
    assert _file_bytes(tmp_path / "export") < 1.1 * stored
    quantize(tmp_path / "export", to, list(random_strips(model)), in_steps=False)
    assert _file_bytes(tmp_path / "export") < 0.4 * stored

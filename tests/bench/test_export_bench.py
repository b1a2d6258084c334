"""Test of the benchmark of exports: what it measures can be written and opened."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.task_fixtures import MODEL

from albertine.bench import export
from albertine.engines.exported_folder import open_export
from albertine.interop.export_record import read_export_record
from albertine.model.model import Model
from albertine.settings import HeadSettings
from albertine.settings.engine import EngineOptions
from albertine.settings.export import ExportFormat


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_exports_of_both_precisions_are_written(
    to: ExportFormat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "_CALIBRATION_STRIPS", 1)
    model = Model(replace(MODEL, max_length=64), HeadSettings("classify")).eval()
    export._write_exports(model, tmp_path, to)
    for precision in ("fp32", "int8"):
        folder = tmp_path / f"{to}-{precision}"
        assert read_export_record(folder).precision == precision
        assert open_export(folder, EngineOptions("cpu", "fp32")).run(export._random_strip([16], 60))

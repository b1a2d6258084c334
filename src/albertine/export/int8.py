"""Quantizes the weights of an exported model to int8, with the quantizer of its library.

Weights get a scale for each output channel. The ranges of activations are measured: by ONNX Runtime for
every batch at run time, for OpenVINO beforehand, on calibration rows.
"""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

from albertine.engines.exported_engine import Arrays
from albertine.engines.exported_folder import open_export, read_settings
from albertine.engines.model_files import save_openvino
from albertine.engines.no_telemetry import disable_telemetry
from albertine.engines.packed_rows import pack_rows
from albertine.engines.stepped_engine import SteppedEngine, inputs_of_graphs
from albertine.interop.export_record import read_export_record
from albertine.model.strip import Strip
from albertine.settings.engine import EngineOptions
from albertine.settings.export import ExportFormat


def quantize(folder: Path, to: ExportFormat, calibration: Sequence[Strip], *, in_steps: bool) -> None:
    """Replace the model in a folder by one in int8.

    Args:
        folder: folder of the export, in fp32.
        to: its format.
        calibration: sequences that show the ranges of activations; used for OpenVINO only.
        in_steps: whether each block and head has a graph of its own.
    """
    with _quiet():
        if to == "openvino":
            for file, inputs in _calibration_inputs(folder, calibration, in_steps=in_steps).items():
                _quantize_openvino(file, inputs)
        elif in_steps:
            _quantize_steps(folder)
        else:
            _quantize_onnx(folder / "model.onnx")
            (folder / "model.onnx.data").unlink(missing_ok=True)


def _calibration_inputs(
    folder: Path, strips: Sequence[Strip], *, in_steps: bool
) -> dict[Path, Sequence[Arrays]]:
    """Return the inputs of each graph of an OpenVINO export in fp32."""
    if not in_steps:
        reads_parts = not read_export_record(folder).embeds and read_settings(folder)[1].co_matching
        rows = [pack_rows(strip, reads_parts=reads_parts) for strip in strips]
        return {folder / "model.xml": [one.inputs for one in rows]}
    engine = open_export(folder, EngineOptions("cpu", "fp32"))
    assert isinstance(engine, SteppedEngine)
    return {folder / f"{name}.xml": inputs for name, inputs in inputs_of_graphs(engine, strips).items()}


def _quantize_onnx(model: Path, operations: Sequence[str] | None = None) -> None:
    """Replace an ONNX file by one in int8; if given, only with these operations."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    quantized = model.with_name("quantized.onnx")
    # Seven bits: processors without VNNI instructions add two products of eight bits in 16 bits, which
    # may overflow.
    quantize_dynamic(
        model,
        quantized,
        op_types_to_quantize=operations,
        per_channel=True,
        reduce_range=True,
        weight_type=QuantType.QInt8,
    )
    quantized.replace(model)


def _quantize_steps(folder: Path) -> None:
    """Quantize the matrices of all graphs, and the token embedding with a scale for each token."""
    from albertine.engines.step_graphs import quantize_table

    for file in sorted(folder.glob("*.onnx")):
        _quantize_onnx(file, ["MatMul"])
    quantize_table(folder)


def _quantize_openvino(file: Path, calibration: Sequence[Arrays]) -> None:
    disable_telemetry()
    import nncf

    from albertine.engines.openvino_session import openvino_core

    quantized = nncf.quantize(
        openvino_core().read_model(file),
        nncf.Dataset(calibration),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(calibration),
        # Weights of seven bits in all products, for the reason given for ONNX.
        advanced_parameters=nncf.AdvancedQuantizationParameters(overflow_fix=nncf.OverflowFix.ENABLE),
    )
    save_openvino(quantized, file)


@contextmanager
def _quiet() -> Iterator[None]:
    """Suppress the progress bars and warnings of the libraries, which are about their own code."""
    levels = {name: logging.getLogger(name).level for name in ("nncf", "root")}
    with warnings.catch_warnings(), redirect_stdout(StringIO()):
        warnings.simplefilter("ignore")
        try:
            for name in levels:
                logging.getLogger(name).setLevel(logging.ERROR)
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)

"""Quantizes the weights of an exported model to int8, with the quantizer of its library.

Weights get a scale for each output channel. The ranges of activations are measured: by ONNX Runtime for
every batch at run time, for OpenVINO beforehand, on calibration rows.
"""

import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from albertine.engines.model_files import save_openvino
from albertine.engines.no_telemetry import disable_telemetry
from albertine.settings.export import ExportFormat

Inputs = Mapping[str, NDArray[Any]]


def quantize(folder: Path, to: ExportFormat, calibration: Sequence[Inputs]) -> None:
    """Replace the model in a folder by one in int8.

    Args:
        folder: folder of the export, in fp32.
        to: its format.
        calibration: inputs that show the ranges of activations; used for OpenVINO only.
    """
    with _quiet():
        if to == "onnx":
            _quantize_onnx(folder / "model.onnx")
            (folder / "model.onnx.data").unlink(missing_ok=True)
        elif to == "web":
            _quantize_web(folder)
        else:
            _quantize_openvino(folder, calibration)


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


def _quantize_web(folder: Path) -> None:
    """Quantize the matrices of all graphs, and the token embedding with a scale for each token."""
    from albertine.engines.web_graphs import quantize_table

    for file in sorted(folder.glob("*.onnx")):
        _quantize_onnx(file, ["MatMul"])
    quantize_table(folder)


def _quantize_openvino(folder: Path, calibration: Sequence[Inputs]) -> None:
    disable_telemetry()
    import nncf
    import openvino

    model = openvino.Core().read_model(folder / "model.xml")
    quantized = nncf.quantize(
        model,
        nncf.Dataset(calibration),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(calibration),
    )
    save_openvino(quantized, folder)


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

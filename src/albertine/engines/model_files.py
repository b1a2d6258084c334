"""Writes the files of an exported model: ONNX, OpenVINO's own format, or ONNX in parts for browsers."""

from pathlib import Path

import onnx_ir as ir

from albertine.engines.no_telemetry import disable_telemetry
from albertine.engines.onnx_graph import onnx_graph, store_weights_transposed
from albertine.engines.web_graphs import write_web_graphs
from albertine.model.model import Model
from albertine.settings.export import ExportFormat

_MAX_FILE_BYTES = 1_900_000_000  # an ONNX file has less than 2 GB; larger weights are in a file beside it


def write_model(model: Model, folder: Path, to: ExportFormat) -> list[str]:
    """Write a model in fp32 and return the names of its files; the first is the one to open."""
    if to == "web":
        return write_web_graphs(model, folder)
    graph = onnx_graph(model)
    return _write_openvino(graph, folder) if to == "openvino" else _write_onnx(graph, folder)


def _write_onnx(graph: ir.Model, folder: Path) -> list[str]:
    store_weights_transposed(graph)
    return _save(graph, folder)


def _save(graph: ir.Model, folder: Path) -> list[str]:
    sizes = [value.const_value.nbytes for value in graph.graph.initializers.values() if value.const_value]
    weights = "model.onnx.data" if sum(sizes) > _MAX_FILE_BYTES else None
    ir.save(graph, folder / "model.onnx", external_data=weights)
    return ["model.onnx"] if weights is None else ["model.onnx", weights]


def _write_openvino(graph: ir.Model, folder: Path) -> list[str]:
    disable_telemetry()
    import openvino

    onnx_files = _save(graph, folder)
    model = openvino.convert_model(folder / onnx_files[0])
    save_openvino(model, folder)
    for name in onnx_files:
        (folder / name).unlink()
    return ["model.xml", "model.bin"]


def save_openvino(model: object, folder: Path) -> None:
    """Write `model.xml` and `model.bin`; the weights of `model` may be in the files that they replace."""
    disable_telemetry()
    import openvino

    openvino.save_model(model, folder / "new.xml", compress_to_fp16=False)
    for suffix in (".xml", ".bin"):
        (folder / "new").with_suffix(suffix).replace((folder / "model").with_suffix(suffix))

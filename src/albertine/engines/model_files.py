"""Writes the files of an exported model, in one graph or in parts, as ONNX or in OpenVINO's own format."""

from pathlib import Path

import onnx_ir as ir

from albertine.engines.no_telemetry import disable_telemetry
from albertine.engines.onnx_graph import onnx_graph, store_weights_transposed
from albertine.engines.step_graphs import step_onnx_graphs, write_step_graphs
from albertine.model.model import Model
from albertine.settings.export import ExportFormat

_MAX_FILE_BYTES = 1_900_000_000  # an ONNX file has less than 2 GB; larger weights are in a file beside it


def write_model(model: Model, folder: Path, to: ExportFormat, *, in_steps: bool) -> list[str]:
    """Write a model in fp32 and return the names of its files; the first is the one to open.

    Args:
        model: the model, in evaluation mode.
        folder: folder to write to.
        to: format of the files.
        in_steps: write a graph for each block and head, in place of one with all layers.
    """
    if not in_steps:
        return write_graph(onnx_graph(model), folder, to)
    if to != "openvino":
        return write_step_graphs(model, folder)
    return [file for name, graph in step_onnx_graphs(model) for file in _write_openvino(graph, folder, name)]


def write_graph(graph: ir.Model, folder: Path, to: ExportFormat) -> list[str]:
    """Write a graph and return the names of its files; the first is the one to open."""
    return _write_openvino(graph, folder, "model") if to == "openvino" else _write_onnx(graph, folder)


def _write_onnx(graph: ir.Model, folder: Path) -> list[str]:
    store_weights_transposed(graph)
    return _save(graph, folder)


def _save(graph: ir.Model, folder: Path) -> list[str]:
    sizes = [value.const_value.nbytes for value in graph.graph.initializers.values() if value.const_value]
    weights = "model.onnx.data" if sum(sizes) > _MAX_FILE_BYTES else None
    ir.save(graph, folder / "model.onnx", external_data=weights)
    return ["model.onnx"] if weights is None else ["model.onnx", weights]


def _write_openvino(graph: ir.Model, folder: Path, name: str) -> list[str]:
    disable_telemetry()
    import openvino

    onnx_files = _save(graph, folder)
    model = openvino.convert_model(folder / onnx_files[0])
    save_openvino(model, folder / f"{name}.xml")
    for file in onnx_files:
        (folder / file).unlink()
    return [f"{name}.xml", f"{name}.bin"]


def save_openvino(model: object, file: Path) -> None:
    """Write an .xml file and its .bin; the weights of `model` may be in the files that they replace."""
    disable_telemetry()
    import openvino

    new = file.with_name("new.xml")
    openvino.save_model(model, new, compress_to_fp16=False)
    for suffix in (".xml", ".bin"):
        new.with_suffix(suffix).replace(file.with_suffix(suffix))

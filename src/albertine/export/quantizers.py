"""The quantizers of a model in int8: the operations that round an activation, and how to remove some of them.

Without its quantizer, an activation stays in floating point. What it is multiplied by does not change, so
files do not grow.
"""

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir
from onnx_ir.passes.common import RemoveUnusedNodesPass

from albertine.engines.model_files import save_openvino
from albertine.engines.no_telemetry import disable_telemetry
from albertine.engines.step_files import STOP
from albertine.settings.export import ExportFormat


@dataclass(frozen=True)
class Quantizer:
    """An operation that rounds an activation to int8.

    Attributes:
        file: name of the file of its graph.
        name: its name in the graph.
    """

    file: str
    name: str


def find_quantizers(folder: Path, to: ExportFormat) -> list[Quantizer]:
    """Return the quantizers of all graphs in a folder but the exit unit, which has no part in the scores."""
    find_in_file = _names_in_openvino if to == "openvino" else _names_in_onnx
    return [
        Quantizer(file.name, name)
        for file in _graph_files(folder, to)
        if file.stem != STOP
        for name in find_in_file(file)
    ]


def write_without(original: Path, folder: Path, to: ExportFormat, quantizers: Collection[Quantizer]) -> None:
    """Write the graphs of a folder to another one, without some of their quantizers."""
    write = _write_openvino_without if to == "openvino" else _write_onnx_without
    for file in _graph_files(original, to):
        names = {quantizer.name for quantizer in quantizers if quantizer.file == file.name}
        write(file, folder / file.name, names)


def _graph_files(folder: Path, to: ExportFormat) -> list[Path]:
    return sorted(folder.glob("*.xml" if to == "openvino" else "*.onnx"))


def _names_in_onnx(file: Path) -> list[str]:
    return [node.name or "" for node in _onnx_quantizers(ir.load(file))]


def _names_in_openvino(file: Path) -> list[str]:
    return [operation.get_friendly_name() for operation in _openvino_quantizers(_read_openvino(file))]


def _onnx_quantizers(model: ir.Model) -> list[ir.Node]:
    """Return the quantizers of activations that are multiplied by weights."""
    return [
        node
        for node in model.graph
        if node.op_type == "DynamicQuantizeLinear"
        and all(use.node.op_type == "MatMulInteger" for use in node.outputs[0].uses())
    ]


def _write_onnx_without(file: Path, target: Path, names: Collection[str]) -> None:
    """Write a graph in which some activations are multiplied as floats by weights in int8.

    The quantizer of ONNX Runtime writes a product as (a_q W_q) (s_a s_W): of the activation a and the weights
    W, both rounded, and of their scales. Here it becomes (a W_q) s_W. The zero points of weights are 0.
    """
    model = ir.load(file)
    graph, dequantized = model.graph, dict[str, ir.Value]()
    for quantizer in _onnx_quantizers(model):
        if quantizer.name not in names:
            continue
        activation, scale = quantizer.inputs[0], quantizer.outputs[1]
        for product in _users(quantizer.outputs[0]):
            weights = product.inputs[1]
            assert weights is not None
            assert weights.name is not None
            if weights.name not in dequantized:  # layers share weights
                cast = ir.node("Cast", [weights], {"to": ir.DataType.FLOAT})
                graph.insert_before(graph[0], cast)
                dequantized[weights.name] = cast.outputs[0]
            float_product = ir.node("MatMul", [activation, dequantized[weights.name]])
            graph.insert_before(product, float_product)
            (cast_product,) = _users(product.outputs[0])
            (scaled,) = _users(cast_product.outputs[0])
            scaled.replace_input_with(_index(scaled, cast_product.outputs[0]), float_product.outputs[0])
            (scales,) = {node for node in _users(scale) if node.outputs[0] in scaled.inputs}
            scale_of_weights = scales.inputs[1 - _index(scales, scale)]
            scaled.replace_input_with(_index(scaled, scales.outputs[0]), scale_of_weights)
    RemoveUnusedNodesPass()(model)
    ir.save(model, target)


def _users(value: ir.Value) -> list[ir.Node]:
    return [use.node for use in value.uses()]


def _index(node: ir.Node, value: ir.Value) -> int:
    """Return which of the two inputs of an operation a value is."""
    return next(index for index in (0, 1) if node.inputs[index] is value)


def _read_openvino(file: Path) -> Any:
    disable_telemetry()
    from albertine.engines.openvino_session import openvino_core

    return openvino_core().read_model(file)


def _openvino_quantizers(model: Any) -> list[Any]:
    """Return the quantizers of a model; its weights are already stored in int8, without one."""
    return [operation for operation in model.get_ordered_ops() if operation.get_type_name() == "FakeQuantize"]


def _write_openvino_without(file: Path, target: Path, names: Collection[str]) -> None:
    model = _read_openvino(file)
    for operation in _openvino_quantizers(model):
        if operation.get_friendly_name() in names:
            for reader in operation.output(0).get_target_inputs():
                reader.replace_source_output(operation.input_value(0))
    save_openvino(model, target)

"""The operations of a model in int8 that round its activations, and how to remove some of them.

Without its quantizer, an activation stays in floating point, and is multiplied by the same weights in int8:
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
from albertine.settings.export import ExportFormat


@dataclass(frozen=True)
class Quantizer:
    """An operation that rounds one activation.

    Attributes:
        file: name of the file of its graph.
        name: its name in the graph.
    """

    file: str
    name: str


def find_quantizers(folder: Path, to: ExportFormat) -> list[Quantizer]:
    """Return the quantizers of all graphs in a folder."""
    if to == "openvino":
        return [
            Quantizer(file.name, operation.get_friendly_name())
            for file in sorted(folder.glob("*.xml"))
            for operation in _openvino_quantizers(_read_openvino(file))
        ]
    return [
        Quantizer(file.name, node.name or "")
        for file in sorted(folder.glob("*.onnx"))
        for node in _onnx_quantizers(ir.load(file))
    ]


def remove_quantizers(folder: Path, to: ExportFormat, quantizers: Collection[Quantizer]) -> None:
    """Remove quantizers from the graphs in a folder."""
    for file in sorted({quantizer.file for quantizer in quantizers}):
        names = {quantizer.name for quantizer in quantizers if quantizer.file == file}
        if to == "openvino":
            _remove_from_openvino(folder / file, names)
        else:
            _remove_from_onnx(folder / file, names)


def _onnx_quantizers(model: ir.Model) -> list[ir.Node]:
    """Return the quantizers of activations that are multiplied by weights."""
    return [
        node
        for node in model.graph
        if node.op_type == "DynamicQuantizeLinear"
        and all(use.node.op_type == "MatMulInteger" for use in node.outputs[0].uses())
    ]


def _remove_from_onnx(file: Path, names: Collection[str]) -> None:
    """Multiply activations as floats by weights in int8.

    The quantizer of ONNX Runtime writes a product as (a_q W_q) (s_a s_W): of the activation a and the weights
    W, both rounded, and of their scales. Here it becomes (a W_q) s_W. The zero points of weights are 0.
    """
    model = ir.load(file)
    graph, floats = model.graph, dict[str, ir.Value]()
    for quantizer in _onnx_quantizers(model):
        if quantizer.name not in names:
            continue
        activation, scale = quantizer.inputs[0], quantizer.outputs[1]
        for product in _users(quantizer.outputs[0]):
            weights = product.inputs[1]
            assert weights is not None
            assert weights.name is not None
            if weights.name not in floats:  # layers share weights
                cast = ir.node("Cast", [weights], {"to": ir.DataType.FLOAT})
                graph.insert_before(graph[0], cast)
                floats[weights.name] = cast.outputs[0]
            in_floats = ir.node("MatMul", [activation, floats[weights.name]])
            graph.insert_before(product, in_floats)
            (cast_product,) = _users(product.outputs[0])
            (scaled,) = _users(cast_product.outputs[0])
            scaled.replace_input_with(_index(scaled, cast_product.outputs[0]), in_floats.outputs[0])
            (scales,) = {node for node in _users(scale) if node.outputs[0] in scaled.inputs}
            scale_of_weights = scales.inputs[1 - _index(scales, scale)]
            scaled.replace_input_with(_index(scaled, scales.outputs[0]), scale_of_weights)
    RemoveUnusedNodesPass()(model)
    ir.save(model, file)


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


def _remove_from_openvino(file: Path, names: Collection[str]) -> None:
    model = _read_openvino(file)
    for operation in _openvino_quantizers(model):
        if operation.get_friendly_name() in names:
            for target in operation.output(0).get_target_inputs():
                target.replace_source_output(operation.input_value(0))
    save_openvino(model, file)

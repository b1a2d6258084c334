"""A model as an ONNX graph: one node for each operation of each layer, and every weight once.

Layers that share a block refer to the same initializers, so the graph of ALBERT is as small on disk as
its checkpoint. Its inputs are those of `PaddedModel`; rows may be packed with several sequences.
"""

import logging
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir
import torch
from onnx_ir.passes.common import DeduplicateInitializersPass
from torch import Tensor, nn
from torch.export import Dim

from albertine.engines.exported_engine import AT_FIRST_TOKEN, INPUT_NAMES
from albertine.engines.packed_rows import split_token_types
from albertine.model.co_matching_head import CoMatchingHead
from albertine.model.model import Model
from albertine.model.padded import PaddedModel, first_tokens, visible_tokens

_MAX_DEDUPLICATED_ELEMENTS = 8 << 20  # more than those of any weight whose transpose the exporter computes
_OPSET = 20  # the first with GELU as an operation


class ExportedModel(nn.Module):
    """A model with the inputs and outputs of its export.

    Logits of sequences come twice: under their name for rows of one sequence each, [rows, ...], and under
    "packed_" and their name at the first token of each sequence of a packed row, [rows, length, ...].
    A head that reads parts of a sequence has the first form alone; see `packed_rows`.
    """

    def __init__(self, model: Model):
        super().__init__()
        self.padded = PaddedModel(model)
        self.head = model.head

    def forward(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor) -> dict[str, Tensor]:
        """Return the logits of the head; see `PaddedModel.forward`."""
        if isinstance(self.head, CoMatchingHead):
            segments, part_ids = split_token_types(token_type_ids)
            hidden = self.padded.hidden(input_ids, attention_mask, segments)
            return {"logits": self.head.of_rows(hidden, part_ids)}
        hidden = self.padded.hidden(input_ids, attention_mask, token_type_ids)
        logits: dict[str, Tensor] = self.head.logits_of_tokens(hidden)
        states = self.head.sequence_states(hidden, visible_tokens(attention_mask), token_type_ids)
        at_tokens: dict[str, Tensor] = self.head.logits_of_sequences(states)
        for name, values in at_tokens.items():
            logits[name] = first_tokens(values, attention_mask)
            logits[AT_FIRST_TOKEN + name] = values
        return logits


def onnx_graph(model: Model) -> ir.Model:
    """Return an ONNX graph of a model in evaluation mode, in fp32."""
    return graph_of_rows(ExportedModel(model).eval(), model.settings.max_length)


def graph_of_rows(exported: nn.Module, max_length: int) -> ir.Model:
    """Return an ONNX graph of a module that takes the inputs of an export, and returns tensors by name."""
    ids, mask, segments = (torch.ones(2, min(8, max_length), dtype=torch.long) for _ in INPUT_NAMES)
    inputs = (ids, mask, segments.zero_())  # a model may have one segment
    with torch.no_grad():
        names = list(exported(*inputs))
    shape = {0: Dim("rows"), 1: Dim("length")}
    return graph_of_module(
        exported, dict(zip(INPUT_NAMES, inputs, strict=True)), names, [shape] * len(inputs)
    )


def graph_of_module(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    output_names: Sequence[str],
    dynamic_shapes: Sequence[Mapping[int, Any]],
) -> ir.Model:
    """Return an ONNX graph of a module in evaluation mode.

    Args:
        module: the module.
        inputs: example of each argument of its forward pass, by the name of the graph's input.
        output_names: names of its outputs.
        dynamic_shapes: dimensions of each input that may have any size, by index.
    """
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it warns that torchvision is not installed
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of torch's own code
        program = torch.onnx.export(
            module,
            tuple(inputs.values()),
            dynamo=True,
            input_names=list(inputs),
            output_names=list(output_names),
            dynamic_shapes=tuple(dict(shape) for shape in dynamic_shapes),
            opset_version=_OPSET,
            verbose=False,
        )
    assert program is not None
    # The exporter computes the transpose of a small weight by itself, once for each layer.
    DeduplicateInitializersPass(size_limit=_MAX_DEDUPLICATED_ELEMENTS)(program.model)
    return program.model


def store_weights_transposed(graph: ir.Model) -> None:
    """Store each weight that only `Transpose` nodes read transposed, and remove these nodes.

    The token embedding, which a masked-LM head also multiplies by, is stored once and stays as it is.
    """
    initializers = graph.graph.initializers
    transposed: dict[str, ir.Value] = {}
    for node in list(graph.graph):
        weight = node.inputs[0] if node.op_type == "Transpose" else None
        if weight is None or weight.name not in initializers or len(_operations(weight)) > 1:
            continue
        name = weight.name
        assert name is not None
        if name not in transposed:
            assert weight.const_value is not None
            values = weight.const_value.numpy().T.copy()
            tensor = ir.tensor(values, name=f"{name}.transposed")
            transposed[name] = ir.val(tensor.name, const_value=tensor)
            initializers.add(transposed[name])
        node.outputs[0].replace_all_uses_with(transposed[name])
        graph.graph.remove(node, safe=True)
        if not weight.uses():
            del initializers[name]


def _operations(value: ir.Value) -> set[str]:
    return {node.op_type for node, _ in value.uses()}

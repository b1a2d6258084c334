"""A model as graphs for a loop: the embedding, each distinct block, and the head.

`step_files.py` lists them. A block is called again and again, and a head after each step, so that depth can
be watched in a browser, and sequences can leave when their prediction is final. Each block is a graph of its
own, so that its weights are stored once whatever the depth. In ONNX, the token embedding is in a file beside
the graphs, because the decoder of a masked-LM head is the same matrix.
"""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import onnx_ir as ir
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.export import Dim

from albertine.engines.onnx_graph import graph_of_module, store_weights_transposed
from albertine.engines.step_files import EMBED, STOP, TABLE_FILE, block_graphs, head_graphs
from albertine.model.attention import multi_head_attention
from albertine.model.depth_plan import BlockIndices, depth_plan
from albertine.model.encoder import ComputeOptions
from albertine.model.head import Head
from albertine.model.learned_exit import ExitUnit
from albertine.model.match_marks import matches_in_rows
from albertine.model.model import Model
from albertine.model.padded import attention_bias, visible_tokens

_OPTIONS = ComputeOptions(kernels=False)
_ROWS, _LENGTH = Dim("rows"), Dim("length")
_EXAMPLE_SHAPE = (2, 8)


class _Embed(nn.Module):
    """Token ids, segments and positions, [rows, length], to states, [rows, length, hidden].

    A model that marks matches also needs the mask, to find the tokens of the same sequence.
    """

    def __init__(self, model: Model):
        super().__init__()
        self.embedding = model.encoder.embedding

    def forward(
        self,
        input_ids: Tensor,
        token_type_ids: Tensor,
        position_ids: Tensor,
        attention_mask: Tensor | None = None,
    ) -> Tensor:
        is_match = None
        if attention_mask is not None:
            is_match = matches_in_rows(input_ids, token_type_ids, visible_tokens(attention_mask))
        states: Tensor = self.embedding(
            input_ids, token_type_ids, position_ids, is_match, _OPTIONS.dtype, _OPTIONS.selected_kernels
        )
        return states


class _Block(nn.Module):
    """States to states, [rows, length, hidden]; `step` is used only if there is a signal of the step."""

    def __init__(self, model: Model, block: BlockIndices):
        super().__init__()
        self.encoder, self.block = model.encoder, block

    def forward(
        self, states: Tensor, attention_mask: Tensor, position_ids: Tensor, step: Tensor | None = None
    ) -> Tensor:
        attend = partial(
            multi_head_attention,
            heads=self.encoder.settings.heads,
            dropout=0.0,
            attention_bias=attention_bias(visible_tokens(attention_mask), _OPTIONS.dtype),
        )
        with_positions = self.encoder.with_positions(attend, position_ids)
        step = torch.zeros((), dtype=torch.long) if step is None else step
        return self.encoder.apply_block(states, step, self.block, with_positions, _OPTIONS)


class _HeadGraph(nn.Module):
    """States, [rows, length, hidden], to logits of tokens, [rows, length, ...], and of rows, [rows, ...].

    The logits of a row are those of its first token. These heads treat every token by itself, so that rows
    may be any tokens. A head that compares the texts of a pair also needs the mask and the segments, and
    gives the logits of each sequence at its tokens, [rows, length, ...].
    """

    def __init__(self, model: Model, head: Head):
        super().__init__()
        self.encoder, self.head = model.encoder, head

    def forward(
        self, states: Tensor, attention_mask: Tensor | None = None, token_type_ids: Tensor | None = None
    ) -> dict[str, Tensor]:
        hidden = self.encoder.normalized_output(states)
        if attention_mask is None or token_type_ids is None:
            return self.head.logits_of_tokens(hidden) | self.head.logits_of_sequences(hidden[:, 0])
        of_sequences = self.head.sequence_states(hidden, visible_tokens(attention_mask), token_type_ids)
        return self.head.logits_of_sequences(of_sequences)


class _Stop(nn.Module):
    """States of [CLS] before and after a step, [sequences, hidden], to the logit to stop, [sequences]."""

    def __init__(self, model: Model, unit: ExitUnit):
        super().__init__()
        self.encoder, self.unit = model.encoder, unit

    def forward(self, before: Tensor, after: Tensor) -> Tensor:
        logits: Tensor = self.unit(
            self.encoder.normalized_output(before), self.encoder.normalized_output(after)
        )
        return logits


def step_onnx_graphs(model: Model) -> Iterator[tuple[str, ir.Model]]:
    """Yield the name and the graph of each part of a model, in fp32, the embedding first."""
    model.eval()
    settings, is_written = model.settings, set()
    states = torch.zeros(*_EXAMPLE_SHAPE, settings.hidden_size)
    tokens, mask, positions = (torch.ones(_EXAMPLE_SHAPE, dtype=torch.long) for _ in range(3))
    segments = torch.zeros_like(tokens)  # a model may have one segment
    of_rows = {0: _ROWS, 1: _LENGTH}
    inputs = {"input_ids": tokens, "token_type_ids": segments, "position_ids": positions}
    if settings.mark_matches:
        inputs["attention_mask"] = mask
    yield EMBED, graph_of_module(_Embed(model), inputs, ["states"], [of_rows] * len(inputs))
    block_names = [name for names in block_graphs(settings) for name in names]
    for name, block in dict(zip(block_names, depth_plan(settings), strict=True)).items():
        inputs = {"states": states, "attention_mask": mask, "position_ids": positions}
        shapes: list[dict[int, Dim]] = [of_rows] * 3
        if settings.step_signal:
            inputs["step"], shapes = torch.zeros((), dtype=torch.long), [*shapes, {}]
        yield name, graph_of_module(_Block(model, block), inputs, ["next_states"], shapes)
    for step, name in enumerate(head_graphs(settings, model.head_settings)):
        if name not in is_written:
            is_written.add(name)
            inputs = {"states": states}
            if model.head_settings.matching:
                inputs |= {"attention_mask": mask, "token_type_ids": segments}
            module = _HeadGraph(model, model.head_at(step + 1))
            with torch.no_grad():
                outputs = list(module(**inputs))
            yield name, graph_of_module(module, inputs, outputs, [of_rows] * len(inputs))
    if model.exit_unit is not None:
        cls_states = {"before": states[:, 0].clone(), "after": states[:, 0].clone()}
        yield STOP, graph_of_module(_Stop(model, model.exit_unit), cls_states, ["logits"], [{0: _ROWS}] * 2)


def write_step_graphs(model: Model, folder: Path) -> list[str]:
    """Write the graphs of a model in ONNX, in fp32; return the names of the files, the embedding first."""
    table = np.ascontiguousarray(model.encoder.embedding.tokens.weight.detach().numpy())
    (folder / TABLE_FILE).write_bytes(table.tobytes())
    names = []
    for name, graph in step_onnx_graphs(model):
        store_weights_transposed(graph)
        _refer_to_table(graph, table)
        _save(graph, folder / f"{name}.onnx")
        names.append(f"{name}.onnx")
    return [*names, TABLE_FILE]


def quantize_table(folder: Path) -> None:
    """Replace the token embedding by one in int8, with a scale for each token, in the file and all graphs."""
    table = _read_table(ir.load(folder / f"{EMBED}.onnx"), folder)
    scales = np.maximum(np.abs(table).max(1) / 127, np.finfo(np.float32).tiny).astype(np.float32)
    values = np.round(table / scales[:, None]).astype(np.int8)
    for file in sorted(folder.glob("*.onnx")):
        graph = ir.load(file)
        _refer_to_table(graph, table)
        for name, value in list(graph.graph.initializers.items()):
            if isinstance(value.const_value, ir.ExternalTensor):
                _dequantize(graph, name, values, scales)
        _save(graph, file)
    (folder / TABLE_FILE).write_bytes(values.tobytes())


def _dequantize(graph: ir.Model, name: str, values: NDArray[np.int8], scales: NDArray[np.float32]) -> None:
    """Replace the token embedding in a graph by operations that compute it from int8.

    These are not DequantizeLinear: with it, ONNX Runtime Web 1.30 cannot open the head of a large vocabulary.
    """
    stored = ir.val(f"{name}.int8", const_value=_table_tensor(f"{name}.int8", values))
    factors = ir.val(f"{name}.scales", const_value=ir.tensor(scales[:, None], name=f"{name}.scales"))
    for value in (stored, factors):
        graph.graph.initializers.add(value)
    cast = ir.node("Cast", [stored], {"to": ir.DataType.FLOAT})
    product = ir.node("Mul", [cast.outputs[0], factors])
    graph.graph.insert_before(graph.graph[0], [cast, product])
    graph.graph.initializers[name].replace_all_uses_with(product.outputs[0])
    del graph.graph.initializers[name]


def _read_table(graph: ir.Model, folder: Path) -> NDArray[np.float32]:
    """Return the token embedding in fp32, whose shape is in the graph of the embedding."""
    (gather,) = {
        node.inputs[0]
        for node in graph.graph
        if node.op_type == "Gather" and node.inputs[1] is graph.graph.inputs[0]
    }
    assert gather is not None
    assert gather.shape is not None
    return np.fromfile(folder / TABLE_FILE, np.float32).reshape(gather.shape.numpy())


def _save(graph: ir.Model, file: Path) -> None:
    """Write a graph without the notes of the exporter, which name its source files."""
    for node in graph.graph:
        node.metadata_props.clear()
    ir.save(graph, file)


def _refer_to_table(graph: ir.Model, values: NDArray[np.generic]) -> None:
    """Replace initializers with these values by references to the file of the token embedding.

    The exporter transposes a small matrix by itself; this becomes an operation again.
    """
    for name, value in list(graph.graph.initializers.items()):
        tensor = None if value.const_value is None else value.const_value.numpy()
        if tensor is None or tensor.ndim != 2:
            continue
        if tensor.shape == values.shape and np.array_equal(tensor, values):
            value.const_value = _table_tensor(name, values)
        elif tensor.T.shape == values.shape and np.array_equal(tensor.T, values):
            stored = ir.val(f"{name}.stored", const_value=_table_tensor(f"{name}.stored", values))
            graph.graph.initializers.add(stored)
            transpose = ir.node("Transpose", [stored])
            graph.graph.insert_before(graph.graph[0], transpose)
            value.replace_all_uses_with(transpose.outputs[0])
            del graph.graph.initializers[name]


def _table_tensor(name: str, values: NDArray[np.generic]) -> ir.ExternalTensor:
    """Return a tensor whose values are in the file of the token embedding."""
    dtype = ir.DataType.from_numpy(values.dtype)
    shape = ir.Tensor(values).shape
    return ir.ExternalTensor(TABLE_FILE, 0, values.nbytes, dtype, shape=shape, name=name)

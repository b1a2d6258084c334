"""Exported models of every head and every plan have the outputs of their source, with weights stored once."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from tests.model.model_fixtures import SMALL
from tests.model.test_padded import HEADS, VARIANTS, make_model

from albertine.checksums import file_checksum
from albertine.engines.exported_engine import ExportedEngine
from albertine.engines.exported_folder import open_export
from albertine.engines.model_files import write_model
from albertine.engines.single_graph_engine import SingleGraphEngine
from albertine.engines.verify import largest_difference, random_strips, verify_export
from albertine.errors import WorkError
from albertine.interop.export_record import ExportRecord
from albertine.interop.save_checkpoint import write_config
from albertine.model.model import Model
from albertine.model.prediction_heads import PredictionOutput
from albertine.model.pretraining_heads import MaskedLMOutput, PretrainingOutput
from albertine.model.span_head import SpanOutput
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.engine import EngineOptions
from albertine.settings.export import ExportFormat

PLANS = {
    **VARIANTS,
    "one segment": replace(SMALL, segments=1),
    "norms first, rotary": replace(SMALL, norm_first=True, rotary=True),
    "halting": replace(SMALL, depth_rule="halting"),
    "step signal": replace(SMALL, step_signal=True),
    "step differences": replace(SMALL, step_rank=2, step_vectors=True, step_signal=True),
}


FORMS: list[tuple[ExportFormat, bool]] = [
    (to, in_steps) for to in ("onnx", "openvino") for in_steps in (False, True)
]


def write_export(model: Model, folder: Path, to: ExportFormat, *, in_steps: bool = False) -> ExportedEngine:
    folder.mkdir()
    files = write_model(model, folder, to, in_steps=in_steps)
    write_config(model, folder)
    ExportRecord(to, "fp32", in_steps, {name: file_checksum(folder / name) for name in files}).write(folder)
    return open_export(folder, EngineOptions("cpu", "fp32"))


def check_outputs(model: Model, engine: ExportedEngine) -> None:
    """Compare padded rows, packed rows and the output of the engine with the model."""
    for strip in random_strips(model):
        assert largest_difference(model, engine, strip) < 1e-5
        with torch.no_grad():
            expected, actual = model(strip), engine.run(strip)
        assert type(actual) is type(expected)
        for value, other in zip(tensors(actual), tensors(expected), strict=True):
            assert value.shape == other.shape
            assert (value - other).abs().max() < 2e-5


def tensors(output: object) -> list[torch.Tensor]:
    match output:
        case PredictionOutput(logits):
            return [logits]
        case MaskedLMOutput():
            return [output.logits]
        case PretrainingOutput(masked, pair_logits):
            return [masked.logits, pair_logits]
        case SpanOutput(start, end, answerable):
            return [start, end] if answerable is None else [start, end, answerable]
    raise AssertionError(output)


@pytest.mark.slow
@pytest.mark.parametrize(("to", "in_steps"), FORMS)
def test_an_export_has_the_outputs_of_its_source(to: ExportFormat, in_steps: bool, tmp_path: Path) -> None:
    model = make_model(head=HEADS["pretrain"])
    check_outputs(model, write_export(model, tmp_path / "export", to, in_steps=in_steps))


def heads_and_forms() -> list[Any]:
    """Return all combinations."""
    return [
        pytest.param(head, to, in_steps, id=f"{name}-{to}-{'steps' if in_steps else 'whole'}")
        for name, head in HEADS.items()
        for to, in_steps in FORMS
    ]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("head", "to", "in_steps"), heads_and_forms())
def test_every_head_can_be_exported(
    head: HeadSettings, to: ExportFormat, in_steps: bool, tmp_path: Path
) -> None:
    model = make_model(head=head)
    check_outputs(model, write_export(model, tmp_path / "export", to, in_steps=in_steps))


def plans_and_forms() -> list[Any]:
    """Return all combinations except for steps that are not calls of the same block, which are refused."""
    return [
        pytest.param(plan, to, in_steps, id=f"{name}-{to}-{'steps' if in_steps else 'whole'}")
        for name, plan in PLANS.items()
        for to, in_steps in FORMS
        if not in_steps or (plan.depth_rule == "fixed" and not plan.has_step_differences)
    ]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(("plan", "to", "in_steps"), plans_and_forms())
def test_every_plan_can_be_exported(
    plan: ModelSettings, to: ExportFormat, in_steps: bool, tmp_path: Path
) -> None:
    model = make_model(plan, HEADS["answerable span"])
    check_outputs(model, write_export(model, tmp_path / "export", to, in_steps=in_steps))


@pytest.mark.slow
@pytest.mark.parametrize("layers", [2, 6])
def test_weights_are_stored_once_however_many_layers_use_them(layers: int, tmp_path: Path) -> None:
    model = Model(replace(SMALL, layers=layers), HeadSettings("classify"))
    (name,) = write_model(model, tmp_path, "onnx", in_steps=False)
    graph = onnx.load(tmp_path / name).graph
    weights = (value for value in graph.initializer if value.data_type == onnx.TensorProto.FLOAT)
    stored = sum(onnx.numpy_helper.to_array(value).size for value in weights)
    assert stored < 1.02 * sum(parameter.numel() for parameter in model.parameters()) + 64


@pytest.mark.slow
def test_a_difference_is_found(tmp_path: Path) -> None:
    model = make_model(head=HEADS["classify"])
    engine = write_export(model, tmp_path / "export", "onnx")
    with torch.no_grad():
        model.encoder.ffn[0].up.bias[0] += 0.1  # type: ignore[index, union-attr, operator]
    with pytest.raises(WorkError, match="the outputs of the export differ from those of its source by"):
        verify_export(model, engine, tmp_path / "export")


@pytest.mark.slow
@pytest.mark.parametrize("part", ["exit_heads.0", "exit_unit"])
def test_a_difference_after_a_step_is_found(part: str, tmp_path: Path) -> None:
    """Only exit rules use these parts, so that the outputs of full depth are equal."""
    model = make_model(head=HeadSettings("classify", labels=3, exits="own", learned_exit=True))
    engine = write_export(model, tmp_path / "export", "onnx", in_steps=True)
    verify_export(model, engine, tmp_path / "export")
    with torch.no_grad():
        for parameter in model.get_submodule(part).parameters():
            parameter.add_(0.1)
    with pytest.raises(WorkError, match="the outputs of the export differ from those of its source by"):
        verify_export(model, engine, tmp_path / "export")


@pytest.mark.slow
def test_a_missing_number_is_a_difference(tmp_path: Path) -> None:
    model = make_model(head=HEADS["classify"])
    engine = write_export(model, tmp_path / "export", "onnx")
    assert isinstance(engine, SingleGraphEngine)
    session = engine._session
    engine._session = lambda inputs: {
        name: values * np.nan if name.startswith("packed_") else values
        for name, values in session(inputs).items()
    }
    with pytest.raises(WorkError, match="differ from those of its source by nan"):
        verify_export(model, engine, tmp_path / "export")


@pytest.mark.slow
def test_an_export_in_steps_has_each_block_and_the_token_embedding_once(tmp_path: Path) -> None:
    settings = replace(SMALL, layers=6, groups=2, vocab_size=300)
    model = make_model(settings, HEADS["pretrain"])
    files = write_model(model, tmp_path, "onnx", in_steps=True)
    assert files == ["embed.onnx", "block.onnx", "block-2.onnx", "head.onnx", "tokens.bin"]
    assert (tmp_path / "tokens.bin").stat().st_size == 300 * settings.embedding_size * 4
    for name in ("embed.onnx", "head.onnx"):
        graph = onnx.load(tmp_path / name, load_external_data=False).graph
        (table,) = (value for value in graph.initializer if value.external_data)
        assert list(table.dims) == [300, settings.embedding_size]
        largest = max(np.prod(value.dims) for value in graph.initializer if not value.external_data)
        assert largest < 300 * settings.embedding_size


@pytest.mark.slow
def test_heads_of_exits_are_graphs_of_their_own(tmp_path: Path) -> None:
    model = make_model(head=HeadSettings("classify", labels=3, exits="own"))
    files = write_model(model, tmp_path, "onnx", in_steps=True)
    assert [name for name in files if name.startswith("head")] == ["head.onnx", "head-2.onnx", "head-3.onnx"]


@pytest.mark.slow
def test_graphs_name_no_source_files(tmp_path: Path) -> None:
    for name in write_model(make_model(head=HEADS["classify"]), tmp_path, "onnx", in_steps=True):
        assert b".py" not in (tmp_path / name).read_bytes()

"""Exits in exported models: graphs of a block that are called again and again, and sequences that leave."""

import contextlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.export.export_fixtures import TEXTS
from tests.export.test_model_files import write_export
from tests.model.model_fixtures import SMALL, random_strip
from tests.model.test_exits import HEADS, make_model

from albertine import pipeline, progress
from albertine.engines.conversion import convert_model
from albertine.engines.exported_engine import ExportedEngine
from albertine.engines.exported_folder import open_engine
from albertine.errors import InputError
from albertine.export.export import export
from albertine.export.int8 import quantize
from albertine.export.settings import ExportSettings
from albertine.info.transitions import last_step_angle
from albertine.model.exits import forward_with_exits
from albertine.model.model import Model
from albertine.settings.engine import EngineName
from albertine.settings.exit_rule import ExitRule
from albertine.settings.export import ExportFormat

LENGTHS = [5, 16, 1, 12, 12, 3, 9, 8, 2]
RULES = [
    ExitRule(patience=1, tolerance=0.05),
    ExitRule(patience=2, tolerance=0.05, depth=5),
    ExitRule(depth=2),
]
PLANS: list[dict[str, Any]] = [
    {"norm_first": True, "rotary": True},
    {"step_signal": True},
    {"groups": 2},
    {"mark_matches": True},
]


def check_exits(model: Model, engine: ExportedEngine, rule: ExitRule) -> list[int]:
    """Compare depths and outputs with those of torch; return the depths."""
    strip = random_strip(LENGTHS)
    expected, actual = forward_with_exits(model, strip, rule), engine.run_with_exits(strip, rule)
    assert actual.depths.tolist() == expected.depths.tolist()
    for name, values in vars(expected.output).items():
        if isinstance(values, torch.Tensor):
            assert (getattr(actual.output, name) - values).abs().max() < 2e-5
    return actual.depths.tolist()


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_sequences_leave_as_with_torch(to: ExportFormat, tmp_path: Path) -> None:
    model = make_model(replace(SMALL, layers=6), HEADS["classify"])
    engine = write_export(model, tmp_path / "export", to, in_steps=True)
    for rule in RULES:
        check_exits(model, engine, rule)
    depths = check_exits(model, engine, ExitRule(confidence=0.9))
    assert len(set(depths)) > 2, "some leave early, and others do not"


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
@pytest.mark.parametrize("name", HEADS)
def test_sequences_leave_with_every_head(name: str, to: ExportFormat, tmp_path: Path) -> None:
    model = make_model(replace(SMALL, layers=6), HEADS[name])
    engine = write_export(model, tmp_path / "export", to, in_steps=True)
    for rule in RULES:
        check_exits(model, engine, rule)


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
@pytest.mark.parametrize("changes", PLANS, ids=str)
def test_plans_with_exits(changes: dict[str, Any], to: ExportFormat, tmp_path: Path) -> None:
    model = make_model(replace(SMALL, layers=6, **changes), HEADS["classify"])
    engine = write_export(model, tmp_path / "export", to, in_steps=True)
    check_exits(model, engine, RULES[0])


@pytest.mark.slow
@pytest.mark.parametrize(("head", "to"), [("classify", "onnx"), ("choice", "onnx"), ("classify", "openvino")])
def test_a_learned_exit(head: str, to: ExportFormat, tmp_path: Path) -> None:
    model = make_model(replace(SMALL, layers=4), HEADS[head], own=True, learned=True)
    engine = write_export(model, tmp_path / "export", to, in_steps=True)
    check_exits(model, engine, ExitRule(quantile=0.8))


@pytest.mark.slow
@pytest.mark.parametrize("changes", [{}, {"norm_first": True, "rotary": True}])
def test_deeper_than_trained(
    changes: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress.set_quiet(False)
    model = make_model(replace(SMALL, **changes), HEADS["classify"])
    engine = write_export(model, tmp_path / "export", "onnx", in_steps=True)
    assert set(check_exits(model, engine, ExitRule(depth=9))) == {9}
    (warning,) = capsys.readouterr().err.splitlines()  # once
    angle = last_step_angle(model, random_strip(LENGTHS), 9)
    assert f"depth 9: more than the {SMALL.layers} steps that were trained, and the states have" in warning
    assert warning.endswith(f"turns them by {angle:.1f} degrees")


@pytest.mark.slow
def test_a_pipeline_takes_an_export_with_exits(
    classifier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export(classifier, tmp_path / "steps", ExportSettings(exits=True))
    expected = pipeline(classifier, exit="patience:1")(TEXTS)
    engines: list[tuple[Path, EngineName]] = [(tmp_path / "steps", "auto"), (classifier, "onnxruntime")]
    for model, engine in engines:
        answers = pipeline(model, engine=engine, exit="patience:1")(TEXTS)
        for answer, other in zip(answers, expected, strict=True):
            assert (answer["label"], answer["depth"]) == (other["label"], other["depth"])
    code = (
        (tmp_path / "steps" / "README.md").read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    )
    capsys.readouterr()
    with contextlib.chdir(tmp_path / "steps"):
        exec(compile(code, "README.md", "exec"), {})
    assert len(capsys.readouterr().out.splitlines()) >= 5  # a line or more for each step


def test_an_export_in_one_graph_refuses_exits(exported: Path) -> None:
    with pytest.raises(InputError, match=r"this export always applies all layers; .* with --exits"):
        pipeline(exported, exit="patience:1")


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
@pytest.mark.parametrize("name", ["classify", "matching"])
def test_int8_of_own_heads_and_an_exit_unit(name: str, to: ExportFormat, tmp_path: Path) -> None:
    model = make_model(replace(SMALL, layers=4), HEADS[name], own=True, learned=True)
    write_export(model, tmp_path / "export", to, in_steps=True)
    strip = random_strip(LENGTHS)
    quantize(tmp_path / "export", to, [strip], in_steps=True)
    settings, head = model.settings, model.head_settings
    file = tmp_path / "export" / ("embed.xml" if to == "openvino" else "embed.onnx")
    engine = open_engine(to, file, torch.float32, settings, head, "it", in_steps=True)
    for depth in range(1, 5):
        rule = ExitRule(depth=depth) if depth < 4 else ExitRule(quantile=0.8)
        expected, actual = forward_with_exits(model, strip, rule), engine.run_with_exits(strip, rule)
        difference = (actual.output.logits - expected.output.logits).abs().mean()
        assert difference < 0.2 * expected.output.logits.abs().mean()


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_int8_with_exits(to: ExportFormat, classifier: Path, data: Path, tmp_path: Path) -> None:
    rows = str(data) if to == "openvino" else None
    settings = ExportSettings(to=to, precision="int8", exits=True, data=rows)
    result = export(classifier, tmp_path / "small", settings, force=True)
    full = export(classifier, tmp_path / "full", ExportSettings(to=to, exits=True))
    assert result.num_bytes < full.num_bytes
    small, expected = (pipeline(folder, depth=2)(TEXTS) for folder in (tmp_path / "small", classifier))
    agreement = sum(one["label"] == other["label"] for one, other in zip(small, expected, strict=True))
    assert agreement >= 0.8 * len(TEXTS)


def test_what_has_no_steps_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    model = Model(replace(SMALL, step_rank=2), HEADS["classify"])
    with pytest.raises(InputError, match="its steps are not calls of the same block, as --exit or --depth"):
        convert_model(model, "onnxruntime", "cpu", "fp32", in_steps=True)
    with pytest.raises(InputError, match="pre-trained; its embedding and head share"):
        export(checkpoint, tmp_path / "out", ExportSettings(to="openvino", exits=True))

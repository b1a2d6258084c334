"""`--engine`: a checkpoint that another library runs, and the choice of the fastest."""

import csv
import gc
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.export.export_fixtures import TEXTS
from tests.model.model_fixtures import SMALL
from tests.model.test_padded import HEADS, make_model

from albertine.cli import app
from albertine.command import run_command
from albertine.engines import libraries, selection
from albertine.engines.engine import Engine
from albertine.engines.selection import prepare_engine
from albertine.engines.verify import random_strips
from albertine.errors import InputError
from albertine.inference.fill_mask import fill_mask_pipeline
from albertine.inference.pipeline import pipeline
from albertine.inference.settings import EvaluateSettings
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, SettingError
from albertine.settings.engine import EngineName, EngineOptions

LIBRARIES: tuple[EngineName, ...] = ("onnxruntime", "openvino")


@pytest.mark.slow
@pytest.mark.parametrize("engine", LIBRARIES)
def test_a_library_gives_the_answers_of_torch(engine: EngineName, classifier: Path) -> None:
    expected = pipeline(classifier, precision="fp32")(TEXTS)
    answers = pipeline(classifier, engine=engine, precision="fp32")(TEXTS)
    for answer, other in zip(answers, expected, strict=True):
        assert answer["label"] == other["label"]
        assert answer["probabilities"] == pytest.approx(other["probabilities"], abs=1e-4)


def test_a_model_of_very_short_texts_has_a_graph() -> None:
    model = make_model(replace(SMALL, max_length=4), HEADS["classify"])
    strip = Strip.from_sequences([[3, 5, 7, 9], [2, 4]])
    with torch.no_grad():
        expected = model(strip).logits
    logits = prepare_engine(model, EngineOptions("cpu", "fp32", "onnxruntime")).run(strip).logits
    assert (logits - expected).abs().max() < 1e-5


@pytest.mark.slow
def test_openvino_computes_in_bf16_on_request() -> None:
    model = make_model(head=HEADS["classify"])
    engine = prepare_engine(model, EngineOptions("cpu", "bf16", "openvino"))
    assert engine.name == "OpenVINO, bf16"
    (strip, _) = random_strips(model)
    with torch.no_grad():
        expected = model(strip).logits
    assert (engine.run(strip).logits - expected).abs().max() < 0.05 * expected.abs().max()


@pytest.mark.slow
def test_signals_are_handled_after_openvino_sessions_of_any_order() -> None:
    model, received = make_model(head=HEADS["classify"]), list[int]()
    before = signal.signal(signal.SIGUSR1, lambda number, _: received.append(number))
    try:
        for precision in ("fp32", "bf16"):
            prepare_engine(model, EngineOptions("cpu", precision, "openvino")).run(random_strips(model)[0])
        gc.collect()
        os.kill(os.getpid(), signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert received == [signal.SIGUSR1]


@pytest.mark.slow
def test_the_command_line_takes_an_engine(
    classifier: Path, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {}
    for engine in ("torch", "onnxruntime"):
        out = tmp_path / f"{engine}.csv"
        arguments = [
            "predict",
            str(classifier),
            "--data",
            str(data),
            "--precision",
            "fp32",
            "--out",
            str(out),
        ]
        assert run_command(app, [*arguments, "--engine", engine]) == 0
        with out.open(encoding="utf-8") as stream:
            rows[engine] = [row["label"] for row in csv.DictReader(stream)]
    assert rows["torch"] == rows["onnxruntime"]
    capsys.readouterr()
    arguments = ["evaluate", str(classifier), "--data", str(data), "--engine", "onnxruntime", "--json"]
    assert run_command(app, arguments) == 0
    (result,) = json.loads(capsys.readouterr().out)["results"]
    assert result["metrics"]["accuracy"] == 1.0


@pytest.mark.slow
def test_a_pretrained_model_runs_with_a_library(checkpoint: Path) -> None:
    expected = fill_mask_pipeline(checkpoint).fill("ka [MASK] dormi")
    answers = fill_mask_pipeline(checkpoint, engine="onnxruntime").fill("ka [MASK] dormi")
    assert [token.score for token in answers[0]] == pytest.approx(
        [token.score for token in expected[0]], abs=1e-5
    )


@pytest.mark.parametrize("fastest", ["torch", "onnx", "openvino"])
def test_auto_takes_the_fastest_engine(
    fastest: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rates = {"torch": 10.0, "onnx": 11.0, "openvino": 12.0, fastest: 1234.0}

    def convert(_model: Any, engine: str, *_: Any, **_options: Any) -> Any:
        return SimpleNamespace(
            name={"onnxruntime": "ONNX Runtime, fp32", "openvino": "OpenVINO, fp32"}[engine]
        )

    def rate(engine: Engine, _strip: Any) -> float:
        (value,) = (rates[name] for name in rates if engine.name.lower().startswith(name))
        return value

    monkeypatch.setattr(selection, "convert_model", convert)
    monkeypatch.setattr(selection, "_tokens_per_second", rate)
    engine = prepare_engine(make_model(head=HEADS["classify"]), EngineOptions("cpu", "fp32", "auto"))
    assert engine.name.lower().startswith(fastest)
    message = capsys.readouterr().err
    assert f"engine {engine.name} is the fastest here" in message
    assert "1,234" in message


def test_auto_leaves_out_an_engine_that_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: Any, **_options: Any) -> None:
        raise ValueError("no such operator\nlong text")

    monkeypatch.setattr("albertine.engines.model_files.write_model", fail)
    engine = prepare_engine(make_model(head=HEADS["classify"]), EngineOptions("cpu", "fp32", "auto"))
    assert engine.name == "torch, fp32"
    message = capsys.readouterr().err
    assert "engine onnxruntime: the model cannot be converted (no such operator); use torch" in message


def test_auto_is_refused_where_engines_must_be_alike() -> None:
    with pytest.raises(SettingError, match="must be torch with exits = all"):
        EvaluateSettings(engine="auto", exits="all")


@pytest.mark.long
@pytest.mark.slow
def test_auto_measures_every_engine() -> None:
    model = make_model(head=HEADS["classify"])
    engine = prepare_engine(model, EngineOptions("cpu", "fp32", "auto"))
    for strip in random_strips(model):
        with torch.no_grad():
            assert torch.allclose(engine.run(strip).logits, model(strip).logits, atol=1e-5)


def test_auto_runs_with_torch_what_others_cannot(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    options = EngineOptions("cpu", "fp32", "auto")
    co_matching = Model(SMALL, HeadSettings("choice", labels=1, options=2, co_matching=True))
    assert prepare_engine(co_matching, options, can_exit=True).name == "torch, fp32"
    assert "engine torch, fp32 is the only one that runs this model here" in capsys.readouterr().err
    without_steps = Model(replace(SMALL, step_vectors=True), HEADS["classify"])
    assert prepare_engine(without_steps, options, can_exit=True).name == "torch, fp32"
    equilibrium = Model(replace(SMALL, depth_rule="equilibrium"), HeadSettings("classify", labels=2))
    assert prepare_engine(equilibrium, options).name == "torch, fp32"
    model = make_model(head=HEADS["classify"])
    monkeypatch.setattr(libraries, "find_spec", lambda _name: None)
    assert prepare_engine(model, options).name == "torch, fp32"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--engine", "onnxruntime", "--precision", "bf16"], "ONNX Runtime computes in fp32"),
        (["--engine", "openvino", "--device", "cuda"], "runs on the CPU"),
        (["--engine", "tflite"], "--engine tflite: must be one of torch, onnxruntime, openvino, auto"),
    ],
)
def test_what_an_engine_cannot_do_is_refused(
    arguments: list[str], message: str, classifier: Path, data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, ["predict", str(classifier), "--data", str(data), *arguments]) == 2
    assert message in capsys.readouterr().err.replace("\n", " ")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libraries, "find_spec", lambda _name: None)
    with pytest.raises(InputError, match=r"needs onnxscript, openvino, not installed: pip install"):
        prepare_engine(make_model(head=HEADS["classify"]), EngineOptions(engine="openvino"))


def test_an_export_runs_with_its_own_library(exported: Path) -> None:
    assert pipeline(exported, engine="onnxruntime")(TEXTS) == pipeline(exported, engine="auto")(TEXTS)
    for engine in ("torch", "openvino"):
        with pytest.raises(
            InputError, match=f"exported for ONNX Runtime; --engine {engine} needs the checkpoint"
        ):
            pipeline(exported, engine=engine)

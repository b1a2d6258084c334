"""Exports of models whose head reads passage, question and option apart."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from tests.model.model_fixtures import SMALL
from tests.model.test_co_matching_head import LENGTHS, make_model, strip_of_parts
from tests.task_fixtures import MODEL

from albertine.engines.conversion import convert_model
from albertine.engines.selection import prepare_engine
from albertine.errors import InputError
from albertine.export.export import export
from albertine.export.settings import ExportSettings
from albertine.inference.evaluate import evaluate
from albertine.inference.pipeline import pipeline
from albertine.inference.settings import EvaluateSettings
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.settings.engine import EngineName, EngineOptions
from albertine.settings.export import ExportFormat
from albertine.tasks.card import TaskCard
from albertine.text.tokenizer import load_tokenizer

QUESTIONS: list[dict[str, Any]] = [
    {
        "context": "ka lo mi dormi " * (1 + number % 5),
        "question": "lo ka" if number % 3 else "",
        "options": ["mi", "ka dormi lo mi"],
    }
    for number in range(40)
]


@pytest.fixture(scope="module")
def model(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model for questions with two options, whose predictions differ."""
    built = Model(MODEL, HeadSettings("choice", labels=1, options=2, co_matching=True), seed=3)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for name, parameter in built.named_parameters():
            if not name.endswith("norm.weight"):
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=0.15)
    folder = tmp_path_factory.mktemp("co-matching") / "model"
    save_folder(built, folder, tokenizer=load_tokenizer(checkpoint))
    TaskCard("choice", "choice", (), ("accuracy",), max_length=64, num_options=2).write(folder)
    return folder


def answers(folder: Path) -> list[dict[str, Any]]:
    predict = pipeline(folder, precision="fp32")
    columns = ("context", "question", "options")
    return list(predict(**{name: [row[name] for row in QUESTIONS] for name in columns}))


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_the_logits_are_those_of_the_strip(engine: EngineName) -> None:
    model = make_model()
    converted = convert_model(model, engine, "cpu", "fp32")
    for strip in (strip_of_parts(LENGTHS), strip_of_parts(LENGTHS[4:6]), strip_of_parts([(9, 3, 1)] * 2)):
        with torch.no_grad():
            expected = model(strip).logits
        torch.testing.assert_close(converted.run(strip).logits, expected, atol=1e-5, rtol=0)
    with pytest.raises(InputError, match=r"needs strip\.parts"):
        converted.run(Strip.from_sequences([[1, 2], [3]]))


def test_a_model_may_have_more_segments_than_its_tasks() -> None:
    head = HeadSettings("choice", labels=1, options=2, co_matching=True)
    for segments in (1, 3):
        model = Model(replace(SMALL, segments=segments), head, seed=1).eval()
        strip = strip_of_parts(LENGTHS)
        with torch.no_grad():
            expected = model(strip).logits
        converted = convert_model(model, "onnxruntime", "cpu", "fp32")
        torch.testing.assert_close(converted.run(strip).logits, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_an_export_answers_as_its_source(to: ExportFormat, model: Path, tmp_path: Path) -> None:
    export(model, tmp_path / "out", ExportSettings(to=to))
    expected, actual = answers(model), answers(tmp_path / "out")
    assert len({answer["option"] for answer in expected}) == 2
    for answer, other in zip(actual, expected, strict=True):
        assert answer["option"] == other["option"]
        assert answer["probabilities"] == pytest.approx(other["probabilities"], abs=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_int8_is_judged_on_questions(to: ExportFormat, model: Path, tmp_path: Path) -> None:
    data = tmp_path / "questions.jsonl"
    rows = [
        row | {"label": answer["option"]}
        for row, answer in zip(QUESTIONS, answers(model), strict=True)
        # Engines round int8 products differently from one compilation to the next: no near-ties.
        if abs(answer["probabilities"][0] - answer["probabilities"][1]) > 0.04
    ]
    assert len(rows) > 20
    data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    settings = ExportSettings(to=to, precision="int8", data=str(data))
    result = export(model, tmp_path / "out", settings, force=True)
    assert result.scores is not None
    assert result.scores.before.score == 1.0
    assert result.scores.after.score > 0.9
    (evaluation,) = evaluate(tmp_path / "out", EvaluateSettings(data=str(data)))
    assert evaluation.primary_metric == result.scores.after.score


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_the_code_of_the_readme_gives_the_logits_of_the_options(
    to: ExportFormat, model: Path, tmp_path: Path
) -> None:
    export(model, tmp_path / "out", ExportSettings(to=to))
    readme = (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    assert "| `logits` | [rows] |" in readme
    code = readme.split("```python\n")[1].split("```")[0]
    code += "\nprint(json.dumps([passage, question, options, results['logits'].tolist()]))"
    # In a process of its own: several instances of OpenVINO disturb the handling of signals.
    command = [sys.executable, "-c", f"import json\n{code}"]
    output = subprocess.run(command, cwd=tmp_path / "out", capture_output=True, text=True, check=True)
    passage, question, options, logits = json.loads(output.stdout.splitlines()[-1])
    answer = pipeline(model, precision="fp32")(context=passage, question=question, options=options)
    assert answer["probabilities"] == pytest.approx(torch.tensor(logits).softmax(0).tolist(), abs=1e-4)


def test_padding_changes_nothing(model: Path, tmp_path: Path) -> None:
    export(model, tmp_path / "out", ExportSettings())
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    inputs = {
        "input_ids": np.array([[2, 9, 8, 3, 7, 6, 3]]),
        "attention_mask": np.ones((1, 7), np.int64),
        "token_type_ids": np.array([[0, 2, 2, 0, 5, 7, 1]]),
    }
    (expected,) = session.run(["logits"], inputs)
    padded = {name: np.pad(values, ((0, 1), (0, 5))) for name, values in inputs.items()}
    (logits,) = session.run(["logits"], padded)
    assert logits.shape == (2,)
    assert logits[0] == pytest.approx(expected[0], abs=1e-5)


def test_graphs_of_single_steps_are_refused(model: Path, tmp_path: Path) -> None:
    for settings in (ExportSettings(exits=True), ExportSettings(to="web")):
        with pytest.raises(InputError, match="co_matching = true: only a graph of all layers"):
            export(model, tmp_path / "out", settings)


@pytest.mark.slow
def test_auto_measures_all_engines(capsys: pytest.CaptureFixture[str]) -> None:
    prepare_engine(make_model(), EngineOptions("cpu", "fp32", "auto"))
    message = capsys.readouterr().err
    assert "is the fastest here" in message
    assert "OpenVINO" in message

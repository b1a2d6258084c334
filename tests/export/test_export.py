"""`albertine export`: the folder, int8, wrong input, and everything that takes the folder as a model."""

import hashlib
import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from tests.export.export_fixtures import LABELS, TEXTS
from tests.task_fixtures import MODEL, save_untrained_model

from albertine.cli import app
from albertine.command import run_command
from albertine.deploy.model_loading import load_served_model
from albertine.errors import InputError
from albertine.export.export import export
from albertine.export.settings import ExportSettings
from albertine.inference.evaluate import evaluate
from albertine.inference.fill_mask import fill_mask_pipeline
from albertine.inference.pipeline import pipeline
from albertine.inference.settings import EvaluateSettings
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.settings import HeadSettings, SettingError
from albertine.settings.engine import EngineOptions
from albertine.settings.export import ExportFormat
from albertine.tasks.card import TaskCard
from albertine.text.tokenizer import load_tokenizer

SHORT = "ka lobra dormi"


def int8_settings(to: ExportFormat, data: Path) -> ExportSettings:
    return ExportSettings(to=to, precision="int8", data=str(data))


def run(*arguments: str | Path) -> int:
    return run_command(app, list(map(str, arguments)))


def test_an_export_predicts_what_its_source_predicts(classifier: Path, exported: Path) -> None:
    expected, actual = (pipeline(folder, precision="fp32")(TEXTS) for folder in (classifier, exported))
    assert len({prediction["label"] for prediction in expected}) > 1
    for one, other in zip(actual, expected, strict=True):
        assert one["label"] == other["label"]
        assert one["probability"] == pytest.approx(other["probability"], abs=1e-5)


def test_padded_rows_need_no_more_than_a_tokenizer(exported: Path) -> None:
    session = onnxruntime.InferenceSession(exported / "model.onnx", providers=["CPUExecutionProvider"])
    tokenizer = load_tokenizer(exported)
    ids, _ = tokenizer.encode_with_special_tokens(TEXTS[0])
    padded = np.array([ids + [0] * 5, ids + [0] * 5])
    mask = np.array([[1] * len(ids) + [0] * 5] * 2)
    inputs = {"input_ids": padded, "attention_mask": mask, "token_type_ids": np.zeros_like(padded)}
    (logits,) = session.run(["logits"], inputs)
    probabilities = torch.from_numpy(logits).softmax(1)
    expected = pipeline(exported)(TEXTS[0])
    assert probabilities.shape == (2, 3)
    assert LABELS[int(probabilities[0].argmax())] == expected["label"]
    assert float(probabilities[1].max()) == pytest.approx(expected["probability"], abs=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_int8_keeps_its_accuracy_and_says_so(
    to: ExportFormat, classifier: Path, data: Path, tmp_path: Path
) -> None:
    result = export(classifier, tmp_path / "out", int8_settings(to, data), force=True)
    assert result.scores is not None
    assert result.scores.before.score == 1.0
    expected, actual = pipeline(classifier, precision="fp32")(TEXTS), pipeline(tmp_path / "out")(TEXTS)
    for before, after in zip(expected, actual, strict=True):
        changes = [abs(before["probabilities"][name] - after["probabilities"][name]) for name in LABELS]
        assert max(changes) < 0.02  # labels of this model are often nearly tied, so some change
    assert result.num_bytes < 0.5 * (classifier / "model.safetensors").stat().st_size + 400_000
    (evaluation,) = evaluate(tmp_path / "out", EvaluateSettings(data=str(data)))
    assert evaluation.primary_metric == result.scores.after.score
    assert result.scores.after.text in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")


def test_the_task_is_checked(classifier: Path, data: Path, tmp_path: Path) -> None:
    settings = ExportSettings(precision="int8", data=str(data), task="squad-2.0")
    with pytest.raises(InputError, match=r"its task type is classify, but --task squad-2\.0 is of type span"):
        export(classifier, tmp_path / "out", settings)


def test_an_export_has_the_labels_of_its_task(checkpoint: Path, tmp_path: Path) -> None:
    card = TaskCard("classify", "classify", ("LABEL_0", "LABEL_1", "LABEL_2"), max_length=64)
    folder = save_untrained_model(tmp_path / "model", checkpoint, HeadSettings("classify", labels=3), card)
    export(folder, tmp_path / "out", ExportSettings(task="mnli"))
    names = ["entailment", "neutral", "contradiction"]
    assert json.loads((tmp_path / "out" / "task.json").read_text())["labels"] == names
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert list(config["id2label"].values()) == names
    with pytest.raises(InputError, match="--task mnly: unknown"):
        export(folder, tmp_path / "other", ExportSettings(task="mnly"))


def test_the_task_of_a_folder_that_does_not_name_it(checkpoint: Path, tmp_path: Path) -> None:
    folder = save_untrained_model(
        tmp_path / "model", checkpoint, HeadSettings("span"), TaskCard("span", "span", max_length=64)
    )
    (folder / "task.json").unlink()
    export(folder, tmp_path / "out", ExportSettings(task="squad-2.0"))
    assert "allows_no_answer" in (tmp_path / "out" / "task.json").read_text()
    question = {"question": "Ka lo?", "context": "Ka lo mi."}
    expected = pipeline(folder, task="squad-2.0", precision="fp32")(**question)
    actual = pipeline(tmp_path / "out")(**question)
    assert actual["no_answer_score"] == pytest.approx(expected["no_answer_score"], abs=1e-3)
    served = load_served_model(str(folder), EngineOptions("cpu", "fp32"), task="squad-2.0")
    assert "no_answer_score" in served.endpoints["/predict"].result_schema["properties"]
    (tmp_path / "out" / "task.json").unlink()
    with pytest.raises(InputError, match=r"out/task\.json: missing; export the model again"):
        pipeline(tmp_path / "out")
    with pytest.raises(InputError, match=r"--task squad-2\.0: .* is pre-trained; fine-tune it first"):
        export(checkpoint, tmp_path / "other", ExportSettings(task="squad-2.0"))
    with pytest.raises(InputError, match="pre-trained; --task is for fine-tuned models"):
        load_served_model(str(checkpoint), EngineOptions("cpu", "fp32"), task="squad-2.0")


@pytest.mark.slow
def test_int8_that_loses_too_much_is_refused(
    classifier: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    # So that no loss counts as one. The attribute `albertine.export` is the function, not the package.
    monkeypatch.setattr(sys.modules["albertine.export.result"], "MAX_LOSS", -1.0)
    options = ("--precision", "int8", "--data", data, "--out", tmp_path / "out")
    assert run("export", classifier, *options) == 1
    assert "points on 40 examples: accuracy 100.0 before, accuracy" in capsys.readouterr().err.replace(
        "\n", " "
    )
    assert not (tmp_path / "out").exists()
    assert run("export", classifier, *options, "--force") == 0
    assert "kept because of --force" in capsys.readouterr().err.replace("\n", " ")


@pytest.mark.slow
def test_pretrained_models_fill_masks(checkpoint: Path, tmp_path: Path) -> None:
    export(checkpoint, tmp_path / "out", ExportSettings())
    expected, actual = (fill_mask_pipeline(source) for source in (checkpoint, tmp_path / "out"))
    text = f"{SHORT} {expected.mask_token}"
    for one, other in zip(actual.fill(text)[0], expected.fill(text)[0], strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-5)
    in_order = [model.order_probability(SHORT, SHORT[4:]) for model in (actual, expected)]
    assert in_order[0] == pytest.approx(in_order[1], abs=1e-5)
    (score,), (expected_score,) = (model.score([SHORT]) for model in (actual, expected))
    assert score.pll == pytest.approx(expected_score.pll, abs=1e-3)
    assert load_served_model(str(tmp_path / "out"), EngineOptions("cpu", "auto")).endpoints.keys() == {
        "/fill-mask",
        "/order",
    }


def test_the_server_serves_an_export(exported: Path) -> None:
    served = load_served_model(str(exported), EngineOptions("auto", "auto"))
    assert served.labels == LABELS
    example, _ = served.endpoints["/predict"].parse_item({"text": TEXTS[0]})
    (result,) = served.endpoints["/predict"].process_batch([example])
    assert served.precision == "fp32"
    assert result.output["label"] == pipeline(exported)(TEXTS[0])["label"]


def test_commands_that_need_weights_refuse_an_export(exported: Path, tmp_path: Path, capsys: Any) -> None:
    task = ("--task", "classify", "--data", tmp_path / "rows.csv")
    commands = (("finetune", *task, "--out", tmp_path / "run"), ("convert", tmp_path / "new"), ("info",))
    for name, *options in commands:
        assert run(name, exported, *options) == 2
        assert "an exported model, where a checkpoint is expected" in capsys.readouterr().err.replace(
            "\n", " "
        )


def test_exits_depth_and_devices_are_refused(exported: Path) -> None:
    with pytest.raises(InputError, match="this export always applies all layers"):
        pipeline(exported, exit="patience:1")
    with pytest.raises(InputError, match="device cuda: an exported model runs on the CPU"):
        pipeline(exported, device="cuda")
    with pytest.raises(InputError, match="ONNX Runtime computes in fp32"):
        pipeline(exported, precision="bf16")


def damaged(exported: Path, folder: Path) -> Path:
    shutil.copytree(exported, folder)
    return folder


def test_damaged_exports_are_refused(exported: Path, tmp_path: Path) -> None:
    changed = damaged(exported, tmp_path / "changed")
    content = bytearray((changed / "model.onnx").read_bytes())
    content[len(content) // 2] ^= 1
    (changed / "model.onnx").write_bytes(content)
    with pytest.raises(InputError, match=r"model\.onnx: damaged or changed"):
        pipeline(changed)
    missing = damaged(exported, tmp_path / "missing")
    (missing / "model.onnx").unlink()
    with pytest.raises(InputError, match=r"model\.onnx: missing"):
        pipeline(missing)
    no_model = damaged(exported, tmp_path / "no-model")
    (no_model / "model.onnx").write_bytes(b"not a model")
    record = json.loads((no_model / "export.json").read_text(encoding="utf-8"))
    record["checksums"]["model.onnx"] = hashlib.sha256(b"not a model").hexdigest()
    (no_model / "export.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(InputError, match=r"ONNX Runtime cannot open it"):
        pipeline(no_model)


@pytest.mark.parametrize(
    "content",
    [
        "[]",
        '{"format": 9}',
        '{"format": 1, "to": "onnx", "precision": "fp32", "checksums": {"../model.onnx": "0"}}',
        '{"format": 1, "to": "tflite", "precision": "fp32", "checksums": {"model.onnx": "0"}}',
    ],
)
def test_invalid_records_are_refused(content: str, exported: Path, tmp_path: Path) -> None:
    folder = damaged(exported, tmp_path / "folder")
    (folder / "export.json").write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=r"export\.json"):
        pipeline(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision": "int8"}, "--data is missing: its labeled rows show what int8 loses; --force"),
        ({"precision": "int8", "to": "openvino"}, "--data is missing: its labeled rows show what int8 loses"),
        ({"precision": "int8", "corpus": Path("c")}, "--corpus: .* is fine-tuned; give --data"),
    ],
)
def test_int8_needs_data(options: dict[str, Any], message: str, classifier: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        export(classifier, tmp_path / "out", ExportSettings(**options))
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_rows_without_labels_calibrate(classifier: Path, data: Path, tmp_path: Path) -> None:
    rows = data.read_text(encoding="utf-8").splitlines()
    (tmp_path / "rows.csv").write_text("\n".join(row.split(",")[0] for row in rows) + "\n", encoding="utf-8")
    settings = ExportSettings(to="openvino", precision="int8", calibrate=tmp_path / "rows.csv")
    with pytest.raises(InputError, match="--data is missing"):
        export(classifier, tmp_path / "out", settings)
    assert export(classifier, tmp_path / "out", settings, force=True).scores is None


@pytest.mark.slow
def test_texts_calibrate_a_pretrained_model(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    texts = tmp_path / "texts.txt"
    texts.write_text("ka lo mi\nbra ka lo mika\n", encoding="utf-8")
    options = ("export", checkpoint, "--to", "openvino", "--precision", "int8", "--calibrate", texts)
    assert run_command(app, [*map(str, options), "--out", str(tmp_path / "out")]) == 2
    assert "--corpus is missing: its held-out texts show what int8 loses" in capsys.readouterr().err
    assert run_command(app, [*map(str, options), "--out", str(tmp_path / "out"), "--force"]) == 0
    printed = capsys.readouterr().err
    assert "calibrated with 2 sequences; with some hundred" in printed
    assert "not judged; --data, or --corpus for a pre-trained model, shows what int8 loses" in printed
    assert fill_mask_pipeline(tmp_path / "out").fill("ka [MASK]")


def test_a_pretrained_model_in_int8_needs_a_corpus(checkpoint: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--data: .* is pre-trained; give --corpus"):
        export(checkpoint, tmp_path / "out", ExportSettings(precision="int8", data="rows.csv"))
    of_format: dict[ExportFormat, str] = {
        "onnx": "--force exports",
        "openvino": "--force with --calibrate exports",
    }
    for to, advice in of_format.items():
        with pytest.raises(InputError, match=f"--corpus is missing: its .* int8 loses; {advice} it unseen"):
            export(checkpoint, tmp_path / "out", ExportSettings(to=to, precision="int8"))


@pytest.mark.parametrize("name", ["data", "calibrate", "corpus", "text"])
def test_settings_of_int8_need_int8(name: str) -> None:
    with pytest.raises(SettingError, match="needs precision = int8"):
        replace(ExportSettings(), **{name: "x"}).check()  # type: ignore[arg-type]


def test_calibration_is_for_openvino() -> None:
    with pytest.raises(SettingError, match="needs to = openvino"):
        ExportSettings(precision="int8", calibrate=Path("rows.csv")).check()


def test_solvers_are_refused(checkpoint: Path, tmp_path: Path) -> None:
    model = Model(replace(MODEL, depth_rule="equilibrium"), HeadSettings("classify"))
    save_folder(model, tmp_path / "model", tokenizer=load_tokenizer(checkpoint))
    with pytest.raises(InputError, match="depth_rule = equilibrium"):
        export(tmp_path / "model", tmp_path / "out", ExportSettings())


def test_missing_libraries_are_named(
    classifier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["albertine.engines.libraries"], "find_spec", lambda _: None)
    settings = ExportSettings(to="openvino", precision="int8", data="rows.csv")
    with pytest.raises(InputError, match=r"needs onnxscript, openvino, nncf, not installed: pip install"):
        export(classifier, tmp_path / "out", settings)


@pytest.mark.slow
def test_openvino_sends_no_usage_data(tmp_path: Path) -> None:
    code = (
        "import sys; from albertine.engines.no_telemetry import disable_telemetry; disable_telemetry(); "
        "import openvino, nncf; assert sys.modules['openvino_telemetry'] is None"
    )
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True, env=environment, timeout=120)
    assert not (tmp_path / "intel").exists()


def test_an_existing_folder_is_kept(classifier: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match="exists"):
        export(classifier, tmp_path / "out", ExportSettings())
    assert (tmp_path / "out" / "mine.txt").is_file()

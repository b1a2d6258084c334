"""Tests of `albertine export --task embed`: vectors of the source, its modules, int8, errors of one line."""

import json
import re
import runpy
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as library
from tests.conftest import made_up_sentences
from tests.interop.test_sentence_transformers_folder import write_library_folder

import albertine
from albertine.checksums import file_checksum
from albertine.cli import app
from albertine.command import run_command
from albertine.deploy.model_loading import load_served_model
from albertine.errors import InputError
from albertine.export.export import export
from albertine.export.settings import ExportSettings
from albertine.interop.sentence_transformers_folder import read_sentence_modules
from albertine.model.sentence_vectors import POOLING_MODES
from albertine.settings import SettingError
from albertine.settings.engine import EngineOptions
from albertine.settings.export import ExportFormat

TEXTS = ["", "mi", *made_up_sentences(3, 30), " ".join(made_up_sentences(4, 9))]

PROMPT = 'ren\'s "tas": '


pytestmark = pytest.mark.slow


@pytest.fixture(scope="session")
def sentence_model(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of sentence-transformers with all poolings, linear layers and a prompt."""
    torch.manual_seed(0)
    size = 32 * len(POOLING_MODES)
    folder = write_library_folder(
        tmp_path_factory.mktemp("library") / "folder",
        checkpoint,
        library.Pooling(32, POOLING_MODES),
        library.Normalize(),
        library.Dense(size, 12, activation_function=torch.nn.Tanh()),
        library.Dense(12, 10, bias=False, activation_function=torch.nn.Identity()),
        library.Normalize(),
    )
    file = folder / "config_sentence_transformers.json"
    prompts = {"prompts": {"query": PROMPT}, "default_prompt_name": "query"}
    file.write_text(json.dumps(json.loads(file.read_text()) | prompts))
    return folder


@pytest.fixture(scope="session")
def encoder(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The encoder of a pre-trained checkpoint for ONNX Runtime in fp32."""
    folder = tmp_path_factory.mktemp("encoder") / "encoder"
    export(checkpoint, folder, ExportSettings(task="embed"))
    return folder


@pytest.fixture(scope="session", params=["onnx", "openvino"])
def exported_modules(
    request: pytest.FixtureRequest, sentence_model: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of sentence-transformers for another library."""
    folder = tmp_path_factory.mktemp("modules") / "out"
    export(sentence_model, folder, ExportSettings(to=request.param, task="embed"))
    return folder


@pytest.fixture
def sentences(tmp_path: Path) -> Path:
    file = tmp_path / "sentences.txt"
    file.write_text("\n".join(TEXTS[1:]) + "\n")
    return file


def run(*arguments: str | Path) -> int:
    return run_command(app, list(map(str, arguments)))


def vectors(source: Path, **options: Any) -> Any:
    return albertine.pipeline(source, task="embed", device="cpu", **options)(TEXTS)


@pytest.mark.parametrize("pooling", [None, "cls"])
def test_vectors_are_those_of_the_checkpoint(encoder: Path, checkpoint: Path, pooling: Any) -> None:
    actual = vectors(encoder, pooling=pooling)
    np.testing.assert_allclose(actual, vectors(checkpoint, pooling=pooling), rtol=0, atol=1e-5)
    assert np.abs(actual).max() > 0.1
    without = vectors(encoder, pooling=pooling, normalize=False)
    expected = vectors(checkpoint, pooling=pooling, normalize=False)
    np.testing.assert_allclose(without, expected, rtol=0, atol=1e-4)


def test_modules_of_the_library_are_exported(exported_modules: Path, sentence_model: Path) -> None:
    expected = SentenceTransformer(str(sentence_model), device="cpu").encode(TEXTS)
    np.testing.assert_allclose(vectors(exported_modules), expected, rtol=0, atol=1e-5)
    written, read = read_sentence_modules(exported_modules), read_sentence_modules(sentence_model)
    assert written.poolings == read.poolings == POOLING_MODES
    assert (written.normalize, written.prompt) == (True, PROMPT)
    assert (written.max_length, written.lower_case) == (read.max_length, read.lower_case)
    for one, other in zip(written.layers, read.layers, strict=True):
        if one is None or other is None:
            assert one is other
        else:
            assert torch.equal(one.weight, other.weight)
            assert one.activation == other.activation
            assert (one.bias is None) == (other.bias is None)


def test_the_readme_gives_a_vector_without_albertine(
    exported_modules: Path,
    sentence_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    readme = (exported_modules / "README.md").read_text(encoding="utf-8")
    assert "| `sentence_embedding` | [rows, 10] |" in readme
    (code,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    monkeypatch.chdir(exported_modules)
    (tmp_path / "run.py").write_text(code)
    outputs: dict[str, Any] = {}
    runpy.run_path(str(tmp_path / "run.py"), init_globals={"print": outputs.update})
    expected = albertine.pipeline(sentence_model, task="embed", device="cpu")("A fine film.")
    np.testing.assert_allclose(outputs["sentence_embedding"][0], expected, rtol=0, atol=1e-5)


def test_the_head_of_a_tuned_model_is_left_out(classifier: Path, tmp_path: Path) -> None:
    export(classifier, tmp_path / "out", ExportSettings(task="embed"))
    np.testing.assert_allclose(vectors(tmp_path / "out"), vectors(classifier), rtol=0, atol=1e-5)
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["architectures"] == ["AlbertModel"]
    assert not (tmp_path / "out" / "task.json").exists()


def test_the_command_and_the_server_take_the_folder(
    encoder: Path, checkpoint: Path, sentences: Path, tmp_path: Path
) -> None:
    assert run("embed", encoder, "--data", sentences, "--out", tmp_path / "vectors.npy") == 0
    expected = vectors(checkpoint)
    np.testing.assert_allclose(np.load(tmp_path / "vectors.npy"), expected[1:], rtol=0, atol=1e-5)
    served = load_served_model(str(encoder), EngineOptions("cpu"))
    assert (served.post_paths, served.precision) == (["/embed"], "fp32")
    assert served.embedder is not None
    (item,) = served.embedder.process_batch(["mi"])
    np.testing.assert_allclose(item.output["embedding"], vectors_without_length(checkpoint, "mi"), atol=1e-4)


def vectors_without_length(source: Path, text: str) -> Any:
    return albertine.pipeline(source, task="embed", device="cpu", normalize=False)(text)


@pytest.mark.parametrize("to", ["onnx", "openvino"])
def test_int8_keeps_the_similarities(
    to: ExportFormat, checkpoint: Path, sentences: Path, tmp_path: Path
) -> None:
    settings = ExportSettings(to=to, precision="int8", task="embed", data=str(sentences))
    result = export(checkpoint, tmp_path / "out", settings, force=True)
    assert result.scores is not None
    assert result.scores.after.count == len(set(TEXTS[1:]))
    assert 0.95 < result.scores.after.score < 1
    assert result.scores.after.text in (tmp_path / "out" / "README.md").read_text(encoding="utf-8")
    actual, expected = (one @ one.T for one in (vectors(tmp_path / "out"), vectors(checkpoint)))
    assert not np.allclose(actual, expected, atol=1e-7)
    np.testing.assert_allclose(actual, expected, atol=0.05)


def test_int8_that_loses_too_much_is_refused(
    checkpoint: Path, sentences: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(sys.modules["albertine.export.result"], "MAX_LOSS", -1.0)  # no loss counts as one
    options = ("--task", "embed", "--precision", "int8", "--data", sentences, "--out", tmp_path / "out")
    assert run("export", checkpoint, *options) == 1
    error = capsys.readouterr().err.replace("\n", " ")
    assert "100.0 before, rank correlation of the similarities of texts" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--precision", "int8"), "--data is missing: its texts show what int8 loses; --force exports it"),
        (("--precision", "int8", "--data", "few.txt"), "few.txt: 2 different texts, too few to compare"),
        (("--precision", "int8", "--data", "no.txt"), "no.txt"),
        (("--to", "web"), "--to web: must be onnx or openvino with task = embed"),
        (("--exits",), "--exits: must not be set with task = embed"),
        (("--data", "few.txt"), "--data few.txt: needs precision = int8"),
        *(
            (("--precision", "int8", option, "x"), f"{option} x: must not be set with task = embed")
            for option in (
                *("--label", "--label-separator", "--question", "--context", "--answers", "--options"),
                "--id",
            )
        ),
        (("--precision", "int8", "--corpus", "corpus"), "--corpus corpus: must not be set with task = embed"),
    ],
)
def test_wrong_options_give_one_line(
    options: tuple[str, ...],
    message: str,
    checkpoint: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("few.txt").write_text("mi\nren\nmi\n")
    assert run("export", checkpoint, "--task", "embed", *options, "--out", "out") == 2
    error = capsys.readouterr().err.replace("\n", " ")
    assert message in error
    assert not Path("out").exists()


def test_an_export_is_used_for_what_it_was_made(
    encoder: Path, exported: Path, classifier: Path, sentences: Path
) -> None:
    with pytest.raises(InputError, match="exported with --task embed, so it gives vectors of texts"):
        albertine.pipeline(encoder)
    with pytest.raises(InputError, match="an export that predicts, and gives no vectors of texts"):
        vectors(exported)
    with pytest.raises(InputError, match="--engine openvino needs the checkpoint"):
        vectors(encoder, engine="openvino")
    with pytest.raises(InputError, match=r"engine openvino: vectors of .* come from torch"):
        vectors(classifier, engine="openvino")
    with pytest.raises(InputError, match="precision bf16: ONNX Runtime computes in fp32"):
        vectors(encoder, precision="bf16")
    assert run("predict", encoder, "--data", sentences, "--out", sentences.with_suffix(".csv")) == 2


def test_an_export_without_its_task_card_is_refused(classifier: Path, tmp_path: Path) -> None:
    export(classifier, tmp_path / "export", ExportSettings())
    (tmp_path / "export" / "task.json").unlink()
    with pytest.raises(InputError, match=r"task\.json: missing; export the model again"):
        albertine.pipeline(tmp_path / "export")


def remove_config(folder: Path) -> None:
    (folder / "1_Pooling" / "config.json").unlink()


def remove_settings(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    del config["albertine"]
    (folder / "config.json").write_text(json.dumps(config))


def remove_modules(folder: Path) -> None:
    (folder / "modules.json").unlink()


def change_pooling(folder: Path) -> None:
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode": "cls"}')


def forget_modules(folder: Path) -> None:
    record = json.loads((folder / "export.json").read_text())
    del record["checksums"]["modules.json"]
    (folder / "export.json").write_text(json.dumps(record))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (remove_config, "config.json: missing"),
        (remove_modules, "modules.json: missing"),
        (change_pooling, "config.json: damaged or changed"),
        (forget_modules, "names no modules.json"),
        (remove_settings, "not the config of an export"),
    ],
)
def test_a_damaged_folder_gives_one_line(
    damage: Callable[[Path], None], message: str, encoder: Path, tmp_path: Path
) -> None:
    damage(shutil.copytree(encoder, tmp_path / "damaged"))
    with pytest.raises(InputError, match=message):
        vectors(tmp_path / "damaged")


def test_a_model_that_claims_to_embed_gives_one_line(exported: Path, encoder: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(encoder, tmp_path / "mixed")
    shutil.copy(exported / "model.onnx", folder / "model.onnx")
    record = json.loads((folder / "export.json").read_text())
    record["checksums"]["model.onnx"] = file_checksum(folder / "model.onnx")
    (folder / "export.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match="gives no hidden states of its config"):
        vectors(folder)


def test_texts_are_as_long_as_the_model_whatever_the_tokenizer_says(checkpoint: Path, tmp_path: Path) -> None:
    source = shutil.copytree(checkpoint, tmp_path / "source")
    file = source / "tokenizer_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"model_max_length": 10}))
    export(source, tmp_path / "out", ExportSettings(task="embed"))
    np.testing.assert_allclose(vectors(tmp_path / "out"), vectors(source), rtol=0, atol=1e-5)


def test_settings_in_python_are_checked() -> None:
    with pytest.raises(SettingError, match="must not be set with task = embed"):
        replace(ExportSettings(task="embed"), exits=True).check()

"""Tests of folders of sentence-transformers: the vectors of that library, and errors of one line."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer import modules as library
from tests.conftest import made_up_sentences
from tests.task_fixtures import checkpoint

import albertine
from albertine.errors import InputError
from albertine.interop.convert import convert_checkpoint
from albertine.interop.sentence_transformers_folder import read_sentence_modules
from albertine.model.sentence_vectors import POOLING_MODES

__all__ = ["checkpoint"]

TEXTS = ["", "mi", *made_up_sentences(3, 20), " ".join(made_up_sentences(4, 9)), "Ka, LO  mi-ren ÄÉ 12!"]


def write_library_folder(folder: Path, checkpoint: Path, *modules: Any, max_length: int = 24) -> Path:
    """Write a folder with the current version of the library; `modules` follow the model."""
    transformer = library.Transformer(str(checkpoint), max_seq_length=max_length)
    SentenceTransformer(modules=[transformer, *modules], device="cpu").save(str(folder))
    return folder


def write_old_folder(
    folder: Path, checkpoint: Path, pooling: dict[str, Any], *, model_path: str = "", **length: Any
) -> Path:
    """Write a folder as early versions of the library did, with a flag for each mode of pooling."""
    shutil.copytree(checkpoint, folder / model_path)
    config = json.loads((folder / model_path / "config.json").read_text())
    (folder / model_path / "config.json").write_text(json.dumps(config | {"architectures": ["AlbertModel"]}))
    weights = folder / model_path / "model.safetensors"
    tensors = load_file(weights)
    kept = {name.removeprefix("albert."): tensors[name] for name in tensors if name.startswith("albert.")}
    save_file(kept, weights, {"format": "pt"})
    (folder / model_path / "sentence_bert_config.json").write_text(json.dumps(length))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 32, **pooling}))
    (folder / "modules.json").write_text(
        json.dumps(
            [
                {
                    "idx": 0,
                    "name": "0",
                    "path": model_path,
                    "type": "sentence_transformers.models.Transformer",
                },
                {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
            ]
        )
    )
    return folder


def expect_vectors_of_library(folder: Path, **encode: Any) -> None:
    """Compare the vectors of a folder with those of the library."""
    expected = SentenceTransformer(str(folder), device="cpu").encode(TEXTS, **encode)
    pipeline = albertine.pipeline(folder, task="embed", device="cpu")
    vectors = pipeline(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == expected.shape == (len(TEXTS), pipeline.vector_size)
    assert np.abs(vectors).max() > 1e-2
    np.testing.assert_allclose(vectors, expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(pipeline(TEXTS[3]), expected[3], rtol=0, atol=1e-5)


@pytest.mark.parametrize("mode", [*POOLING_MODES, ("cls", "mean")])
def test_every_pooling(mode: Any, checkpoint: Path, tmp_path: Path) -> None:
    folder = write_library_folder(tmp_path / "folder", checkpoint, library.Pooling(32, mode))
    assert json.loads((folder / "1_Pooling" / "config.json").read_text())["pooling_mode"]
    expect_vectors_of_library(folder)


@pytest.mark.parametrize("model_path", ["", "0_Transformer"])
def test_a_converted_folder_gives_the_same_vectors(model_path: str, checkpoint: Path, tmp_path: Path) -> None:
    pooling = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}
    folder = write_old_folder(
        tmp_path / "folder", checkpoint, pooling, model_path=model_path, max_seq_length=12, do_lower_case=True
    )
    convert_checkpoint(str(folder), tmp_path / "copy")
    vectors = [
        albertine.pipeline(path, task="embed", device="cpu")(TEXTS) for path in (folder, tmp_path / "copy")
    ]
    assert np.array_equal(vectors[0], vectors[1])


@pytest.mark.parametrize("activation", [torch.nn.Tanh(), torch.nn.Identity(), torch.nn.GELU()])
def test_dense_and_normalize(activation: Any, checkpoint: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    dense = [
        library.Dense(32, 20, activation_function=activation),
        library.Dense(20, 12, bias=False, activation_function=activation),
    ]
    folder = write_library_folder(
        tmp_path / "folder",
        checkpoint,
        library.Pooling(32, "mean"),
        library.Normalize(),
        *dense,
        library.Normalize(),
    )
    expect_vectors_of_library(folder)
    pipeline = albertine.pipeline(folder, task="embed", device="cpu")
    assert (pipeline.vector_size, pipeline.max_length) == (12, 24)
    # The last Normalize is what `normalize` switches off; the first one stays.
    lengths = np.linalg.norm(pipeline(TEXTS, normalize=False), axis=1)
    assert np.abs(lengths - 1).min() > 1e-3
    np.testing.assert_allclose(np.linalg.norm(pipeline(TEXTS), axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("model_path", ["", "0_Transformer"])
def test_folders_of_early_versions(model_path: str, checkpoint: Path, tmp_path: Path) -> None:
    modes = ("cls_token", "mean_tokens", "max_tokens")
    pooling = {f"pooling_mode_{mode}": mode != "cls_token" for mode in modes}
    folder = write_old_folder(
        tmp_path / "folder",
        checkpoint,
        pooling,
        model_path=model_path,
        max_seq_length=20,
        do_lower_case=True,
    )
    modules = read_sentence_modules(folder)
    assert modules.poolings == ("max", "mean")
    assert (modules.max_length, modules.lower_case, modules.normalize) == (20, True, False)
    expect_vectors_of_library(folder)


def test_lower_case_is_that_of_the_library(checkpoint: Path, tmp_path: Path) -> None:
    vectors = []
    for lower_case in (False, True):
        folder = write_old_folder(
            tmp_path / str(lower_case),
            checkpoint,
            {"pooling_mode_mean_tokens": True},
            do_lower_case=lower_case,
        )
        file = folder / "tokenizer.json"
        tokenizer = json.loads(file.read_text())
        normalizers = tokenizer["normalizer"]["normalizers"]
        kept = [normalizer for normalizer in normalizers if normalizer["type"] != "Lowercase"]
        assert len(kept) < len(normalizers)
        file.write_text(json.dumps(tokenizer | {"normalizer": {"type": "Sequence", "normalizers": kept}}))
        expect_vectors_of_library(folder)
        vectors.append(albertine.pipeline(folder, task="embed", device="cpu")(TEXTS))
    assert not np.allclose(vectors[0], vectors[1], atol=1e-3)


def test_texts_get_the_default_prompt(checkpoint: Path, tmp_path: Path) -> None:
    folder = write_library_folder(tmp_path / "folder", checkpoint, library.Pooling(32, "mean"))
    without = albertine.pipeline(folder, task="embed", device="cpu")(TEXTS)
    file = folder / "config_sentence_transformers.json"
    prompts = {"prompts": {"query": "ren tas: "}, "default_prompt_name": "query"}
    file.write_text(json.dumps(json.loads(file.read_text()) | prompts))
    expect_vectors_of_library(folder)
    assert not np.allclose(albertine.pipeline(folder, task="embed", device="cpu")(TEXTS), without, atol=1e-3)


@pytest.mark.parametrize("default", ["query", None])
def test_a_converted_folder_keeps_prompts_and_similarity(
    default: str | None, checkpoint: Path, tmp_path: Path
) -> None:
    folder = write_library_folder(tmp_path / "folder", checkpoint, library.Pooling(32, "mean"))
    options = {"prompts": {"query": "ren: ", "passage": "tas: "}, "default_prompt_name": default}
    edit_json(folder / "config_sentence_transformers.json", **options, similarity_fn_name="dot")
    convert_checkpoint(str(folder), tmp_path / "copy")
    first, second = (SentenceTransformer(str(path), device="cpu") for path in (folder, tmp_path / "copy"))
    assert second.prompts == first.prompts
    assert second.default_prompt_name == default
    assert second.similarity_fn_name == "dot"
    expect_vectors_of_library(tmp_path / "copy")


def test_no_message_says_that_the_head_is_new(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = write_old_folder(tmp_path / "folder", checkpoint, {"pooling_mode_cls_token": True})
    pipeline = albertine.pipeline(folder, task="embed", device="cpu")
    assert pipeline.pooling_options.modes == ("cls",)
    assert pipeline.max_length == 64
    assert capsys.readouterr().err == ""


def edit_json(file: Path, **changes: Any) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def edit_module(folder: Path, number: int, **changes: Any) -> None:
    modules = json.loads((folder / "modules.json").read_text())
    modules[number] |= changes
    (folder / "modules.json").write_text(json.dumps(modules))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "modules.json").write_text("{}"), "modules.json: not a list of modules"),
        (lambda folder: (folder / "modules.json").write_text("["), "modules.json: not JSON"),
        (lambda folder: (folder / "modules.json").unlink(), "modules.json: missing"),
        (
            lambda folder: edit_json(folder / "config_sentence_transformers.json", model_type="CrossEncoder"),
            'model_type "CrossEncoder" is not supported',
        ),
        (
            lambda folder: edit_module(folder, 3, type="sentence_transformers.models.LSTM"),
            "modules.json: module LSTM is not supported; supported: Transformer, Pooling, Dense",
        ),
        (
            lambda folder: edit_module(folder, 0, type="sentence_transformers.models.CLIPModel"),
            "the first module is CLIPModel; expected Transformer",
        ),
        (lambda folder: edit_module(folder, 1, type="custom.Pooling"), "which has code of its own"),
        (lambda folder: edit_module(folder, 1, path="../secret"), "expected a folder beside it"),
        (lambda folder: edit_module(folder, 1, path=".."), "expected a folder beside it"),
        (lambda folder: edit_module(folder, 1, path=3), "module 2 needs a path and a type"),
        (
            lambda folder: edit_json(folder / "1_Pooling" / "config.json", pooling_mode="attention"),
            'pooling "attention" is not supported; supported: cls, max, mean',
        ),
        (
            lambda folder: edit_json(folder / "1_Pooling" / "config.json", pooling_mode=[]),
            "must name one to six",
        ),
        (lambda folder: (folder / "1_Pooling" / "config.json").unlink(), "config.json: missing"),
        (
            lambda folder: edit_json(folder / "2_Dense" / "config.json", activation_function="os.system"),
            'activation_function "os.system" is not supported',
        ),
        (
            lambda folder: edit_json(folder / "2_Dense" / "config.json", out_features=7),
            "tensor linear.weight has shape [20, 32], but the config requires [7, 32]",
        ),
        (
            lambda folder: edit_json(folder / "2_Dense" / "config.json", use_residual=True),
            "use_residual is not supported",
        ),
        (
            lambda folder: edit_json(
                folder / "2_Dense" / "config.json", module_input_name="token_embeddings"
            ),
            "must be sentence_embedding",
        ),
        (lambda folder: (folder / "2_Dense" / "model.safetensors").unlink(), "has no model.safetensors"),
        (
            lambda folder: edit_json(folder / "1_Pooling" / "config.json", pooling_mode=["cls", "mean"]),
            "pooling cls, mean: gives 64 values, but the Dense layer of the model takes 32",
        ),
        (
            lambda folder: edit_json(folder / "sentence_bert_config.json", max_seq_length="long"),
            'maximum length "long": must be a number of at least 3',
        ),
        (
            lambda folder: edit_json(
                folder / "sentence_bert_config.json", processing_kwargs={"text": {"a": 1}}
            ),
            "processing_kwargs = {...} is not supported",
        ),
        (
            lambda folder: edit_json(folder / "sentence_bert_config.json", transformer_task="fill-mask"),
            "must be feature-extraction",
        ),
        (
            lambda folder: edit_json(folder / "config_sentence_transformers.json", default_prompt_name="x"),
            'default_prompt_name = "x": prompts has no such text',
        ),
    ],
)
def test_what_is_not_supported_gives_one_line(
    damage: Callable[[Path], Any], message: str, checkpoint: Path, tmp_path: Path
) -> None:
    folder = write_library_folder(
        tmp_path / "folder", checkpoint, library.Pooling(32), library.Dense(32, 20), library.Normalize()
    )
    damage(folder)
    with pytest.raises(InputError) as raised:
        albertine.pipeline(folder, task="embed", device="cpu")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_prompt_that_is_not_pooled_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    folder = write_library_folder(
        tmp_path / "folder", checkpoint, library.Pooling(32, "mean", include_prompt=False)
    )
    expect_vectors_of_library(folder)
    file = folder / "config_sentence_transformers.json"
    edit_json(file, prompts={"query": "ren "}, default_prompt_name="query")
    with pytest.raises(InputError, match="include_prompt = false with a default prompt is not supported"):
        albertine.pipeline(folder, task="embed", device="cpu")

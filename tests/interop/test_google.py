"""Tests with a checkpoint that TensorFlow wrote; see `make_google_checkpoint.py`."""

import importlib.util
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
import transformers

from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.interop.load import load, load_tokenizer
from albertine.interop.tensor_bundle import read_tensor_bundle
from albertine.model.strip import Strip

FOLDER = Path(__file__).parent


@pytest.fixture(scope="module")
def checkpoint_maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("maker", FOLDER / "make_google_checkpoint.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDER / "google", tmp_path / "google"))


def test_tensors_equal_those_written_by_tensorflow(checkpoint_maker: ModuleType) -> None:
    tensors = read_tensor_bundle(FOLDER / "google" / "model.ckpt-best")
    assert set(checkpoint_maker.SHAPES) < set(tensors)
    for name in checkpoint_maker.SHAPES:
        assert torch.equal(tensors[name], torch.from_numpy(checkpoint_maker.values(name))), name
    assert int(tensors["global_step"]) == 7


def test_outputs_equal_transformers(checkpoint_maker: ModuleType) -> None:
    config = transformers.AlbertConfig(**{**checkpoint_maker.CONFIG, "hidden_act": "gelu_new"})
    model_class: Any = transformers.AlbertForPreTraining
    hf_model = model_class(config).eval()
    layer = "albert.encoder.albert_layer_groups.0.albert_layers.0."
    # Prefixes of names in Google's code, and in `transformers`.
    prefixes = {
        "bert/embeddings/": "albert.embeddings.",
        "bert/encoder/embedding_hidden_mapping_in/": "albert.encoder.embedding_hidden_mapping_in.",
        checkpoint_maker.LAYER + "attention_1/self/": layer + "attention.",
        checkpoint_maker.LAYER + "attention_1/output/dense/": layer + "attention.dense.",
        checkpoint_maker.LAYER + "LayerNorm/": layer + "attention.LayerNorm.",
        checkpoint_maker.LAYER + "LayerNorm_1/": layer + "full_layer_layer_norm.",
        checkpoint_maker.LAYER + "ffn_1/intermediate/dense/": layer + "ffn.",
        checkpoint_maker.LAYER + "ffn_1/intermediate/output/dense/": layer + "ffn_output.",
        "bert/pooler/dense/": "albert.pooler.",
        "cls/predictions/transform/": "predictions.",
        "cls/predictions/output_bias": "predictions.bias",
        "cls/seq_relationship/output_weights": "sop_classifier.classifier.weight",
        "cls/seq_relationship/output_bias": "sop_classifier.classifier.bias",
    }
    state = hf_model.state_dict()
    written = set()
    for name in checkpoint_maker.SHAPES:
        prefix = next(prefix for prefix in prefixes if name.startswith(prefix))
        hf_name = prefixes[prefix] + name.removeprefix(prefix).replace("/", ".")
        hf_name = hf_name.replace("gamma", "weight").replace("beta", "bias").replace("kernel", "weight")
        hf_name += ".weight" if hf_name.endswith("_embeddings") else ""
        value = torch.from_numpy(checkpoint_maker.values(name))
        state[hf_name].copy_(value.T if name.endswith("kernel") else value)
        written.add(hf_name)
    assert set(state) - written == {"predictions.decoder.weight", "predictions.decoder.bias"}
    model = load(FOLDER / "google").eval()
    ids = torch.tensor([[2, 13, 60, 5, 3]])
    with torch.no_grad():
        expected, actual = hf_model(ids), model(Strip.from_padded(ids))
    assert (actual.masked.logits - expected.prediction_logits[0]).abs().max() < 1e-5
    assert (actual.pair_logits - expected.sop_logits).abs().max() < 1e-5


def test_converted_checkpoint_opens_in_transformers(checkpoint: Path, tmp_path: Path) -> None:
    assert run_command(app, ["convert", str(checkpoint), str(tmp_path / "new"), "--quiet"]) == 0
    model_class: Any = transformers.AlbertForPreTraining
    model, loading_info = model_class.from_pretrained(tmp_path / "new", output_loading_info=True)
    assert not loading_info["missing_keys"]
    assert not loading_info["unexpected_keys"]
    assert model.config.hidden_act == "gelu_new"


def test_info_and_tokenizer_read_google_checkpoints(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(app, ["info", str(checkpoint), "--json"]) == 0
    info = json.loads(capsys.readouterr().out)
    assert info["parameters"]["total"] == sum(
        parameter.numel() for parameter in load(checkpoint).parameters()
    )
    (checkpoint / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n漢\n")
    assert run_command(app, ["convert", str(checkpoint), str(tmp_path / "new"), "--quiet"]) == 0
    hf_tokenizer = transformers.BertTokenizer.from_pretrained(tmp_path / "new")
    expected = hf_tokenizer("漢漢字", add_special_tokens=False)["input_ids"]
    assert load_tokenizer(tmp_path / "new").encode("漢漢字", add_special_tokens=False) == expected


def damage_data(folder: Path) -> None:
    file = next(folder.glob("*.data-*"))
    content = bytearray(file.read_bytes())
    content[100] ^= 1
    file.write_bytes(content)


def truncate(pattern: str) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        file = next(folder.glob(pattern))
        file.write_bytes(file.read_bytes()[:-20])

    return damage


def damage_index(folder: Path) -> None:
    file = next(folder.glob("*.index"))
    content = bytearray(file.read_bytes())
    content[30] ^= 255
    file.write_bytes(content)


def add_second_index(folder: Path) -> None:
    shutil.copy(next(folder.glob("*.index")), folder / "other.index")


def change_embedding_size(folder: Path) -> None:
    file = folder / "albert_config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"embedding_size": 11}))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (damage_data, r"data-00000-of-00001: the bytes of tensor \S+ are damaged"),
        (truncate("*.data-*"), r"data-00000-of-00001: the bytes of tensor \S+ are damaged"),
        (truncate("*.index"), r"model\.ckpt-best\.index: damaged, or not a checkpoint index \(no footer\)"),
        (damage_index, r"model\.ckpt-best\.index: damaged, or not a checkpoint index"),
        (
            lambda folder: next(folder.glob("*.data-*")).unlink(),
            "No such file or directory; the index refers to this file",
        ),
        (
            add_second_index,
            r"must hold exactly one \*\.index file .*; found: model\.ckpt-best\.index, other",
        ),
        (
            change_embedding_size,
            r"word_embeddings\.weight has shape \[61, 10\], but the config requires \[61, 11\]",
        ),
    ],
)
def test_damaged_checkpoint_error_is_one_line(
    damage: Callable[[Path], None], message: str, checkpoint: Path
) -> None:
    damage(checkpoint)
    with pytest.raises(InputError, match=message) as caught:
        load(checkpoint)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_changed_index_bytes_are_detected_or_harmless(checkpoint: Path) -> None:
    index = next(checkpoint.glob("*.index"))
    content = index.read_bytes()
    expected = read_tensor_bundle(index.with_suffix(""))
    for position in range(0, len(content), 7):
        changed_byte = bytes([content[position] ^ 0x55])
        index.write_bytes(content[:position] + changed_byte + content[position + 1 :])
        try:
            tensors = read_tensor_bundle(index.with_suffix(""))
        except InputError:
            continue
        assert tensors.keys() == expected.keys()
        assert all(torch.equal(tensors[name], expected[name]) for name in expected)

"""Tests of Google's checkpoints: one that TensorFlow wrote, and others; see `make_google_checkpoint.py`."""

import importlib.util
import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.interop.load import load, load_tokenizer
from albertine.interop.tensor_bundle import read_tensor_bundle
from albertine.interop.transformers_config import checkpoint_model_settings
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


def test_our_writer_writes_the_same_bytes_as_tensorflow(checkpoint_maker: ModuleType, tmp_path: Path) -> None:
    tensors = {name: checkpoint_maker.values(name) for name in checkpoint_maker.SHAPES}
    tensors |= {"bert/pooler/dense/bias/adam_m": np.zeros(checkpoint_maker.H, np.float32)}
    checkpoint_maker.write_tensor_bundle(tmp_path / "model.ckpt-best", tensors | {"global_step": np.int64(7)})
    for file in tmp_path.iterdir():
        assert file.read_bytes() == (FOLDER / "google" / file.name).read_bytes(), file.name


LAYER = "albert.encoder.albert_layer_groups.0.albert_layers.0."
# Prefixes of names in Google's code, and in `transformers`.
ALBERT_PREFIXES = {
    "bert/embeddings/": "albert.embeddings.",
    "bert/encoder/embedding_hidden_mapping_in/": "albert.encoder.embedding_hidden_mapping_in.",
    "bert/encoder/transformer/group_0/inner_group_0/attention_1/self/": LAYER + "attention.",
    "bert/encoder/transformer/group_0/inner_group_0/attention_1/output/dense/": LAYER + "attention.dense.",
    "bert/encoder/transformer/group_0/inner_group_0/LayerNorm/": LAYER + "attention.LayerNorm.",
    "bert/encoder/transformer/group_0/inner_group_0/LayerNorm_1/": LAYER + "full_layer_layer_norm.",
    "bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/dense/": LAYER + "ffn.",
    "bert/encoder/transformer/group_0/inner_group_0/ffn_1/intermediate/output/dense/": LAYER + "ffn_output.",
    "bert/pooler/dense/": "albert.pooler.",
    "cls/predictions/transform/": "predictions.",
    "cls/predictions/output_bias": "predictions.bias",
    "cls/seq_relationship/output_weights": "sop_classifier.classifier.weight",
    "cls/seq_relationship/output_bias": "sop_classifier.classifier.bias",
    "cls/squad/output_weights": "qa_outputs.weight",
    "cls/squad/output_bias": "qa_outputs.bias",
    "output_weights": "classifier.weight",
    "output_bias": "classifier.bias",
}
BERT_PREFIXES = {
    "bert/embeddings/": "bert.embeddings.",
    "bert/encoder/layer_0/": "bert.encoder.layer.0.",
    "bert/encoder/layer_1/": "bert.encoder.layer.1.",
    "bert/pooler/dense/": "bert.pooler.dense.",
    "cls/predictions/transform/": "cls.predictions.transform.",
    "cls/predictions/output_bias": "cls.predictions.bias",
    "cls/seq_relationship/output_weights": "cls.seq_relationship.weight",
    "cls/seq_relationship/output_bias": "cls.seq_relationship.bias",
}


def transformers_model(
    class_name: str, config: Mapping[str, Any], values: Mapping[str, np.ndarray], prefixes: Mapping[str, str]
) -> Any:
    """Return a model of `transformers` with the values, which have the names of Google's code."""
    family = class_name.partition("For")[0]
    hf_config = getattr(transformers, f"{family}Config")(**config)
    hf_model = getattr(transformers, class_name)(hf_config).eval()
    state = hf_model.state_dict()
    written = set()
    for name, value in values.items():
        prefix = next(prefix for prefix in prefixes if name.startswith(prefix))
        hf_name = prefixes[prefix] + name.removeprefix(prefix).replace("/", ".")
        hf_name = hf_name.replace("gamma", "weight").replace("beta", "bias").replace("kernel", "weight")
        hf_name += ".weight" if hf_name.endswith("_embeddings") else ""
        state[hf_name].copy_(torch.from_numpy(value.T if name.endswith("kernel") else value))
        written.add(hf_name)
    unwritten = {
        name for name in state if "decoder" not in name and "embedding_hidden_mapping_in" not in name
    }
    assert written >= unwritten
    return hf_model


IDS = torch.tensor([[2, 13, 60, 5, 3]])


def assert_pretraining_outputs_equal(model: Any, hf_model: Any) -> None:
    with torch.no_grad():
        expected, actual = hf_model(IDS), model(Strip.from_padded(IDS))
    pair_logits = expected.sop_logits if "sop_logits" in expected else expected.seq_relationship_logits
    assert (actual.masked.logits - expected.prediction_logits[0]).abs().max() < 1e-5
    assert (actual.pair_logits - pair_logits).abs().max() < 1e-5


def test_outputs_equal_transformers(checkpoint_maker: ModuleType) -> None:
    values = {name: checkpoint_maker.values(name) for name in checkpoint_maker.SHAPES}
    config = {**checkpoint_maker.CONFIG, "hidden_act": "gelu_new"}
    hf_model = transformers_model("AlbertForPreTraining", config, values, ALBERT_PREFIXES)
    assert_pretraining_outputs_equal(load(FOLDER / "google"), hf_model)


@pytest.mark.slow
def test_equal_widths_need_no_projection(checkpoint_maker: ModuleType, tmp_path: Path) -> None:
    """The reference code has no `embedding_hidden_mapping_in` if E = H, as in the paper's E = 768 rows."""
    width = checkpoint_maker.H
    config = {**checkpoint_maker.CONFIG, "embedding_size": width}
    shapes = {
        name: tuple(width if size == checkpoint_maker.E else size for size in shape)
        for name, shape in checkpoint_maker.SHAPES.items()
        if "embedding_hidden_mapping_in" not in name
    }
    folder = checkpoint_maker.write_checkpoint(tmp_path / "wide", config, shapes)
    values = {name: checkpoint_maker.values(name, shape) for name, shape in shapes.items()}
    hf_model = transformers_model(
        "AlbertForPreTraining", config | {"hidden_act": "gelu_new"}, values, ALBERT_PREFIXES
    )
    with torch.no_grad():
        hf_model.albert.encoder.embedding_hidden_mapping_in.weight.copy_(torch.eye(width))
        hf_model.albert.encoder.embedding_hidden_mapping_in.bias.zero_()
    model = load(folder)
    assert not model.settings.has_projection
    assert checkpoint_model_settings(folder) == model.settings
    assert_pretraining_outputs_equal(model, hf_model)
    assert run_command(app, ["convert", str(folder), str(tmp_path / "new"), "--quiet"]) == 0
    assert_pretraining_outputs_equal(load(tmp_path / "new"), hf_model)
    reopened: Any = transformers.AlbertForPreTraining.from_pretrained(tmp_path / "new")
    assert_pretraining_outputs_equal(model, reopened.eval())


@pytest.mark.slow
def test_bert_checkpoint_equals_transformers(checkpoint_maker: ModuleType, tmp_path: Path) -> None:
    config, shapes = checkpoint_maker.BERT_CONFIG, checkpoint_maker.BERT_SHAPES
    folder = checkpoint_maker.write_checkpoint(tmp_path / "bert", config, shapes, family="bert")
    values = {name: checkpoint_maker.values(name, shape) for name, shape in shapes.items()}
    hf_model = transformers_model("BertForPreTraining", config, values, BERT_PREFIXES)
    assert_pretraining_outputs_equal(load(folder), hf_model)
    assert run_command(app, ["convert", str(folder), str(tmp_path / "new"), "--quiet"]) == 0
    reopened: Any = transformers.BertForPreTraining.from_pretrained(tmp_path / "new")
    assert_pretraining_outputs_equal(load(folder), reopened.eval())


def tuned_checkpoint(
    maker: ModuleType, folder: Path, head: Mapping[str, Sequence[int]], **changes: Any
) -> tuple[Path, dict[str, np.ndarray]]:
    """Write a fine-tuned checkpoint, which has no pre-training heads; return its folder and values."""
    shapes = {name: shape for name, shape in maker.SHAPES.items() if name.startswith("bert/")} | dict(head)
    maker.write_checkpoint(folder, maker.CONFIG | changes, shapes)
    return folder, {name: maker.values(name, shape) for name, shape in shapes.items()}


CLASSIFIER = {"output_weights": (3, 24), "output_bias": (3,)}
ONE_ROW = {"output_weights": (1, 24), "output_bias": (1,)}
SQUAD = {"cls/squad/output_weights": (2, 24), "cls/squad/output_bias": (2,)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("head", "class_name", "kind"),
    [
        (CLASSIFIER, "AlbertForSequenceClassification", "classify"),
        (ONE_ROW, "AlbertForSequenceClassification", "regress"),
        (ONE_ROW, "AlbertForMultipleChoice", "choice"),
        (CLASSIFIER, "AlbertForTokenClassification", "token"),
        (SQUAD, "AlbertForQuestionAnswering", "span"),
    ],
)
def test_heads_of_finetuned_checkpoints(
    head: Mapping[str, Sequence[int]],
    class_name: str,
    kind: str,
    checkpoint_maker: ModuleType,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = {"architectures": [class_name]} if kind in ("choice", "token") else {}
    folder, values = tuned_checkpoint(checkpoint_maker, tmp_path, head, **named)
    if kind in ("span", "token"):  # without pooler in `transformers`
        values = {name: value for name, value in values.items() if "pooler" not in name}
    config = {**checkpoint_maker.CONFIG, "hidden_act": "gelu_new"}
    config["num_labels"] = len(values["output_bias"]) if "output_bias" in values else 2
    hf_model = transformers_model(class_name, config, values, ALBERT_PREFIXES)
    capsys.readouterr()
    model = load(folder)
    assert model.head_settings.kind == kind
    assert ("one row" in capsys.readouterr().err) == (kind == "regress")
    with torch.no_grad():
        expected = hf_model(IDS.view(1, 1, -1) if kind == "choice" else IDS)
        if kind == "choice":
            model.head.options = 1  # type: ignore[assignment]  # a plain number
        actual = model(Strip.from_padded(IDS))
    if kind == "span":
        assert (actual.start_logits - expected.start_logits[0]).abs().max() < 1e-5
        assert (actual.end_logits - expected.end_logits[0]).abs().max() < 1e-5
    else:
        assert (actual.logits.flatten() - expected.logits.flatten()).abs().max() < 1e-5


@pytest.mark.slow
def test_encoder_of_an_unsupported_head_loads_with_a_message(
    checkpoint_maker: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    squad_2 = {"start_logits/dense/kernel": (24, 1), "start_logits/dense/bias": (1,)}
    squad_2 |= {"answer_class/dense_1/kernel": (24, 1), "end_logits/LayerNorm/beta": (24,)}
    folder, _ = tuned_checkpoint(checkpoint_maker, tmp_path / "tuned", squad_2)
    capsys.readouterr()
    model = load(folder, head="classify")
    message = "4 tensors of an unsupported head are ignored: answer_class/dense_1/kernel, "
    assert message in capsys.readouterr().err
    pretrained = load(FOLDER / "google")
    assert torch.equal(model.encoder.embedding.tokens.weight, pretrained.encoder.embedding.tokens.weight)
    assert load(folder).head_settings.kind == "pretrain"
    unknown = {"bert/encoder/extra/kernel": (2, 2)}
    folder, _ = tuned_checkpoint(checkpoint_maker, tmp_path / "unknown", unknown)
    with pytest.raises(InputError, match=r"index: unexpected tensor bert/encoder/extra/kernel; the model of"):
        load(folder)


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


def write_large_index(folder: Path) -> None:
    next(folder.glob("*.index")).write_bytes(bytes(5_000_000))


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
            write_large_index,
            r"model\.ckpt-best\.index: larger than 4,000,000 bytes",
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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"output_weights": np.ones((3, 24), np.float32), "output_bias": np.float32(0.5)},
            r"tensor classifier\.weight has shape \[3, 24\], but the config requires \[1, 24\]",
        ),
        (None, r"index: not a checkpoint of Google's code for TensorFlow 1, .* found: model/layer-0/kernel"),
    ],
)
def test_tensors_of_other_code_are_refused(
    changes: dict[str, Any] | None, message: str, checkpoint_maker: ModuleType, checkpoint: Path
) -> None:
    tensors = {name: checkpoint_maker.values(name) for name in checkpoint_maker.SHAPES}
    tensors = {"model/layer-0/kernel": np.ones(3, np.float32)} if changes is None else tensors | changes
    checkpoint_maker.write_tensor_bundle(checkpoint / "model.ckpt-best", tensors)
    with pytest.raises(InputError, match=message):
        load(checkpoint)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"header_fields": b"\x10\x01"},
            r"ckpt\.index: the checkpoint is big-endian, which is not supported",
        ),
        ({"entry_fields": b"\x3a\x00"}, r"ckpt\.index: tensor a is partitioned, which is not supported"),
        ({"entry_fields": b"\x18\x01"}, r"ckpt\.index: tensor a: the index refers to data file 1 of 1"),
    ],
)
def test_index_that_cannot_be_read_is_refused(
    fields: dict[str, bytes], message: str, checkpoint_maker: ModuleType, tmp_path: Path
) -> None:
    checkpoint_maker.write_tensor_bundle(tmp_path / "ckpt", {"a": np.float32(1.0)}, **fields)
    with pytest.raises(InputError, match=message) as caught:
        read_tensor_bundle(tmp_path / "ckpt")
    assert "\n" not in str(caught.value)


def test_nan_is_refused_with_the_name_of_the_tensor(checkpoint_maker: ModuleType, checkpoint: Path) -> None:
    tensors = {name: checkpoint_maker.values(name).copy() for name in checkpoint_maker.SHAPES}
    tensors["bert/embeddings/word_embeddings"][3, 4] = np.nan
    checkpoint_maker.write_tensor_bundle(checkpoint / "model.ckpt-best", tensors)
    with pytest.raises(InputError, match=r"word_embeddings\.weight has values that are NaN or infinite"):
        load(checkpoint)


def test_bfloat16_is_read(checkpoint_maker: ModuleType, tmp_path: Path) -> None:
    values = torch.tensor([[1.0, -2.5], [0.15625, 3e30]], dtype=torch.bfloat16)
    bits = values.view(torch.int16).numpy().view(np.uint16)
    checkpoint_maker.write_tensor_bundle(tmp_path / "model", {"weights": bits})
    assert torch.equal(read_tensor_bundle(tmp_path / "model")["weights"], values)


def test_index_that_unfolds_is_refused(checkpoint_maker: ModuleType, tmp_path: Path) -> None:
    long_names = {f"{'x' * 100_000}{number}": np.zeros(1, np.float32) for number in range(3)}
    checkpoint_maker.write_tensor_bundle(tmp_path / "model", long_names)
    with pytest.raises(InputError, match="the name of a tensor is too long"):
        read_tensor_bundle(tmp_path / "model")


@pytest.mark.slow
def test_changed_index_bytes_are_detected_or_harmless(checkpoint: Path) -> None:
    index = next(checkpoint.glob("*.index"))
    content = index.read_bytes()
    expected = read_tensor_bundle(index.with_suffix(""))
    for position in range(0, len(content), 29):
        changed_byte = bytes([content[position] ^ 0x55])
        index.write_bytes(content[:position] + changed_byte + content[position + 1 :])
        try:
            tensors = read_tensor_bundle(index.with_suffix(""))
        except InputError:
            continue
        assert tensors.keys() == expected.keys()
        assert all(torch.equal(tensors[name], expected[name]) for name in expected)

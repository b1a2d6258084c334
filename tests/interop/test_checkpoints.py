"""Tests against `transformers`: equal weights give equal outputs, and both load the files of the other."""

import json
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

from albertine import progress
from albertine.cli import app
from albertine.command import run_command
from albertine.errors import InputError
from albertine.interop import transformers_config
from albertine.interop.load import has_masked_head, load, load_masked_lm
from albertine.interop.load_checkpoint import load_folder
from albertine.interop.save_checkpoint import save_folder
from albertine.model.model import Model
from albertine.model.pretraining_heads import MaskedLMTargets, PretrainingTargets
from albertine.model.span_head import SpanTargets
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.model import HeadKind

LENGTHS = (7, 12, 3, 12)
CLASS_SUFFIXES = {
    "pretrain": "PreTraining",
    "mlm": "MaskedLM",
    "classify": "SequenceClassification",
    "regress": "SequenceClassification",
    "span": "QuestionAnswering",
    "choice": "MultipleChoice",
    "token": "TokenClassification",
}
CASES = [(family, kind) for family in ("Albert", "Bert") for kind in CLASS_SUFFIXES]


@pytest.fixture(autouse=True)
def quiet_progress() -> Iterator[None]:
    progress.set_quiet(True)
    yield
    progress.set_quiet(False)


def transformers_model(family: str, kind: str, **changes: Any) -> Any:
    """Return a small model of `transformers`, with random values in all parameters, also norms and biases."""
    values: dict[str, Any] = {
        "vocab_size": 61,
        "hidden_size": 24,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 40,
        "max_position_embeddings": 16,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "classifier_dropout_prob" if family == "Albert" else "classifier_dropout": 0.0,
        "num_labels": 1 if kind == "regress" else 3 if kind in ("classify", "token") else 2,
    }
    if family == "Albert":
        values |= {"embedding_size": 10}
    config = getattr(transformers, f"{family}Config")(**values | changes)
    model = getattr(transformers, f"{family}For{CLASS_SUFFIXES[kind]}")(config).eval()
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
    return model


def batch() -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(2)
    longest = max(LENGTHS)
    mask = torch.tensor([[1] * n + [0] * (longest - n) for n in LENGTHS])
    return {
        "input_ids": torch.randint(1, 61, mask.shape, generator=generator) * mask,
        "attention_mask": mask,
        "token_type_ids": torch.randint(0, 2, mask.shape, generator=generator) * mask,
    }


def strip_from_inputs(inputs: dict[str, Tensor]) -> Strip:
    return Strip.from_padded(inputs["input_ids"], inputs["attention_mask"], inputs["token_type_ids"])


def save_transformers(model: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


def assert_close(actual: Tensor, expected: Tensor) -> None:
    """Assert that two tensors differ by at most 1e-5 of the largest expected value."""
    assert actual.shape == expected.shape
    assert (actual - expected).abs().max() <= 1e-5 * expected.abs().max()


def losses_and_logits(
    kind: str, hf_model: Any, model: Model
) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
    """Return the losses of both models on one batch, and pairs of their logits; `transformers` first."""
    inputs = batch()
    strip = strip_from_inputs(inputs)
    real = inputs["attention_mask"].bool()
    if kind in ("mlm", "pretrain"):
        indices = torch.tensor([1, 5, 8, 20, 30])
        masked_labels = torch.tensor([4, 9, 3, 60, 11])
        labels = torch.full_like(inputs["input_ids"], -100)
        flat = labels[real]
        flat[indices] = masked_labels
        labels[real] = flat
        if kind == "mlm":
            expected = hf_model(**inputs, labels=labels)
            actual = model(strip, MaskedLMTargets(indices, masked_labels))
            return expected.loss, actual.loss, [(expected.logits[real][indices], actual.logits)]
        pair = torch.tensor([0, 1, 1, 0])
        name = "sentence_order_label" if "Albert" in type(hf_model).__name__ else "next_sentence_label"
        expected = hf_model(**inputs, labels=labels, **{name: pair})
        actual = model(strip, PretrainingTargets(MaskedLMTargets(indices, masked_labels), pair))
        pair_logits = (
            expected.sop_logits if "Albert" in type(hf_model).__name__ else expected.seq_relationship_logits
        )
        return (
            expected.loss,
            actual.loss,
            [
                (expected.prediction_logits[real][indices], actual.masked.logits),
                (pair_logits, actual.pair_logits),
            ],
        )
    if kind in ("classify", "regress"):
        labels = torch.tensor([2, 0, 1, 1]) if kind == "classify" else torch.tensor([0.5, -1.0, 2.0, 0.0])
        expected = hf_model(**inputs, labels=labels)
        actual = model(strip, labels)
        return expected.loss, actual.loss, [(expected.logits.squeeze(1), actual.logits)]
    if kind == "choice":
        labels = torch.tensor([1, 0])
        expected = hf_model(**{name: value.view(2, 2, -1) for name, value in inputs.items()}, labels=labels)
        actual = model(strip, labels)
        return expected.loss, actual.loss, [(expected.logits, actual.logits)]
    if kind == "token":
        labels = torch.where(real, inputs["input_ids"] % 3, -100)
        expected = hf_model(**inputs, labels=labels)
        actual = model(strip, labels[real])
        return expected.loss, actual.loss, [(expected.logits[real], actual.logits)]
    # The span loss of `transformers` includes padding, so it is computed here from the logits of real tokens.
    start, end = torch.tensor([2, 0, 1, 5]), torch.tensor([3, 0, 2, 11])
    expected = hf_model(**inputs)
    masked_logits = [
        logits.masked_fill(~real, float("-inf")) for logits in (expected.start_logits, expected.end_logits)
    ]
    cross_entropy = torch.nn.functional.cross_entropy
    actual = model(strip, SpanTargets(start, end))
    pairs = [
        (expected.start_logits[real], actual.start_logits),
        (expected.end_logits[real], actual.end_logits),
    ]
    loss = (cross_entropy(masked_logits[0], start) + cross_entropy(masked_logits[1], end)) / 2
    return loss, actual.loss, pairs


def load_small_model(folder: Path, kind: str) -> Model:
    """Return a loaded checkpoint; its questions have two options, which no key of `transformers` says."""
    model = load_folder(folder)
    if kind == "choice":
        model.head.options = 2  # type: ignore[assignment]  # a plain number
    return model


@pytest.mark.parametrize(("family", "kind"), CASES)
def test_loaded_model_equals_transformers(family: str, kind: str, tmp_path: Path) -> None:
    hf_model = transformers_model(family, kind)
    model = load_small_model(save_transformers(hf_model, tmp_path / "hf"), kind)
    assert model.head_settings.kind == kind
    expected_loss, loss, logits = losses_and_logits(kind, hf_model, model)
    assert_close(loss, expected_loss)
    for expected, actual in logits:
        assert_close(actual, expected)
    expected_loss.backward()
    loss.backward()
    expected_gradients = converted_gradients(hf_model, model, tmp_path)
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        largest = max(float(gradient.abs().max()) for gradient in expected_gradients.values())
        assert (parameter.grad - expected_gradients[name]).abs().max() <= 1e-5 * largest, name


@pytest.mark.parametrize("family", ["Albert", "Bert"])
@pytest.mark.parametrize("name", transformers_config._ACTIVATIONS)
def test_every_name_of_an_activation_equals_transformers(name: str, family: str, tmp_path: Path) -> None:
    hf_model = transformers_model(family, "mlm", hidden_act=name)
    model = load_small_model(save_transformers(hf_model, tmp_path), "mlm")
    *_, ((expected, actual),) = losses_and_logits("mlm", hf_model, model)
    assert_close(actual, expected)


def converted_gradients(hf_model: Any, model: Model, tmp_path: Path) -> dict[str, Tensor]:
    """Return the gradients of a model of `transformers` by Albertine's parameter names.

    They are loaded from a checkpoint whose weights are the gradients.
    """
    kind = model.head_settings.kind
    with torch.no_grad():
        for parameter in hf_model.parameters():
            parameter.copy_(torch.zeros_like(parameter) if parameter.grad is None else parameter.grad)
    loaded = load_small_model(save_transformers(hf_model, tmp_path / "gradients"), kind)
    return {name: parameter.detach() for name, parameter in loaded.named_parameters()}


@pytest.mark.slow
@pytest.mark.parametrize(("family", "kind"), CASES)
def test_twenty_training_steps_equal_transformers(family: str, kind: str, tmp_path: Path) -> None:
    hf_model = transformers_model(family, kind).train()
    model = load_small_model(save_transformers(hf_model, tmp_path), kind).train()
    optimizers = [torch.optim.AdamW(net.parameters(), lr=1e-3) for net in (hf_model, model)]
    for _ in range(20):
        *losses, _ = losses_and_logits(kind, hf_model, model)
        expected, actual = (loss.item() for loss in losses)
        assert abs(actual - expected) <= 1e-4 * max(1.0, abs(expected))
        for loss, optimizer in zip(losses, optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


@pytest.mark.parametrize(("family", "kind"), CASES)
def test_saved_model_opens_in_transformers(family: str, kind: str, tmp_path: Path) -> None:
    model = load_small_model(save_transformers(transformers_model(family, kind), tmp_path / "hf"), kind)
    save_folder(model, tmp_path / "saved")
    reopened, loading_info = open_in_transformers(tmp_path / "saved", f"{family}For{CLASS_SUFFIXES[kind]}")
    assert loading_info == {"missing_keys": [], "unexpected_keys": [], "mismatched_keys": []}
    _, _, logits = losses_and_logits(kind, reopened.eval(), model)
    for expected, actual in logits:
        assert_close(actual, expected)


def open_in_transformers(folder: Path, class_name: str) -> tuple[Any, dict[str, list[Any]]]:
    """Return a checkpoint as a model of `transformers`, and the tensor names that do not match."""
    model, loading_info = getattr(transformers, class_name).from_pretrained(folder, output_loading_info=True)
    keys = ("missing_keys", "unexpected_keys", "mismatched_keys")
    return model, {key: sorted(loading_info[key]) for key in keys}


DEPTH_PLAN_CASES = [
    ModelSettings(share="all", layers=4, groups=2),
    ModelSettings(share="attention", layers=4),
    ModelSettings(share="ffn", layers=4),
    ModelSettings(share="attention", layers=4, groups=2),
    ModelSettings(share="none", layers=4),
    ModelSettings(share="all", layers=4, inner_groups=2),
    ModelSettings(share="all", layers=4, embedding_size=24),
    ModelSettings(share="attention", layers=4, embedding_size=24),
    ModelSettings(share="none", layers=4, embedding_size=24, activation="gelu"),
]


def small_settings(settings: ModelSettings) -> ModelSettings:
    """Return settings of a small model with the depth plan of the given ones."""
    embedding_size = 24 if settings.embedding_size == 24 else 10
    return replace(
        settings, embedding_size=embedding_size, hidden_size=24, heads=4, vocab_size=61, max_length=16
    )


@pytest.mark.parametrize("settings", DEPTH_PLAN_CASES, ids=str)
def test_round_trip_for_every_depth_plan(settings: ModelSettings, tmp_path: Path) -> None:
    model = Model(small_settings(settings), HeadSettings(kind="mlm"), seed=3).eval()
    save_folder(model, tmp_path / "saved")
    family = json.loads((tmp_path / "saved" / "config.json").read_text())["model_type"].capitalize()
    hf_model, loading_info = open_in_transformers(tmp_path / "saved", f"{family}ForMaskedLM")
    assert loading_info == {"missing_keys": [], "unexpected_keys": [], "mismatched_keys": []}
    inputs = batch()
    with torch.no_grad():
        expected = hf_model.eval()(**inputs).logits[inputs["attention_mask"].bool()]
        assert_close(model(strip_from_inputs(inputs)).logits, expected)
    reloaded = load(tmp_path / "saved")
    assert reloaded.settings == model.settings
    reloaded_parameters = dict(reloaded.named_parameters())
    for name, parameter in model.named_parameters():
        assert torch.equal(reloaded_parameters[name], parameter), name


DEPTH_RULES = {
    "signal": ModelSettings(layers=4, step_signal=True),
    "halting": ModelSettings(layers=4, depth_rule="halting", step_signal=True),
    "equilibrium": ModelSettings(layers=4, depth_rule="equilibrium"),
    "rotary": ModelSettings(layers=4, rotary=True),
    "rotary, norm first": ModelSettings(layers=4, rotary=True, norm_first=True, step_vectors=True),
    "norm first": ModelSettings(layers=4, norm_first=True),
    "marked matches": ModelSettings(layers=4, mark_matches=True),
    "marked matches, separate layers": ModelSettings(
        layers=3, share="none", mark_matches=True, embedding_size=24, activation="gelu"
    ),
    "marked matches, rotary": ModelSettings(layers=4, mark_matches=True, rotary=True, norm_first=True),
    "norm first in groups": ModelSettings(layers=4, groups=2, inner_groups=2, norm_first=True),
    "norm first, separate layers": ModelSettings(
        layers=3, share="none", norm_first=True, embedding_size=24, activation="gelu"
    ),
    "norm first, shared attention": ModelSettings(layers=3, share="attention", norm_first=True),
    "norm first, all else": ModelSettings(
        layers=3, norm_first=True, step_signal=True, depth_rule="halting", step_rank=2, step_vectors=True
    ),
    "low rank": ModelSettings(layers=4, step_rank=3),
    "own vectors": ModelSettings(layers=4, step_vectors=True, embedding_size=24),
    "halting with differences": ModelSettings(layers=3, depth_rule="halting", step_rank=2, step_vectors=True),
}


def random_model(settings: ModelSettings, head: HeadSettings) -> Model:
    """Return a small model with random values in all parameters, also those that start at 0."""
    model = Model(small_settings(settings), head, seed=3).eval()
    generator = torch.Generator().manual_seed(4)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn(parameter.shape, generator=generator), alpha=0.1)
    return model


@pytest.mark.slow
@pytest.mark.parametrize("settings", DEPTH_RULES.values(), ids=DEPTH_RULES.keys())
@pytest.mark.parametrize("kind", CLASS_SUFFIXES)
def test_other_depth_rules_open_in_transformers_with_their_modelling_file(
    settings: ModelSettings, kind: Any, tmp_path: Path
) -> None:
    labels = 3 if kind in ("classify", "token") else 1 if kind in ("regress", "choice") else 2
    head = HeadSettings(kind=kind, labels=labels, options=2)
    model = random_model(settings, head)
    save_folder(model, tmp_path / "saved")
    auto_class = getattr(transformers, f"AutoModelFor{CLASS_SUFFIXES[kind]}")
    hf_model, info = auto_class.from_pretrained(
        tmp_path / "saved", trust_remote_code=True, output_loading_info=True
    )
    assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
    _, _, logits = losses_and_logits(kind, hf_model.eval(), model)
    for expected, actual in logits:
        assert_close(actual, expected)
    hf_model.save_pretrained(tmp_path / "again")
    reloaded = load(tmp_path / "again")
    assert reloaded.settings == model.settings
    for (name, parameter), other in zip(model.named_parameters(), reloaded.parameters(), strict=True):
        assert torch.equal(parameter, other), name


def test_rotary_positions_run_in_bf16_in_transformers(tmp_path: Path) -> None:
    save_folder(random_model(DEPTH_RULES["rotary"], HeadSettings(kind="mlm")), tmp_path / "saved")
    hf_model = transformers.AutoModelForMaskedLM.from_pretrained(
        tmp_path / "saved", trust_remote_code=True, dtype=torch.bfloat16
    )
    with torch.no_grad():
        assert hf_model(**batch()).logits.isfinite().all()


def test_another_depth_rule_needs_the_modelling_file(tmp_path: Path) -> None:
    save_folder(Model(small_settings(DEPTH_RULES["halting"])), tmp_path / "saved")
    with pytest.raises(ValueError, match="trust_remote_code"):  # and not silently another network
        transformers.AutoModel.from_pretrained(tmp_path / "saved", trust_remote_code=False)
    config_file = tmp_path / "saved" / "config.json"
    config = json.loads(config_file.read_text())
    for key, value in (("depth_rule", "sometimes"), ("step_signal", 5), ("num_hidden_groups", 3)):
        config_file.write_text(json.dumps({**config, key: value}))
        with pytest.raises(InputError, match=key if key != "num_hidden_groups" else "groups"):
            load_folder(tmp_path / "saved")
    save_folder(Model(small_settings(ModelSettings())), tmp_path / "plain")
    assert not (tmp_path / "plain" / "modeling_albertine.py").exists()
    assert "auto_map" not in json.loads((tmp_path / "plain" / "config.json").read_text())


def test_differing_copies_load_as_groups(tmp_path: Path) -> None:
    model = Model(
        small_settings(ModelSettings(share="attention", layers=4, embedding_size=24)),
        HeadSettings(kind="mlm"),
    )
    save_folder(model, tmp_path / "saved")
    hf_model, _ = open_in_transformers(tmp_path / "saved", "AlbertForMaskedLM")
    with torch.no_grad():
        hf_model.albert.encoder.albert_layer_groups[2].albert_layers[0].attention.dense.weight += 0.5
        hf_model.albert.encoder.embedding_hidden_mapping_in.weight += 0.5
    reloaded = load(save_transformers(hf_model, tmp_path / "hf"))
    settings = reloaded.settings
    assert (settings.share, settings.groups, settings.always_project) == ("all", 4, True)
    inputs = batch()
    with torch.no_grad():
        expected = hf_model.eval()(**inputs).logits[inputs["attention_mask"].bool()]
        assert_close(reloaded.eval()(strip_from_inputs(inputs)).logits, expected)


@pytest.mark.parametrize("share", ["attention", "ffn"])
def test_plain_keys_change_settings_but_not_the_sharing(share: Any, tmp_path: Path) -> None:
    settings = small_settings(ModelSettings(share=share, layers=4))
    save_folder(Model(settings, HeadSettings(kind="classify", dropout=0.1)), tmp_path / "saved")
    hf_model, _ = open_in_transformers(tmp_path / "saved", "AlbertForSequenceClassification")
    hf_model.resize_token_embeddings(64)
    hf_model.config.hidden_dropout_prob = 0.25
    hf_model.config.classifier_dropout_prob = 0.5
    reloaded = load(save_transformers(hf_model, tmp_path / "hf"))
    assert reloaded.settings == replace(settings, vocab_size=64, dropout=0.25)
    assert reloaded.head_settings.dropout == 0.5
    file = tmp_path / "hf" / "config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps({**config, "classifier_dropout_prob": 2}))
    with pytest.raises(InputError, match="classifier_dropout_prob"):
        load(tmp_path / "hf")


@pytest.mark.parametrize("family", ["Albert", "Bert"])
def test_an_encoder_without_a_head_is_no_masked_lm(
    family: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    base = getattr(transformers_model(family, "pretrain"), family.lower())
    folder = save_transformers(base, tmp_path / "encoder")
    model = load(folder)
    assert model.missing_parameters
    assert not has_masked_head(model)
    with pytest.raises(InputError, match="encoder: an encoder without a head, which predicts nothing"):
        load_masked_lm(folder, folder)
    assert run_command(app, ["export", str(folder), "--to", "onnx", "--out", str(tmp_path / "onnx")]) == 2
    assert "an encoder without a head" in capsys.readouterr().err
    assert run_command(app, ["convert", str(folder), str(tmp_path / "copy")]) == 0
    assert json.loads((tmp_path / "copy" / "config.json").read_text())["architectures"] == [f"{family}Model"]
    names = load_file(tmp_path / "copy" / "model.safetensors")
    assert {name.removeprefix(f"{family.lower()}.") for name in names} == set(base.state_dict())
    _, loading_info = open_in_transformers(tmp_path / "copy", f"{family}Model")
    assert loading_info == {"missing_keys": [], "unexpected_keys": [], "mismatched_keys": []}


def test_message_says_that_a_head_of_the_same_kind_is_dropped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = save_transformers(transformers_model("Albert", "classify"), tmp_path)

    def message(head: HeadKind) -> str:
        progress.set_quiet(False)
        load(folder, head=head)
        return capsys.readouterr().err

    expected = (
        "head classify is newly initialized (head.out); the checkpoint's own classify head is dropped; "
        "albertine.load without `head` keeps it"
    )
    assert expected in message("classify")
    assert "dropped" not in message("token")
    edit_config(architectures=["AlbertForSomethingElse"])(folder)
    assert "dropped" not in message("classify")


def test_another_head_is_initialized_with_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress.set_quiet(False)
    folder = save_transformers(transformers_model("Albert", "pretrain"), tmp_path)
    capsys.readouterr()
    model = load(folder, head="span")
    assert "head span is newly initialized (head.out)\n" in capsys.readouterr().err
    original = load(folder)
    assert torch.equal(model.encoder.embedding.tokens.weight, original.encoder.embedding.tokens.weight)
    with pytest.raises(InputError, match=r"head spam: unknown \(did you mean span\?\)"):
        load(folder, head="spam")  # type: ignore[arg-type]  # the tested error


@pytest.mark.slow
def test_loading_does_not_import_the_compiler(tmp_path: Path) -> None:
    """It takes a second."""
    settings = ModelSettings(vocab_size=50, embedding_size=8, hidden_size=16, layers=1, heads=2)
    save_folder(Model(settings, HeadSettings("pretrain")), tmp_path / "model")
    code = "import albertine, sys; albertine.load(sys.argv[1]); print('torch._dynamo' in sys.modules)"
    command = [sys.executable, "-c", code, str(tmp_path / "model")]
    completed = subprocess.run(command, capture_output=True, text=True, check=True)
    assert completed.stdout == "False\n"


def test_encoder_without_head_loads(tmp_path: Path) -> None:
    hf_model = transformers_model("Albert", "pretrain")
    hf_model.albert.save_pretrained(tmp_path)
    model = load(tmp_path).eval()
    inputs = batch()
    with torch.no_grad():
        expected = hf_model.albert(**inputs).last_hidden_state[inputs["attention_mask"].bool()]
        assert_close(model.encoder(strip_from_inputs(inputs)), expected)


def test_answerable_layer_is_saved_in_its_own_file(tmp_path: Path) -> None:
    head = HeadSettings(kind="span", answerable=True)
    model = Model(small_settings(ModelSettings()), head, seed=5).eval()
    save_folder(model, tmp_path / "saved")
    _, loading_info = open_in_transformers(tmp_path / "saved", "AlbertForQuestionAnswering")
    assert loading_info["unexpected_keys"] == []
    reloaded = load(tmp_path / "saved").eval()
    strip = strip_from_inputs(batch())
    assert torch.equal(reloaded(strip).answerable_logits, model(strip).answerable_logits)


def change_tensor(name: str, value: Tensor | None) -> Callable[[Path], None]:
    """Return a function that replaces a tensor of a file, or removes it."""

    def change(file: Path) -> None:
        tensors = load_file(file) | {name: value}
        save_file({key: tensor for key, tensor in tensors.items() if tensor is not None}, file)

    return change


def save_co_matching(folder: Path) -> Model:
    """Write a model with a co-matching head; return it."""
    head = HeadSettings("choice", labels=1, options=2, co_matching=True)
    model = Model(small_settings(ModelSettings()), head, seed=5).eval()
    save_folder(model, folder)
    return model


def test_co_matching_head_is_saved_in_its_own_file(tmp_path: Path) -> None:
    model = save_co_matching(tmp_path)
    reloaded = load(tmp_path)
    assert reloaded.head_settings == model.head_settings
    for name, weight in model.named_parameters():
        assert torch.equal(parameter(reloaded, name), weight), name
    _, loading_info = open_in_transformers(tmp_path, "AlbertModel")
    assert loading_info["unexpected_keys"] == []
    _, loading_info = open_in_transformers(tmp_path, "AlbertForMultipleChoice")
    assert loading_info["unexpected_keys"] == []
    own_head = {f"{layer}.{part}" for layer in ("albert.pooler", "classifier") for part in ("weight", "bias")}
    assert set(loading_info["missing_keys"]) == own_head


@pytest.mark.parametrize(
    ("head", "other"),
    [
        (
            HeadSettings("choice", labels=1, options=2, co_matching=True),
            HeadSettings("choice", labels=1, options=4, co_matching=True),
        ),
        (HeadSettings("classify", labels=3, matching=True), HeadSettings("regress", labels=1, matching=True)),
    ],
    ids=["co-matching", "matching"],
)
def test_a_new_head_takes_the_comparison_of_an_old_one(
    head: HeadSettings, other: HeadSettings, tmp_path: Path
) -> None:
    model = Model(small_settings(ModelSettings()), head, seed=5)
    save_folder(model, tmp_path)
    new = load(tmp_path, head=other, seed=6)
    assert torch.equal(new.encoder.embedding.tokens.weight, model.encoder.embedding.tokens.weight)
    taken = {
        name
        for name, weight in new.head.named_parameters()
        if weight.shape == parameter(model, f"head.{name}").shape
        and torch.equal(weight, parameter(model, f"head.{name}"))
    }
    names = {name for name, _ in new.head.named_parameters() if not name.startswith("out.")}
    assert taken - {"out.bias"} == names


@pytest.mark.parametrize(
    "class_name", ["AlbertForMaskedLM", "AlbertModel", "AlbertForSequenceClassification"]
)
def test_the_comparison_begins_anew_if_transformers_has_not_saved_it(class_name: str, tmp_path: Path) -> None:
    head = HeadSettings("classify", labels=3, matching=True)
    model = Model(small_settings(ModelSettings()), head, seed=5)
    save_folder(model, tmp_path / "saved")
    changed = change_in_transformers(tmp_path / "saved", tmp_path / "hf", class_name)
    new = load(changed, head=head, seed=6)
    assert torch.equal(new.encoder.embedding.tokens.weight, model.encoder.embedding.tokens.weight)
    comparison = [name for name in new.state_dict() if name.startswith("head.matching.")]
    assert any(not torch.equal(new.state_dict()[name], model.state_dict()[name]) for name in comparison)


def test_the_head_that_transformers_has_trained_replaces_co_matching(tmp_path: Path) -> None:
    save_co_matching(tmp_path / "saved")
    changed = change_in_transformers(tmp_path / "saved", tmp_path / "hf", "AlbertForMultipleChoice")
    model = load(changed)
    assert model.head_settings == HeadSettings("choice", labels=1, options=2)
    hf_model: Any = transformers.AlbertForMultipleChoice.from_pretrained(changed)
    inputs = batch()
    with torch.no_grad():
        expected = hf_model.eval()(**{name: value.view(2, 2, -1) for name, value in inputs.items()}).logits
        assert_close(model(strip_from_inputs(inputs)).logits, expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda file: file.unlink(), "missing; get the file again"),
        (lambda file: file.write_bytes(file.read_bytes()[:-9]), "damaged, or not a safetensors file"),
        (change_tensor("out.weight", None), "tensor out.weight is missing; get the file again"),
        (
            change_tensor("first.bias", torch.zeros(5)),
            r"tensor first.bias has shape \[5\], but the config requires \[24\]",
        ),
        (
            change_tensor("gate.bias", torch.full((24,), torch.nan)),
            "tensor gate.bias has values that are NaN or infinite",
        ),
    ],
    ids=["missing", "truncated", "missing tensor", "shape", "NaN"],
)
def test_wrong_co_matching_file_is_refused(
    change: Callable[[Path], Any], message: str, tmp_path: Path
) -> None:
    save_co_matching(tmp_path)
    change(tmp_path / "co_matching.safetensors")
    with pytest.raises(InputError, match=rf"co_matching\.safetensors: {message}") as error:
        load(tmp_path)
    assert "\n" not in str(error.value)
    load(tmp_path, head="choice")


@pytest.mark.parametrize("kind", ["classify", "multi-label", "regress"])
def test_a_head_that_matches_texts_has_a_file_of_its_own(kind: Any, tmp_path: Path) -> None:
    head = HeadSettings(kind, labels=1 if kind == "regress" else 3, matching=True)
    model = Model(small_settings(ModelSettings()), head, seed=5).eval()
    save_folder(model, tmp_path / "saved")
    reloaded = load(tmp_path / "saved")
    assert reloaded.head_settings == head
    for name, weight in model.named_parameters():
        assert torch.equal(parameter(reloaded, name), weight), name
    _, loading_info = open_in_transformers(tmp_path / "saved", "AlbertForSequenceClassification")
    assert loading_info["unexpected_keys"] == []
    assert set(loading_info["missing_keys"]) == {"classifier.weight", "classifier.bias"}
    changed = change_in_transformers(tmp_path / "saved", tmp_path / "hf", "AlbertForSequenceClassification")
    assert not load(changed).head_settings.matching


Damage = Callable[[Path], None]


def truncate(folder: Path) -> None:
    file = folder / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def edit_tensors(change: Callable[[dict[str, Tensor]], object]) -> Damage:
    def damage(folder: Path) -> None:
        from safetensors.torch import load_file, save_file

        tensors = load_file(folder / "model.safetensors")
        change(tensors)
        save_file(tensors, folder / "model.safetensors")

    return damage


def edit_config(**changes: Any) -> Damage:
    def damage(folder: Path) -> None:
        file = folder / "config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | changes))

    return damage


LFS_POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12345\n"
WORD_EMBEDDINGS = "albert.embeddings.word_embeddings.weight"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (truncate, r"model\.safetensors: damaged, or not a safetensors file"),
        (
            edit_tensors(lambda t: t.__delitem__(WORD_EMBEDDINGS)),
            rf"model\.safetensors: tensor {WORD_EMBEDDINGS} is missing",
        ),
        (edit_tensors(lambda t: t.update(surplus=torch.ones(2))), "unexpected tensor surplus"),
        (
            edit_tensors(lambda t: t.update({WORD_EMBEDDINGS: torch.ones(3, 3)})),
            rf"tensor {WORD_EMBEDDINGS} has shape \[3, 3\], but the config requires \[61, 10\]",
        ),
        (edit_config(model_type="roberta"), r"config\.json: model_type 'roberta' is not supported"),
        (edit_config(architectures=["AlbertForPoetry"]), "architecture AlbertForPoetry is not supported"),
        (edit_config(architectures=[5]), r"architectures = \[5\]: must be a list of names"),
        (
            edit_config(architectures=None),
            r"has predictions\.LayerNorm\.bias, but the config names no architecture",
        ),
        (
            edit_config(num_hidden_layers=2, num_hidden_groups=1, hidden_act=["gelu"]),
            "hidden_act .* is not supported",
        ),
        (
            edit_tensors(lambda t: t.update({WORD_EMBEDDINGS: t[WORD_EMBEDDINGS].to(torch.int8)})),
            rf"tensor {WORD_EMBEDDINGS} is torch\.int8",
        ),
        (
            edit_tensors(lambda t: t.update({"predictions.decoder.bias": torch.ones(61)})),
            "differs from predictions.bias",
        ),
        (edit_config(hidden_act="relu"), "hidden_act 'relu' is not supported"),
        (edit_config(num_attention_heads=5), "num_attention_heads = 5: must divide hidden_size = 24"),
        (
            edit_config(num_hidden_layers=100_000),
            r"config\.json: num_hidden_layers = 100000: must be at most 1,000",
        ),
        (
            edit_config(num_hidden_layers=1000, num_hidden_groups=1000),
            r"tensor albert\.encoder\.albert_layer_groups\.1\..* is missing",
        ),
        (edit_config(inner_group_num=500), "must be at most 1,000 / inner_groups = 500"),
        (edit_config(vocab_size=100_000_000), "but the config requires .100000000, 10"),
        (edit_config(intermediate_size=10_000_000), "but the config requires .10000000, 24"),
        (
            edit_tensors(lambda t: t[WORD_EMBEDDINGS].view(-1)[7].fill_(torch.nan)),
            f"tensor {WORD_EMBEDDINGS} has values that are NaN or infinite",
        ),
        (
            edit_tensors(lambda t: t["predictions.bias"].data[3:4].fill_(torch.inf)),
            r"tensor predictions\.bias has values that are NaN or infinite",
        ),
        (
            edit_tensors(
                lambda t: t.update(
                    {"predictions.decoder.bias": torch.full([61], torch.nan, dtype=torch.bfloat16)}
                )
            ),
            r"tensor predictions\.decoder\.bias has values that are NaN or infinite",
        ),
        (lambda f: (f / "config.json").write_text("{") and None, r"config\.json: not JSON"),
        (lambda f: (f / "config.json").unlink(), r"config\.json: No such file"),
        (lambda f: (f / "model.safetensors").unlink(), "has no model.safetensors"),
        (
            lambda f: (f / "model.safetensors").rename(f / "tf_model.h5") and None,
            r"its weights are in tf_model\.h5, which is not supported; save them again as",
        ),
        (
            lambda f: (f / "model.safetensors").write_text("<!DOCTYPE html><html>") and None,
            r"model\.safetensors: damaged, or not a safetensors file; get the file again",
        ),
        (
            lambda f: (f / "model.safetensors").write_text(LFS_POINTER) and None,
            r"model\.safetensors: a git-lfs pointer in place of the weights; run git lfs pull",
        ),
        (
            edit_tensors(
                lambda t: t.update({"predictions.bias": torch.full([61], 1e300, dtype=torch.float64)})
            ),
            r"tensor predictions\.bias has values that are NaN or infinite in fp32",
        ),
    ],
)
def test_damaged_checkpoint_error_is_one_line(damage: Damage, message: str, tmp_path: Path) -> None:
    folder = save_transformers(transformers_model("Albert", "mlm"), tmp_path)
    damage(folder)
    with pytest.raises(InputError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64, torch.float8_e4m3fn])
def test_large_finite_weights_load(dtype: torch.dtype, tmp_path: Path) -> None:
    folder = save_transformers(transformers_model("Albert", "mlm"), tmp_path)
    value = 0.99 * min(torch.finfo(dtype).max, torch.finfo(torch.float32).max)
    edit_tensors(lambda t: t.update({WORD_EMBEDDINGS: torch.full((61, 10), value).to(dtype)}))(folder)
    assert load(folder).encoder.embedding.tokens.weight.isfinite().all()
    if dtype != torch.float8_e4m3fn:  # has no infinity
        edit_tensors(lambda t: t[WORD_EMBEDDINGS].view(-1)[0].fill_(-torch.inf))(folder)
        with pytest.raises(InputError, match="NaN or infinite"):
            load(folder)


@pytest.mark.slow
def test_too_many_tensors_are_refused_at_once(tmp_path: Path) -> None:
    folder = save_transformers(transformers_model("Albert", "mlm"), tmp_path)
    edit_tensors(lambda t: t.update({f"classifier.{i}": torch.zeros(1) for i in range(60_000)}))(folder)
    started = time.perf_counter()
    with pytest.raises(InputError, match=r"model\.safetensors: a header of .* bytes, of at most 4,000,000"):
        load(folder)
    assert time.perf_counter() - started < 1


class Exploit:
    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return (eval, ("open('exploited', 'w')",))


def test_pickle_with_code_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folder = save_transformers(transformers_model("Albert", "mlm"), tmp_path / "m")
    (folder / "model.safetensors").unlink()
    torch.save({"weight": Exploit()}, folder / "pytorch_model.bin")
    with pytest.raises(InputError, match=r"bin: refused: it holds .* code \((builtins\.)?eval\); if"):
        load(folder)
    assert not (tmp_path / "exploited").exists()


def as_pickle(content: Any) -> Damage:
    return lambda folder: torch.save(content, folder / "pytorch_model.bin")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda f: (f / "pytorch_model.bin").write_text(LFS_POINTER) and None, "a git-lfs pointer in place"),
        (lambda f: (f / "pytorch_model.bin").write_text("<html>") and None, "bin: not a checkpoint; get"),
        (lambda f: (f / "pytorch_model.bin").write_bytes(b"\x80\x02x") and None, "not a pickle of tensors"),
        (as_pickle({"a": torch.eye(2).to_sparse()}), "tensor a is torch.sparse_coo; expected dense tensors"),
        (as_pickle({"a": torch.ones(2, device="meta")}), "tensor a is on the meta device; expected dense"),
    ],
)
def test_what_is_no_pickle_of_tensors_gives_one_line(damage: Damage, message: str, tmp_path: Path) -> None:
    folder = save_transformers(transformers_model("Albert", "mlm"), tmp_path)
    (folder / "model.safetensors").unlink()
    damage(folder)
    with pytest.raises(InputError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


def test_plain_pickle_and_shards_load(tmp_path: Path) -> None:
    hf_model = transformers_model("Bert", "mlm")
    expected = dict(load(save_transformers(hf_model, tmp_path / "whole")).named_parameters())
    hf_model.save_pretrained(tmp_path / "shards", max_shard_size="8KB")
    assert (tmp_path / "shards" / "model.safetensors.index.json").exists()
    save_transformers(hf_model, tmp_path / "pickle")
    (tmp_path / "pickle" / "model.safetensors").unlink()
    torch.save(hf_model.state_dict(), tmp_path / "pickle" / "pytorch_model.bin")
    (tmp_path / "pickle shards").mkdir()
    shutil.copy(tmp_path / "pickle" / "config.json", tmp_path / "pickle shards")
    tensors, names = hf_model.state_dict(), {}
    for number, name in enumerate(tensors):
        names[name] = f"pytorch_model-{number:05}-of-{len(tensors):05}.bin"
        torch.save({name: tensors[name].clone()}, tmp_path / "pickle shards" / names[name])
    index = tmp_path / "pickle shards" / "pytorch_model.bin.index.json"
    index.write_text(json.dumps({"weight_map": names}))
    for folder in ("shards", "pickle", "pickle shards"):
        for name, parameter in load(tmp_path / folder).named_parameters():
            assert torch.equal(parameter, expected[name]), name


@pytest.mark.slow
def test_damaged_pickle_is_refused(tmp_path: Path) -> None:
    folder = save_transformers(transformers_model("Bert", "mlm"), tmp_path / "m")
    (folder / "model.safetensors").unlink()
    file = folder / "pytorch_model.bin"
    torch.save(transformers_model("Bert", "mlm").state_dict(), file)
    content = file.read_bytes()
    with zipfile.ZipFile(file) as archive, zipfile.ZipFile(folder / "new", "w", zipfile.ZIP_DEFLATED) as new:
        for name in archive.namelist():
            new.writestr(name, archive.read(name))
    (folder / "new").replace(file)
    with pytest.raises(InputError, match="compressed, as torch never writes it"):
        load(folder)
    directory = content.index(b"PK\x01\x02")
    for position in range(directory, len(content), 11):
        file.write_bytes(content[:position] + b"\xff" + content[position + 1 :])
        with suppress(InputError):
            load(folder)
    file.write_bytes(content[:directory] + b"??" + content[directory + 2 :])
    with pytest.raises(InputError, match=r"pytorch_model\.bin: damaged, or not a checkpoint"):
        load(folder)


def test_save_neither_overwrites_nor_leaves_partial_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Model(small_settings(ModelSettings()))
    save_folder(model, tmp_path / "m")
    with pytest.raises(InputError, match="exists already"):
        save_folder(model, tmp_path / "m")

    def fail_with_full_disk(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("albertine.interop.save_checkpoint.write_tensors", fail_with_full_disk)
    with pytest.raises(OSError, match="No space left"):
        save_folder(model, tmp_path / "n")
    assert [folder.name for folder in tmp_path.iterdir()] == ["m"]


def change_in_transformers(folder: Path, destination: Path, class_name: str, **changes: Any) -> Path:
    """Open a checkpoint in `transformers` with changes to its config, and save it to another folder."""
    model_class = getattr(transformers, class_name)
    model_class.from_pretrained(folder, **changes).save_pretrained(destination)
    return destination


def test_changes_by_transformers_override_saved_settings(tmp_path: Path) -> None:
    save_folder(Model(small_settings(ModelSettings(layers=4)), seed=1), tmp_path / "saved")
    shallow = load(
        change_in_transformers(
            tmp_path / "saved", tmp_path / "shallow", "AlbertForPreTraining", num_hidden_layers=2
        )
    )
    assert shallow.settings.layers == 2
    labeled = change_in_transformers(
        tmp_path / "saved", tmp_path / "labeled", "AlbertForSequenceClassification", num_labels=3
    )
    model = load(labeled)
    assert (model.head_settings.kind, model.head_settings.labels) == ("classify", 3)
    encoder_only = load(change_in_transformers(tmp_path / "saved", tmp_path / "encoder", "AlbertModel"))
    assert torch.equal(encoder_only.encoder.embedding.tokens.weight, model.encoder.embedding.tokens.weight)


def test_gamma_beta_names_and_extra_heads_load(tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = save_transformers(transformers_model("Bert", "pretrain"), tmp_path)
    tensors = load_file(folder / "model.safetensors")
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): tensor
        for name, tensor in tensors.items()
    }
    (folder / "model.safetensors").unlink()  # some versions of safetensors map the file into `tensors`
    save_file(renamed, folder / "model.safetensors")
    edit_config(architectures=["BertForMaskedLM"])(folder)
    model = load(folder)
    assert model.head_settings.kind == "mlm"
    assert torch.equal(model.encoder.embedding.norm.weight, tensors["bert.embeddings.LayerNorm.weight"])


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "module._orig_mod."])
def test_names_of_ddp_and_compile_load(prefix: str, tmp_path: Path) -> None:
    folder = save_transformers(transformers_model("Albert", "mlm"), tmp_path)
    expected = dict(load(folder).named_parameters())
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()  # some versions of safetensors map the file into `tensors`
    save_file({prefix + name: tensor for name, tensor in tensors.items()}, folder / "model.safetensors")
    for name, parameter in load(folder).named_parameters():
        assert torch.equal(parameter, expected[name]), name


def test_tied_copies_may_have_lower_precision(tmp_path: Path) -> None:
    folder = save_transformers(transformers_model("Albert", "mlm"), tmp_path)
    original = load(folder).encoder.embedding.tokens.weight
    copy = original.detach().half()
    edit_tensors(lambda t: t.update({"predictions.decoder.weight": copy}))(folder)
    assert torch.equal(load(folder).encoder.embedding.tokens.weight, original)
    edit_tensors(lambda t: t.update({"predictions.decoder.weight": copy + 1}))(folder)
    with pytest.raises(InputError, match=r"predictions\.decoder\.weight differs from"):
        load(folder)


def test_label_names_need_the_numbers_of_all_labels(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress.set_quiet(False)
    folder = save_transformers(transformers_model("Bert", "classify"), tmp_path)
    edit_config(id2label={"1": "a", "2": "b", "3": "c"})(folder)
    capsys.readouterr()
    assert load(folder).label_names == ()
    message = "config.json: id2label is ignored; expected a text for each label from 0 to 2"
    assert message in capsys.readouterr().err
    edit_config(id2label={"0": True, "1": False, "2": "c"})(folder)
    assert load(folder).label_names == ()
    assert message in capsys.readouterr().err
    edit_config(id2label={}, num_labels=3)(folder)
    assert load(folder).head_settings.labels == 3
    assert capsys.readouterr().err == ""


def test_numbers_as_label_names_are_texts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    progress.set_quiet(False)
    folder = save_transformers(transformers_model("Bert", "classify"), tmp_path)
    edit_config(id2label={"0": 10, "1": -1, "2": 7})(folder)
    capsys.readouterr()
    assert load(folder).label_names == ("10", "-1", "7")
    assert capsys.readouterr().err == ""


def test_unexpected_layers_are_refused_with_any_head(tmp_path: Path) -> None:
    folder = save_transformers(transformers_model("Bert", "pretrain"), tmp_path)
    edit_config(num_hidden_layers=2)(folder)
    for head in (None, "span"):
        with pytest.raises(InputError, match=r"unexpected tensor bert\.encoder\.layer\.2\."):
            load(folder, head=head)


def test_task_layers_are_not_reused_for_other_tasks(tmp_path: Path) -> None:
    classifier = save_transformers(transformers_model("Albert", "classify"), tmp_path / "classify")
    first, second = (load(classifier, head=HeadSettings(kind="token", labels=3), seed=n) for n in (8, 9))
    assert not torch.equal(parameter(first, "head.out.weight"), parameter(second, "head.out.weight"))
    assert load(classifier, head="classify").head_settings.labels == 2
    pretrained = save_transformers(transformers_model("Albert", "pretrain"), tmp_path / "pretrain")
    reused = parameter(load(pretrained, head="mlm"), "head.dense.weight")
    assert torch.equal(reused, parameter(load(pretrained), "head.masked.dense.weight"))


def parameter(model: Model, name: str) -> Tensor:
    return dict(model.named_parameters())[name]


def test_unsupported_problem_type_is_refused(tmp_path: Path) -> None:
    folder = save_transformers(transformers_model("Albert", "classify"), tmp_path)
    edit_config(problem_type="regression")(folder)
    with pytest.raises(InputError, match="problem_type regression with 3 labels is not supported"):
        load(folder)


def test_problem_type_is_written_and_checked_again(tmp_path: Path) -> None:
    hf_model = transformers_model("Albert", "classify", problem_type="single_label_classification")
    save_folder(load(save_transformers(hf_model, tmp_path / "hf")), tmp_path / "saved")
    reopened, _ = open_in_transformers(tmp_path / "saved", "AlbertForSequenceClassification")
    assert reopened.config.problem_type == "single_label_classification"
    # A changed problem type counts more than the head that was saved.
    edit_config(problem_type="multi_label_classification")(tmp_path / "saved")
    assert load(tmp_path / "saved").head_settings.kind == "multi-label"
    save_folder(load(tmp_path / "saved"), tmp_path / "multi-label")
    reopened, _ = open_in_transformers(tmp_path / "multi-label", "AlbertForSequenceClassification")
    assert reopened.config.problem_type == "multi_label_classification"
    assert load(tmp_path / "multi-label").head_settings.labels == 3


def test_next_sentence_prediction_loads_as_a_classifier(tmp_path: Path) -> None:
    pretrained = transformers_model("Bert", "pretrain")
    pretrained.save_pretrained(tmp_path / "pretrain")
    model_class: Any = transformers.BertForNextSentencePrediction
    hf_model = model_class.from_pretrained(tmp_path / "pretrain").eval()
    model = load(save_transformers(hf_model, tmp_path / "hf"))
    assert (model.head_settings.kind, model.head_settings.labels) == ("classify", 2)
    inputs = batch()
    with torch.no_grad():
        assert_close(model(strip_from_inputs(inputs)).logits, hf_model(**inputs).logits)
    save_folder(model, tmp_path / "saved")
    reopened, loading_info = open_in_transformers(tmp_path / "saved", "BertForSequenceClassification")
    assert loading_info == {"missing_keys": [], "unexpected_keys": [], "mismatched_keys": []}
    with torch.no_grad():
        assert_close(reopened.eval()(**inputs).logits, hf_model(**inputs).logits)
    continued = load(tmp_path / "hf", head="pretrain")
    assert torch.equal(parameter(continued, "head.pair.weight"), hf_model.cls.seq_relationship.weight)


def test_missing_answerable_layer_is_initialized_with_a_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    progress.set_quiet(False)
    save_folder(
        Model(small_settings(ModelSettings()), HeadSettings(kind="span", answerable=True)), tmp_path / "saved"
    )
    changed = change_in_transformers(tmp_path / "saved", tmp_path / "hf", "AlbertForQuestionAnswering")
    capsys.readouterr()
    load(changed)
    assert "head span is newly initialized (head.answerable)" in capsys.readouterr().err


def test_fine_tuned_model_without_its_answerable_layer_is_refused(tmp_path: Path) -> None:
    head = HeadSettings(kind="span", answerable=True)
    save_folder(Model(small_settings(ModelSettings()), head), tmp_path)
    (tmp_path / "task.json").write_text("{}")
    (tmp_path / "answerable.safetensors").unlink()
    with pytest.raises(InputError, match=r"answerable\.safetensors: missing; get the file again"):
        load(tmp_path)
    load(tmp_path, head="span")


@pytest.mark.parametrize(
    "content", ["[]", '{"weight_map": [1]}', '{"weight_map": {"a": 5}}', '{"weight_map": {"a": ".."}}']
)
def test_invalid_index_error_is_one_line(content: str, tmp_path: Path) -> None:
    folder = save_transformers(transformers_model("Albert", "mlm"), tmp_path)
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors.index.json").write_text(content)
    with pytest.raises(InputError, match=r"index of shards|not a JSON object|missing, but"):
        load(folder)


def test_loaded_model_is_in_evaluation_mode(tmp_path: Path) -> None:
    model = load(save_transformers(transformers_model("Bert", "classify", hidden_dropout_prob=0.3), tmp_path))
    strip = strip_from_inputs(batch())
    assert torch.equal(model(strip).logits, model(strip).logits)


@pytest.mark.parametrize(
    ("file", "message"),
    [("tokenizer.json", "a tokenizer; name a model"), ("manifest.json", "a corpus, on which")],
)
def test_another_folder_than_a_model_is_named(file: str, message: str, tmp_path: Path) -> None:
    (tmp_path / file).write_text("{}")
    with pytest.raises(InputError, match=message):
        load(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(b"")  # a model that has lost its config
    with pytest.raises(InputError, match=r"a checkpoint folder needs a config\.json"):
        load(tmp_path)


@pytest.mark.parametrize("graphs", [("model.onnx",), ("model.xml", "model.bin")])
def test_an_export_without_one_of_its_files_is_named(graphs: tuple[str, ...], tmp_path: Path) -> None:
    for name in (*graphs, "tokenizer.json"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(InputError, match=r"config\.json: missing in an export; copy it again, or export"):
        load(tmp_path)
    folder = save_transformers(transformers_model("Albert", "mlm"), tmp_path)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match=rf"export\.json: missing in an export with {graphs[0]}; copy"):
        load(folder)


@pytest.mark.parametrize(
    ("family", "key"), [("Albert", "classifier_dropout_prob"), ("Bert", "hidden_dropout_prob")]
)
def test_wrong_dropout_error_names_the_key(family: str, key: str, tmp_path: Path) -> None:
    folder = save_transformers(transformers_model(family, "classify"), tmp_path)
    edit_config(**{"classifier_dropout": None, key: 1.5})(folder)
    with pytest.raises(InputError, match=rf"config\.json: {key} = 1\.5: must be at most"):
        load(folder)

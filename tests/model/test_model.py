"""The model: parameter counts, seeds, depth, precision, and options that must not change a result."""

import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.model.model_fixtures import SMALL, STRIP, loss_and_gradients
from torch import Tensor

from albertine.errors import InputError
from albertine.interop.load import create
from albertine.model import model as model_module
from albertine.model.cost import activation_bytes
from albertine.model.encoder import ComputeOptions, Encoder
from albertine.model.layers import Attention, FeedForward
from albertine.model.model import Model, check_memory, make_head
from albertine.model.parameter_counts import count_parameters
from albertine.model.pretraining_heads import MaskedLMTargets, PretrainingTargets
from albertine.model.span_head import SpanTargets
from albertine.model.strip import Strip
from albertine.settings import MODEL_PRESETS, HeadSettings, ModelSettings


def settings_variants() -> list[ModelSettings]:
    sharing_variants = [
        replace(MODEL_PRESETS["albert-base"], share=share, groups=groups, embedding_size=size)
        for share in ("all", "attention", "ffn", "none")
        for groups in ((1,) if share == "none" else (1, 4))
        for size in (64, 128, 256, 768)
    ]
    return [
        *MODEL_PRESETS.values(),
        *sharing_variants,
        replace(SMALL, inner_groups=2),
        replace(SMALL, embedding_size=24, always_project=True),
    ]


def parameter_count(module: torch.nn.Module, name_part: str = "") -> int:
    return sum(parameter.numel() for name, parameter in module.named_parameters() if name_part in name)


@pytest.mark.parametrize("model_settings", settings_variants(), ids=str)
def test_parameter_counts_equal_tensor_sizes(model_settings: ModelSettings) -> None:
    with torch.device("meta"):
        encoder = Encoder(model_settings)
        head = make_head(model_settings, HeadSettings(), encoder.embedding.tokens)
    expected = count_parameters(model_settings)
    pooler_count = parameter_count(head, "pooler.")
    assert parameter_count(encoder) + pooler_count == expected.encoder
    assert parameter_count(head) - pooler_count == expected.pretraining_heads
    assert parameter_count(encoder, "norm.") == expected.layer_norms


def test_encoder_weights_depend_on_seed_not_head() -> None:
    weights, with_other_head, with_other_seed = (
        dict(model.encoder.named_parameters())
        for model in (
            Model(SMALL, seed=1),
            Model(SMALL, HeadSettings(kind="span"), seed=1),
            Model(SMALL, seed=2),
        )
    )
    for name, parameter in weights.items():
        assert torch.equal(parameter, with_other_head[name])
        if parameter.dim() > 1:
            assert not torch.equal(parameter, with_other_seed[name])


@pytest.mark.parametrize(
    "options",
    [
        ComputeOptions(),
        ComputeOptions(kernels=False),
        ComputeOptions(recompute=True),
        ComputeOptions(dtype=torch.bfloat16),
    ],
    ids=["fp32", "plain", "recomputed", "bf16"],
)
@pytest.mark.parametrize("depth", [1, 3])
def test_last_layer_at_some_tokens_has_the_values_of_all_tokens(options: ComputeOptions, depth: int) -> None:
    """The strip is not sorted by length, and an index may occur twice."""
    encoder = Model(SMALL, seed=3).encoder
    encoder.compute_options = options
    indices = torch.tensor([6, 0, 11, 3, 3, 12])
    everywhere = encoder(STRIP, depth=depth).index_select(0, indices)
    chosen = encoder(STRIP, indices, depth=depth)
    weight = torch.randn(chosen.shape, generator=torch.Generator().manual_seed(0))
    parameters = list(encoder.parameters())
    expected, gradients = (
        torch.autograd.grad((hidden * weight).sum(), parameters) for hidden in (everywhere, chosen)
    )
    tolerance = 0.02 if options.dtype == torch.bfloat16 else 1e-5
    for actual, value in zip((chosen, *gradients), (everywhere, *expected), strict=True):
        assert (actual - value).norm() <= tolerance * value.norm()


def test_no_token_may_be_chosen() -> None:
    assert Model(SMALL).encoder(STRIP, torch.tensor([], dtype=torch.long)).shape == (0, SMALL.hidden_size)


def test_initial_weights_are_fixed_values() -> None:
    weights = Model(SMALL, seed=7).encoder.embedding.tokens.weight.detach()
    first_values = [round(float(weight), 7) for weight in weights.flatten()[:4]]
    assert first_values == [-0.0097343, 0.0152202, 0.0128267, -0.0179519]


def test_initial_weight_distribution() -> None:
    model = Model(replace(SMALL, vocab_size=20_000), seed=0)
    table = model.encoder.embedding.tokens.weight.detach()
    assert table.abs().max() <= 0.04
    # Truncation at two standard deviations reduces the standard deviation to 0.8796 of it. The bounds
    # are five standard errors.
    assert abs(float(table.mean())) < 5 * 0.0176 / table.numel() ** 0.5
    assert float(table.std()) == pytest.approx(0.02 * 0.8796, rel=5 / (2 * table.numel()) ** 0.5)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            assert (parameter == (1.0 if name.endswith("norm.weight") else 0.0)).all(), name


@settings(max_examples=25)
@given(st.lists(st.integers(1, 16), min_size=1, max_size=8))
def test_sequences_do_not_attend_to_each_other(lengths: list[int]) -> None:
    generator = torch.Generator().manual_seed(sum(lengths))
    sequences = [torch.randint(0, 61, (length,), generator=generator).tolist() for length in lengths]
    encoder = Model(SMALL, seed=1).encoder.eval()
    with torch.no_grad():
        in_one_strip = encoder(Strip.from_sequences(sequences))
        separate = torch.cat([encoder(Strip.from_sequences([tokens])) for tokens in sequences])
    assert (in_one_strip - separate).abs().max() < 1e-5


def test_empty_sequences_have_no_hidden_states() -> None:
    assert Model(SMALL).encoder(Strip.from_sequences([])).shape == (0, 24)
    assert Model(SMALL).encoder(Strip.from_sequences([[], [1, 2], []])).shape == (2, 24)


def test_depth_argument_equals_model_of_that_depth() -> None:
    shallow, deep = (
        Model(replace(SMALL, layers=2), seed=1).eval(),
        Model(replace(SMALL, layers=5), seed=1).eval(),
    )
    assert torch.equal(deep.encoder(STRIP, depth=2), shallow.encoder(STRIP))
    assert torch.equal(shallow.encoder(STRIP, depth=5), deep.encoder(STRIP))


def test_hidden_states_equal_outputs_at_each_depth() -> None:
    encoder = Model(SMALL, seed=1).eval().encoder
    _, *layer_outputs = encoder.hidden_states(STRIP)
    assert len(layer_outputs) == SMALL.applied_layers
    for depth, hidden in enumerate(layer_outputs, start=1):
        assert torch.equal(hidden, encoder(STRIP, depth=depth))


@pytest.mark.parametrize("kernels", [True, False])
def test_recomputation_does_not_change_results(kernels: bool) -> None:
    model = Model(SMALL, seed=1)
    model.configure(ComputeOptions(kernels=kernels))
    loss, gradients = loss_and_gradients(model)
    model.configure(ComputeOptions(recompute=True, kernels=kernels))
    recomputed_loss, recomputed_gradients = loss_and_gradients(model)
    assert float(recomputed_loss) == pytest.approx(float(loss), rel=1e-6)
    for name, gradient in gradients.items():
        assert torch.allclose(recomputed_gradients[name], gradient, rtol=1e-4, atol=1e-7), name


def test_recomputation_repeats_dropout() -> None:
    model = Model(replace(SMALL, dropout=0.3, attention_dropout=0.3), seed=1).train()
    torch.manual_seed(0)
    loss, gradients = loss_and_gradients(model)
    model.configure(ComputeOptions(recompute=True))
    torch.manual_seed(0)
    recomputed_loss, recomputed_gradients = loss_and_gradients(model)
    assert torch.equal(loss, recomputed_loss)
    for name, gradient in gradients.items():
        assert torch.allclose(recomputed_gradients[name], gradient, atol=1e-7), name


def test_dropout_only_in_training() -> None:
    model = Model(replace(SMALL, dropout=0.3, attention_dropout=0.3), seed=1)
    assert not torch.equal(model.train().encoder(STRIP), model.encoder(STRIP))
    assert torch.equal(model.eval().encoder(STRIP), model.encoder(STRIP))


@pytest.mark.parametrize(
    ("values", "attention_casts", "ffn_casts"),
    [({}, 1, 1), ({"share": "ffn"}, SMALL.layers, 1), ({"share": "none"}, SMALL.layers, SMALL.layers)],
)
def test_each_block_is_cast_once_per_pass(
    values: dict[str, Any], attention_casts: int, ffn_casts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    casts = []

    def counted(block: Any, dtype: torch.dtype) -> Any:
        casts.append(type(block))
        return original[type(block)](block, dtype)

    original = {block: block.cast_weights for block in (Attention, FeedForward)}
    for block in original:
        monkeypatch.setattr(block, "cast_weights", counted)
    model = Model(replace(SMALL, **values), HeadSettings())
    model.configure(ComputeOptions(torch.bfloat16))
    model.encoder(STRIP)
    assert (casts.count(Attention), casts.count(FeedForward)) == (attention_casts, ffn_casts)


def test_bf16_is_close_and_weights_stay_fp32() -> None:
    model = Model(SMALL, seed=1)
    loss, gradients = loss_and_gradients(model)
    model.configure(ComputeOptions(dtype=torch.bfloat16))
    bf16_loss, bf16_gradients = loss_and_gradients(model)
    assert bf16_loss.dtype == torch.float32
    assert float(bf16_loss) == pytest.approx(float(loss), rel=0.01)
    for name, gradient in gradients.items():
        assert bf16_gradients[name].dtype == torch.float32
        assert (bf16_gradients[name] - gradient).norm() <= 0.05 * gradient.norm() + 1e-3, name
    assert model.encoder(STRIP).dtype == torch.bfloat16


@torch.no_grad()
def test_bf16_does_not_round_predicted_numbers() -> None:
    """In bf16, the numbers next to 1923 are 1920 and 1928."""
    model = Model(SMALL, HeadSettings("regress", labels=1)).eval()
    model.configure(ComputeOptions(dtype=torch.bfloat16))
    dict(model.named_parameters())["head.out.bias"].fill_(1923.0)
    predicted = model(STRIP).logits
    assert predicted.dtype == torch.float32
    assert (predicted - 1923).abs().max() < 1


@pytest.mark.parametrize(
    "trained_names", ["up.bias", "up.weight", "down.", "ffn.0.", "norm.bias", "attention.0.qkv"]
)
def test_gradients_do_not_depend_on_frozen_weights(trained_names: str) -> None:
    model = Model(SMALL, seed=1)
    model.configure(ComputeOptions(dtype=torch.bfloat16))
    _, expected = loss_and_gradients(model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(trained_names in name)
        parameter.grad = None
    _, actual = loss_and_gradients(model)
    assert actual
    for name, gradient in actual.items():
        assert (gradient - expected[name]).norm() <= 0.03 * expected[name].norm() + 1e-6, name


def test_autocast_of_an_fp32_model() -> None:
    model = Model(SMALL, seed=1).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        actual = model.encoder(STRIP)
    assert torch.allclose(actual.float(), model.encoder(STRIP), atol=0.1)


@pytest.mark.parametrize(
    ("sequences", "message"),
    [
        ([[1], [1] * 17], "sequence 1 has 17 tokens, more than the model's 16"),
        ([[61]], "token id 61 is outside the table of 61 rows"),
        ([[-1, 3]], "token id -1 is outside the table of 61 rows"),
    ],
)
def test_ids_outside_the_tables_are_refused(sequences: list[list[int]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Model(SMALL).encoder(Strip.from_sequences(sequences))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize(("recompute", "masked"), [(False, 0.15), (True, 0.15), (False, 0.3)])
def test_activation_bytes_match_saved_tensors(dtype: torch.dtype, recompute: bool, masked: float) -> None:
    demo = replace(MODEL_PRESETS["demo"], layers=8)
    model = Model(demo)
    model.configure(ComputeOptions(dtype=dtype, recompute=recompute))
    tokens, length = 480, 60
    strip = Strip.from_sequences([[1] * length] * (tokens // length))
    masked_indices = torch.arange(0, tokens, round(1 / masked))[: round(masked * tokens)]
    masked_targets = MaskedLMTargets(masked_indices, torch.ones_like(masked_indices))
    targets = PretrainingTargets(masked_targets, torch.zeros(len(strip), dtype=torch.long))
    weight_addresses = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    weight_shapes = {shape for weight in model.parameters() for shape in (weight.shape, weight.shape[::-1])}
    saved_bytes: dict[int, int] = {}
    saved_tensors: list[Tensor] = []  # kept alive, so that no address is used twice

    def record(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        is_weight = (
            storage.data_ptr() in weight_addresses or tensor.shape in weight_shapes
        )  # or its bf16 copy
        if not is_weight and tensor.shape[:1] != (demo.vocab_size,):
            saved_bytes[storage.data_ptr()] = storage.nbytes()
        saved_tensors.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(record, lambda tensor: tensor):
        model(strip, targets)
    precision: Any = "fp32" if dtype == torch.float32 else "bf16"
    expected = activation_bytes(
        demo, tokens, precision, recompute=recompute, masked_fraction=len(masked_indices) / tokens
    )
    if recompute:
        # The estimate holds one layer in full, which exists only later, in the backward pass. After the
        # forward pass only its input is kept.
        all_layers, without_last = (
            activation_bytes(replace(demo, layers=layers), tokens, precision, recompute=False)
            for layers in (demo.layers, demo.layers - 1)
        )
        expected -= all_layers - without_last - tokens * demo.hidden_size * dtype.itemsize
    else:
        # On a CPU the probabilities of short sequences are kept; the estimate is for flash attention,
        # which keeps one fp32 number per token and head.
        expected += demo.layers * tokens * demo.heads * (dtype.itemsize * length - 4)
    # On a CPU neither the probabilities of the vocabulary nor, in bf16, the logits are kept.
    logit_bytes = 4 if dtype == torch.float32 else 4 + 2
    expected -= logit_bytes * demo.vocab_size * len(masked_indices)
    assert sum(saved_bytes.values()) == pytest.approx(expected, rel=0.05)


def test_strip_used_in_inference_mode_can_be_used_in_training() -> None:
    strip = Strip.from_sequences([[5, 6], [1, 2, 3, 4]])
    model = Model(SMALL, seed=1)
    with torch.inference_mode():
        model(strip)
    targets = PretrainingTargets(MaskedLMTargets(torch.tensor([1]), torch.tensor([5])), torch.tensor([0, 1]))
    model(strip, targets).loss.backward()


def test_no_masked_tokens_gives_zero_loss() -> None:
    empty = torch.tensor([], dtype=torch.long)
    targets = PretrainingTargets(MaskedLMTargets(empty, empty), torch.tensor([0, 1, 1, 0]))
    output = Model(SMALL, seed=1)(STRIP, targets)
    assert output.masked.loss == 0
    assert torch.isfinite(output.loss)
    tagging_output = Model(SMALL, HeadSettings(kind="token"))(STRIP, torch.full((len(STRIP.tokens),), -100))
    assert tagging_output.loss == 0


def test_answer_outside_its_sequence_is_refused() -> None:
    targets = SpanTargets(torch.tensor([0, 3, 0, 0]), torch.tensor([0, 1, 0, 0]))
    message = "the answer of sequence 1 is at token 3, but the sequence has 2 tokens"
    with pytest.raises(InputError, match=message):
        Model(SMALL, HeadSettings(kind="span"))(STRIP, targets)


def test_recomputation_survives_eval_before_backward() -> None:
    model = Model(replace(SMALL, dropout=0.3), seed=1).train()
    model.configure(ComputeOptions(recompute=True))
    hidden = model.encoder(STRIP)
    model.eval()
    hidden.sum().backward()


def test_importing_the_package_has_no_side_effects() -> None:
    script = """
import importlib, os, pkgutil, torch

def state():
    return dict(os.environ), torch.get_num_threads(), torch.get_default_dtype(), torch.get_rng_state().sum()

before = state()
import albertine.model
for module in pkgutil.walk_packages(albertine.model.__path__, "albertine.model."):
    importlib.import_module(module.name)
assert state() == before
assert "torch._dynamo" not in __import__("sys").modules
"""
    names = ("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "LRU_CACHE_CAPACITY")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    process = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    "model",
    [
        ModelSettings(vocab_size=100_000_000, embedding_size=10_000),
        ModelSettings(hidden_size=1_000_000, heads=1),
        ModelSettings(ffn_size=10_000_000, hidden_size=100_000, heads=1),
        ModelSettings(layers=1000, share="none", hidden_size=8192, heads=1),
        ModelSettings(max_length=1_000_000, embedding_size=1_000_000),
    ],
)
def test_model_that_cannot_fit_is_refused_before_it_is_made(model: ModelSettings) -> None:
    with pytest.raises(InputError, match=r"parameters, which take .* GB here; this machine has"):
        create(model)


def test_memory_check_counts_labels_and_optimizer_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_module, "total_memory", lambda: 200_000_000)
    base = MODEL_PRESETS["albert-base"]  # 12 million parameters
    check_memory(base)
    with pytest.raises(InputError):
        check_memory(base, bytes_per_parameter=16)
    with pytest.raises(InputError):
        check_memory(base, HeadSettings("classify", labels=100_000_000))

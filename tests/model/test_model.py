"""The network: parameter counts, seeds, depth, precision, and what must not change a result."""

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
from albertine.model.cost import activation_bytes
from albertine.model.encoder import ComputeOptions, Encoder
from albertine.model.heads import MaskedLMTargets, PretrainingTargets
from albertine.model.model import Model, make_head
from albertine.model.parameter_counts import count_parameters
from albertine.model.span_head import SpanTargets
from albertine.model.strip import Strip
from albertine.settings import MODEL_PRESETS, HeadSettings, ModelSettings


def model_variants() -> list[Any]:
    plans = [
        replace(MODEL_PRESETS["albert-base"], share=share, groups=groups, embedding_size=size)
        for share in ("all", "attention", "ffn", "none")
        for groups in ((1,) if share == "none" else (1, 4))
        for size in (64, 128, 256, 768)
    ]
    return [
        *MODEL_PRESETS.values(),
        *plans,
        replace(SMALL, inner_groups=2),
        replace(SMALL, embedding_size=24, always_project=True),
    ]


@pytest.mark.parametrize("model", model_variants(), ids=str)
def test_parameter_counts_equal_tensor_sizes(model: ModelSettings) -> None:
    with torch.device("meta"):
        encoder = Encoder(model)
        head = make_head(model, HeadSettings(), encoder.embedding.tokens)
    parts = count_parameters(model)
    pooler = sum(one.numel() for name, one in head.named_parameters() if name.startswith("pooler."))
    norms = sum(one.numel() for name, one in encoder.named_parameters() if "norm." in name)
    assert sum(one.numel() for one in encoder.parameters()) + pooler == parts.encoder
    assert sum(one.numel() for one in head.parameters()) - pooler == parts.pretraining_heads
    assert norms == parts.layer_norms


def test_encoder_weights_depend_on_seed_not_head() -> None:
    one, same, other = (
        Model(SMALL, seed=1),
        Model(SMALL, HeadSettings(kind="span"), seed=1),
        Model(SMALL, seed=2),
    )
    for name, parameter in one.encoder.named_parameters():
        assert torch.equal(parameter, dict(same.encoder.named_parameters())[name])
        if parameter.dim() > 1:
            assert not torch.equal(parameter, dict(other.encoder.named_parameters())[name])


def test_initial_weights_are_fixed_values() -> None:
    weights = Model(SMALL, seed=7).encoder.embedding.tokens.weight.detach()
    drawn = [round(float(one), 7) for one in weights.flatten()[:4]]
    assert drawn == [-0.0097343, 0.0152202, 0.0128267, -0.0179519]


def test_initial_weight_distribution() -> None:
    model = Model(replace(SMALL, vocab_size=20_000), seed=0)
    table = model.encoder.embedding.tokens.weight.detach()
    assert table.abs().max() <= 0.04
    # Truncation at two deviations leaves 0.8796 of the deviation; the bounds are five standard errors.
    assert abs(float(table.mean())) < 5 * 0.0176 / len(table.flatten()) ** 0.5
    assert float(table.std()) == pytest.approx(0.02 * 0.8796, rel=5 / (2 * len(table.flatten())) ** 0.5)
    for name, parameter in model.named_parameters():
        if parameter.dim() == 1:
            assert (parameter == (1.0 if name.endswith("norm.weight") else 0.0)).all(), name


@settings(max_examples=25)
@given(st.lists(st.integers(1, 16), min_size=1, max_size=8))
def test_sequences_do_not_attend_to_each_other(lengths: list[int]) -> None:
    generator = torch.Generator().manual_seed(sum(lengths))
    rows = [torch.randint(0, 61, (length,), generator=generator).tolist() for length in lengths]
    encoder = Model(SMALL, seed=1).encoder.eval()
    with torch.no_grad():
        together = encoder(Strip.from_sequences(rows))
        alone = torch.cat([encoder(Strip.from_sequences([row])) for row in rows])
    assert (together - alone).abs().max() < 1e-5


def test_an_empty_strip_has_no_hidden_states() -> None:
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
    states = list(encoder.hidden_states(STRIP))
    assert len(states) == SMALL.applied_layers + 1
    for depth, state in enumerate(states):
        if depth:
            assert torch.equal(state, encoder(STRIP, depth=depth))


@pytest.mark.parametrize("kernels", [True, False])
def test_recomputation_does_not_change_results(kernels: bool) -> None:
    model = Model(SMALL, seed=1)
    model.configure(ComputeOptions(kernels=kernels))
    loss, gradients = loss_and_gradients(model)
    model.configure(ComputeOptions(recompute=True, kernels=kernels))
    other_loss, other_gradients = loss_and_gradients(model)
    assert float(other_loss) == pytest.approx(float(loss), rel=1e-6)
    for name, gradient in gradients.items():
        assert torch.allclose(other_gradients[name], gradient, rtol=1e-4, atol=1e-7), name


def test_recomputation_repeats_dropout() -> None:
    model = Model(replace(SMALL, dropout=0.3, attention_dropout=0.3), seed=1).train()
    torch.manual_seed(0)
    loss, gradients = loss_and_gradients(model)
    model.configure(ComputeOptions(recompute=True))
    torch.manual_seed(0)
    other_loss, other_gradients = loss_and_gradients(model)
    assert torch.equal(loss, other_loss)
    for name, gradient in gradients.items():
        assert torch.allclose(other_gradients[name], gradient, atol=1e-7), name


def test_dropout_only_in_training() -> None:
    model = Model(replace(SMALL, dropout=0.3, attention_dropout=0.3), seed=1)
    assert not torch.equal(model.train().encoder(STRIP), model.encoder(STRIP))
    assert torch.equal(model.eval().encoder(STRIP), model.encoder(STRIP))


def test_bf16_is_close_and_weights_stay_fp32() -> None:
    model = Model(SMALL, seed=1)
    loss, gradients = loss_and_gradients(model)
    model.configure(ComputeOptions(dtype=torch.bfloat16))
    other_loss, other_gradients = loss_and_gradients(model)
    assert other_loss.dtype == torch.float32
    assert float(other_loss) == pytest.approx(float(loss), rel=0.01)
    for name, gradient in gradients.items():
        assert other_gradients[name].dtype == torch.float32
        assert (other_gradients[name] - gradient).norm() <= 0.05 * gradient.norm() + 1e-3, name
    assert model.encoder(STRIP).dtype == torch.bfloat16


@pytest.mark.parametrize(
    "trained", ["up.bias", "up.weight", "down.", "ffn.0.", "norm.bias", "attention.0.qkv"]
)
def test_gradients_do_not_depend_on_what_is_frozen(trained: str) -> None:
    model = Model(SMALL, seed=1)
    model.configure(ComputeOptions(dtype=torch.bfloat16))
    _, expected = loss_and_gradients(model)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(trained in name)
        parameter.grad = None
    _, found = loss_and_gradients(model)
    assert found
    for name, gradient in found.items():
        assert (gradient - expected[name]).norm() <= 0.03 * expected[name].norm() + 1e-6, name


def test_autocast_of_an_fp32_model() -> None:
    model = Model(SMALL, seed=1).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        found = model.encoder(STRIP)
    assert torch.allclose(found.float(), model.encoder(STRIP), atol=0.1)


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([[1], [1] * 17], "sequence 1 has 17 tokens, the position table holds 16"),
        ([[61]], "token id 61 is outside the table of 61 rows"),
        ([[-1, 3]], "token id -1 is outside the table of 61 rows"),
    ],
)
def test_ids_outside_the_tables_are_refused(rows: list[list[int]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Model(SMALL).encoder(Strip.from_sequences(rows))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("recompute", [False, True])
def test_activation_bytes_match_saved_tensors(dtype: torch.dtype, recompute: bool) -> None:
    model = replace(MODEL_PRESETS["demo"], layers=8)
    network = Model(model)
    network.configure(ComputeOptions(dtype=dtype, recompute=recompute))
    tokens, length = 512, 64
    strip = Strip.from_sequences([[1] * length] * (tokens // length))
    masked = torch.arange(0, tokens, 7)[: round(0.15 * tokens)]
    targets = PretrainingTargets(
        MaskedLMTargets(masked, torch.ones_like(masked)), torch.zeros(len(strip), dtype=torch.long)
    )
    weights = {one.untyped_storage().data_ptr() for one in network.parameters()}
    kept: dict[int, int] = {}

    def note(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights and tensor.shape[:1] != (model.vocab_size,):
            kept[storage.data_ptr()] = storage.nbytes()
        alive.append(tensor)
        return tensor

    alive: list[Tensor] = []
    with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
        network(strip, targets)
    precision: Any = "fp32" if dtype == torch.float32 else "bf16"
    estimate = activation_bytes(model, tokens, precision, recompute=recompute)
    if not recompute:
        # A CPU keeps the probabilities of short sequences, flash attention one number per row and head.
        estimate += model.layers * tokens * model.heads * (dtype.itemsize * length - 4)
    if recompute:
        # Only the input of the last layer is kept; the rest of it exists during the backward pass.
        deep, shallower = (
            activation_bytes(replace(model, layers=layers), tokens, precision, recompute=False)
            for layers in (model.layers, model.layers - 1)
        )
        estimate -= deep - shallower - tokens * model.hidden_size * dtype.itemsize
    assert sum(kept.values()) == pytest.approx(estimate, rel=0.05)


def test_a_strip_used_in_inference_mode_can_be_trained_on() -> None:
    strip = Strip.from_sequences([[5, 6], [1, 2, 3, 4]])
    model = Model(SMALL, seed=1)
    with torch.inference_mode():
        model(strip)
    targets = PretrainingTargets(MaskedLMTargets(torch.tensor([1]), torch.tensor([5])), torch.tensor([0, 1]))
    model(strip, targets).loss.backward()


def test_no_masked_tokens_gives_zero_loss() -> None:
    none = torch.tensor([], dtype=torch.long)
    targets = PretrainingTargets(MaskedLMTargets(none, none), torch.tensor([0, 1, 1, 0]))
    output = Model(SMALL, seed=1)(STRIP, targets)
    assert output.masked.loss == 0
    assert torch.isfinite(output.loss)
    tokens = Model(SMALL, HeadSettings(kind="token"))(STRIP, torch.full((len(STRIP.tokens),), -100))
    assert tokens.loss == 0


def test_an_answer_outside_its_own_sequence_is_refused() -> None:
    targets = SpanTargets(torch.tensor([0, 3, 0, 0]), torch.tensor([0, 1, 0, 0]))
    with pytest.raises(InputError, match="the answer of sequence 1 is at token 3, it has 2"):
        Model(SMALL, HeadSettings(kind="span"))(STRIP, targets)


def test_recomputation_survives_eval_before_backward() -> None:
    model = Model(replace(SMALL, dropout=0.3), seed=1).train()
    model.configure(ComputeOptions(recompute=True))
    hidden = model.encoder(STRIP)
    model.eval()
    hidden.sum().backward()


def test_importing_the_package_changes_nothing() -> None:
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
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

"""What layers have of their own beside shared weights: low-rank differences, biases and norms."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.model.model_fixtures import SMALL, STRIP, loss_and_gradients, random_strip
from torch import Tensor

from albertine.errors import InputError
from albertine.model.depth_plan import depth_plan
from albertine.model.encoder import ComputeOptions
from albertine.model.layers import Attention, FeedForward
from albertine.model.model import Model
from albertine.model.padded import PaddedModel
from albertine.model.parameter_counts import count_parameters
from albertine.settings import HeadSettings, ModelSettings, SettingError
from albertine.train.optimizers import parameter_groups

MLM = HeadSettings(kind="mlm")
BOTH = replace(SMALL, step_rank=2, step_vectors=True, layers=3)
KINDS = {"rank": replace(BOTH, step_vectors=False), "vectors": replace(BOTH, step_rank=0), "both": BOTH}


def random_model(settings: ModelSettings, head: HeadSettings = MLM) -> Model:
    """Return a model in evaluation mode with random values in all parameters."""
    model, generator = Model(settings, head, seed=1).eval(), torch.Generator().manual_seed(2)
    for parameter in model.parameters():
        parameter.data.add_(torch.randn(parameter.shape, generator=generator), alpha=0.2)
    return model


def separate_model(model: Model) -> Model:
    """Return a model without sharing whose layers have the weights of the steps."""
    shared, differences = model.encoder, model.encoder.step_differences
    attention, ffn = shared.attention[0], shared.ffn[0]
    assert differences is not None
    assert isinstance(attention, Attention)
    assert isinstance(ffn, FeedForward)
    settings = replace(model.settings, share="none", step_rank=0, step_vectors=False)
    values = {name: tensor for name, tensor in model.state_dict().items() if "step_differences" not in name}
    for number in range(settings.layers):
        weights = differences.applied(
            number, attention.cast_weights(torch.float32), ffn.cast_weights(torch.float32)
        )
        fields = {"attention": weights[0]._asdict(), "ffn": weights[1]._asdict()}
        for component, tensors in fields.items():
            for field, tensor in tensors.items():
                if field.endswith("_difference"):
                    assert tensor is None
                    continue
                part = "bias" if field.endswith("_bias") else "weight"
                module = field.removesuffix("_bias")
                values[f"encoder.{component}.{number}.{module}.{part}"] = tensor.detach()
    separate = Model(settings, MLM, seed=1).eval()
    separate.load_state_dict(values)
    return separate


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS.keys())
def test_outputs_are_those_of_separate_layers(settings: ModelSettings) -> None:
    model = random_model(settings)
    separate, indices = separate_model(model), torch.tensor([2, 6, 7, 12])
    with torch.no_grad():
        assert torch.equal(model.encoder(STRIP), separate.encoder(STRIP))
        assert torch.equal(model.encoder(STRIP, depth=2), separate.encoder(STRIP, depth=2))
        assert torch.equal(
            model.encoder.hidden_at(STRIP, indices), separate.encoder.hidden_at(STRIP, indices)
        )
        states, others = (list(net.encoder.hidden_states(STRIP)) for net in (model, separate))
        assert all(torch.equal(a, b) for a, b in zip(states, others, strict=True))
        ids, mask, segments = STRIP.to_padded()
        # An export multiplies by the factors; the separate layers have sums rounded to fp32.
        for net in (model, separate):
            net.double().configure(ComputeOptions(torch.float64))
        padded, expected = (PaddedModel(net)(ids, mask, segments) for net in (model, separate))
        torch.testing.assert_close(padded["mlm_logits"], expected["mlm_logits"], rtol=1e-6, atol=1e-6)


def test_factored_differences_change_no_output() -> None:
    model, indices = random_model(BOTH), torch.tensor([2, 6, 7, 12])
    with torch.no_grad():
        expected = (model.encoder(STRIP), model.encoder.hidden_at(STRIP, indices))
        model.configure(ComputeOptions(factored_differences=True))
        torch.testing.assert_close(model.encoder(STRIP), expected[0], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(model.encoder.hidden_at(STRIP, indices), expected[1], rtol=1e-4, atol=1e-5)


def test_factored_differences_leave_the_shared_matrices_as_they_are() -> None:
    model = random_model(BOTH)
    attention, ffn = model.encoder.attention[0], model.encoder.ffn[0]
    assert isinstance(attention, Attention)
    assert isinstance(ffn, FeedForward)
    assert model.encoder.step_differences is not None
    shared = (attention.cast_weights(torch.float32), ffn.cast_weights(torch.float32))
    for number in range(model.settings.layers):
        own = model.encoder.step_differences.applied(number, *shared, factored=True)
        assert own[0].qkv is shared[0].qkv
        assert own[0].out is shared[0].out
        assert own[1].up is shared[1].up
        assert own[1].down is shared[1].down
        assert None not in (*own[0], *own[1])


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS.keys())
def test_a_new_model_computes_what_one_without_differences_does(settings: ModelSettings) -> None:
    model, plain = Model(settings, MLM).eval(), Model(replace(SMALL, layers=3), MLM).eval()
    with torch.no_grad():
        assert torch.equal(model.encoder(STRIP), plain.encoder(STRIP))


def test_recomputation_has_the_same_gradients() -> None:
    model, strip = random_model(BOTH, HeadSettings()), random_strip([5, 9, 3])
    _, expected = loss_and_gradients(model, strip)
    assert all(gradient.abs().sum() > 0 for name, gradient in expected.items() if "step_diff" in name)
    model.configure(ComputeOptions(recompute=True))
    _, actual = loss_and_gradients(model, strip)
    for name, gradient in expected.items():
        torch.testing.assert_close(actual[name], gradient, msg=name)


@pytest.mark.parametrize("settings", KINDS.values(), ids=KINDS.keys())
def test_parameters_are_counted(settings: ModelSettings) -> None:
    model = Model(settings)
    assert sum(parameter.numel() for parameter in model.parameters()) == count_parameters(settings).total
    differences = model.encoder.step_differences
    assert differences is not None
    expected = sum(parameter.numel() for parameter in differences.parameters())
    assert count_parameters(settings).step_differences == expected


def test_biases_and_norms_have_no_weight_decay() -> None:
    model = Model(BOTH)
    names: dict[Tensor, str] = {parameter: name for name, parameter in model.named_parameters()}
    groups = parameter_groups(model)
    vectors = {names[parameter] for parameter in groups.vectors}
    others = {names[parameter] for parameter in groups.other_matrices}
    assert "encoder.step_differences.ffn_vectors.norm" in vectors
    assert {name for name in names.values() if ".step_differences.matrices." in name} <= others


def test_only_models_that_share_all_layers_have_differences() -> None:
    change: Any
    own: Any
    for change in ({"share": "none"}, {"groups": 3}, {"inner_groups": 2}, {"depth_rule": "equilibrium"}):
        for own in ({"step_rank": 1}, {"step_vectors": True}):
            with pytest.raises(SettingError, match="step_"):
                replace(SMALL, layers=3, **change, **own)
    with pytest.raises(SettingError, match="at most the width"):
        replace(SMALL, step_rank=SMALL.hidden_size + 1)
    with pytest.raises(InputError, match="weights of their own"):
        depth_plan(BOTH, 4)

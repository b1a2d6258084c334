"""The depth rules: a signal of the step, halting, and a fixed point."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from tests.model.model_fixtures import SMALL, STRIP, loss_and_gradients, random_strip
from torch import Tensor

from albertine.model import encoder
from albertine.model.cost import count_flops
from albertine.model.depth_rules import LayerFunction
from albertine.model.model import Model
from albertine.model.padded import PaddedModel
from albertine.model.parameter_counts import count_parameters
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings, SettingError
from albertine.settings.model import DepthRule

ENCODER_ONLY = HeadSettings(kind="mlm")
SIGNAL = replace(SMALL, step_signal=True)
RULES = {
    "signal": SIGNAL,
    "halting": replace(SMALL, depth_rule="halting", layers=5),
    "halting with signal": replace(SIGNAL, depth_rule="halting", layers=5),
    "equilibrium": replace(SMALL, depth_rule="equilibrium", layers=5),
    "norm first": replace(SMALL, norm_first=True),
    "rotary": replace(SMALL, rotary=True),
    "halting, rotary": replace(SMALL, depth_rule="halting", rotary=True, norm_first=True, layers=4),
    "halting, norm first": replace(SMALL, depth_rule="halting", norm_first=True, layers=5),
}


def make_model(settings: ModelSettings, scale: float = 0.2, seed: int = 2) -> Model:
    """Return a model in evaluation mode with weights so large that every step affects the output."""
    model = Model(settings, ENCODER_ONLY, seed=1).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not name.endswith("norm.weight"):
                parameter.add_(torch.randn(parameter.shape, generator=generator), alpha=scale)
    return model


def like_with_other_rule(model: Model, rule: DepthRule) -> Model:
    """Return a model with the same weights and another depth rule."""
    other = Model(replace(model.settings, depth_rule=rule), ENCODER_ONLY, seed=1).eval()
    other.load_state_dict(model.state_dict(), strict=False)
    return other


@pytest.mark.parametrize("settings", RULES.values(), ids=RULES.keys())
def test_output_does_not_depend_on_the_batch(settings: ModelSettings) -> None:
    model = make_model(settings)
    with torch.no_grad():
        together = model.encoder(STRIP)
        alone = torch.cat([model.encoder(STRIP.slice(index, index + 1)) for index in range(len(STRIP))])
    assert torch.allclose(together, alone, atol=1e-5)


@pytest.mark.parametrize("settings", RULES.values(), ids=RULES.keys())
def test_the_output_of_a_step_is_that_of_a_model_with_so_many_steps(settings: ModelSettings) -> None:
    model = make_model(settings)
    with torch.no_grad():
        states = list(model.encoder.hidden_states(STRIP))
        assert len(states) == settings.layers + 1
        for depth in range(1, settings.layers + 1):
            assert torch.allclose(states[depth], model.encoder(STRIP, depth=depth), atol=1e-5), depth
        assert torch.isfinite(model.encoder(STRIP, depth=4 * settings.layers)).all()


@pytest.mark.parametrize("settings", RULES.values(), ids=RULES.keys())
def test_some_tokens_have_the_output_of_all(settings: ModelSettings) -> None:
    model, indices = make_model(settings), torch.tensor([4, 0, 7])
    one_of_each = torch.tensor([2, 6, 7, 12])
    with torch.no_grad():
        hidden = model.encoder(STRIP)
        assert torch.allclose(model.encoder(STRIP, indices), hidden[indices], atol=1e-5)
        assert torch.allclose(model.encoder.hidden_at(STRIP, one_of_each), hidden[one_of_each], atol=1e-5)


@pytest.mark.parametrize("settings", RULES.values(), ids=RULES.keys())
def test_padded_batches_have_the_same_output(settings: ModelSettings) -> None:
    model, strip = make_model(settings), random_strip([5, 2, 9, 1])
    ids, mask, segments = strip.to_padded()
    with torch.no_grad():
        padded = PaddedModel(model)(ids, mask, segments)["mlm_logits"][mask.bool()]
        assert torch.allclose(padded, model(strip).logits, atol=1e-4)


@pytest.mark.parametrize("settings", RULES.values(), ids=RULES.keys())
def test_parameters_are_counted(settings: ModelSettings) -> None:
    counted = count_parameters(settings).total
    assert counted == sum(parameter.numel() for parameter in Model(settings).parameters())


def test_a_new_signal_changes_nothing() -> None:
    plain, with_signal = Model(SMALL, seed=1), Model(SIGNAL, seed=1)
    loss, gradients = loss_and_gradients(with_signal)
    assert loss == loss_and_gradients(plain)[0]
    assert gradients["encoder.step_signal.gain"].abs().max() > 0


def test_signal_is_added_before_each_layer() -> None:
    model = make_model(SIGNAL)
    assert model.encoder.step_signal is not None
    first, second = model.encoder.step_signal(0), model.encoder.step_signal(1)
    gain = model.encoder.step_signal.gain
    assert torch.allclose(first[0], gain[0] * torch.tensor(1.0).sin())
    assert torch.allclose(second[1], gain[1] * torch.tensor(2.0).cos())
    assert not torch.allclose(first, second)


def halted_output(model: Model, strip: Strip) -> tuple[Tensor, list[int]]:
    """Return outputs and numbers of steps by the definition of adaptive computation time, token by token."""
    halting = model.encoder.halting
    assert halting is not None
    _, *states = like_with_other_rule(model, "fixed").encoder.hidden_states(strip)
    probabilities = [torch.sigmoid(halting.unit(state)).squeeze(1).tolist() for state in states]
    outputs, steps = [], []
    for token in range(len(strip.tokens)):
        given, output = 0.0, torch.zeros(model.settings.hidden_size)
        for number, state in enumerate(states, start=1):
            weight = probabilities[number - 1][token]
            if given + weight >= 0.99 or number == len(states):
                outputs.append(output + (1 - given) * state[token])
                steps.append(number)
                break
            output, given = output + weight * state[token], given + weight
    return torch.stack(outputs), steps


@pytest.mark.parametrize("bias", [-1.0, 0.5, 2.0])
def test_halting_by_its_definition(bias: float) -> None:
    model = make_model(RULES["halting"])
    assert model.encoder.halting is not None
    with torch.no_grad():
        model.encoder.halting.unit.bias.fill_(bias)
        expected, steps = halted_output(model, STRIP)
        assert torch.allclose(model.encoder(STRIP), expected, atol=1e-5)
    weights = model.encoder.halting.weights
    assert weights is not None
    tokens = len(STRIP.tokens)
    assert weights.mean_steps(tokens) == pytest.approx(sum(steps) / tokens)
    assert 0 < weights.mean_cost(tokens).item() - weights.mean_steps(tokens) <= 1


@pytest.mark.parametrize(("bias", "depth"), [(20.0, 1), (-20.0, 5)])
def test_halting_at_once_or_never_is_albert(bias: float, depth: int) -> None:
    model = make_model(RULES["halting"])
    assert model.encoder.halting is not None
    model.encoder.halting.unit.bias.data.fill_(bias)
    with torch.no_grad():
        expected = like_with_other_rule(model, "fixed").encoder(STRIP, depth=depth)
        assert torch.allclose(model.encoder(STRIP), expected, atol=1e-5)


def test_the_cost_makes_tokens_halt_earlier() -> None:
    model = make_model(RULES["halting"], scale=0.02).train()
    halting = model.encoder.halting
    assert halting is not None
    steps = []
    for _ in range(200):
        model.encoder(STRIP)
        assert halting.weights is not None
        steps.append(halting.weights.mean_steps(len(STRIP.tokens)))
        (gradient,) = torch.autograd.grad(halting.weights.mean_cost(len(STRIP.tokens)), [halting.unit.bias])
        halting.unit.bias.data -= 0.3 * gradient
    assert steps[-1] < steps[0]


def contracting_model() -> Model:
    """Return a model of fp64 whose layer brings any two states closer, so that a solution exists."""
    model = make_model(replace(SMALL, depth_rule="equilibrium", layers=40), scale=0.05).double()
    with torch.no_grad():
        model.encoder.embedding.projection.weight.mul_(30)  # type: ignore[union-attr]
    return model


def test_equilibrium_is_a_fixed_point() -> None:
    model = contracting_model()
    with torch.no_grad():
        states = list(model.encoder.hidden_states(STRIP))
    changes = [float((after - before).norm()) for before, after in pairwise(states)]
    assert changes[-1] < 1e-5 < changes[0]


def encoder_gradients(model: Model) -> dict[str, Tensor]:
    """Return the gradients of a random linear function of the hidden states."""
    model.zero_grad()
    hidden = model.encoder(STRIP)
    (hidden * torch.randn(hidden.shape, generator=torch.Generator().manual_seed(3))).sum().backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


def many_plain_steps(embedded: Tensor, layer: LayerFunction, depth: int) -> Iterator[Tensor]:
    """Iterate without a solver; gradients flow through all steps."""
    state = torch.zeros_like(embedded)
    for _ in range(depth):
        yield state
        state = layer(state + embedded, 0)
    yield state


def test_gradient_of_an_equilibrium_is_that_of_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    model = contracting_model()
    implicit = encoder_gradients(model)
    monkeypatch.setattr(encoder, "equilibrium", many_plain_steps)
    for name, expected in encoder_gradients(model).items():
        assert (implicit[name] - expected).norm() <= 1e-3 * expected.norm() + 1e-9, name


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"depth_rule": "halting", "share": "none"}, "needs share"),
        ({"step_signal": True, "groups": 3}, "needs share"),
        ({"depth_rule": "equilibrium", "inner_groups": 2}, "needs share"),
        ({"depth_rule": "equilibrium", "step_signal": True}, "same equation"),
        ({"depth_rule": "equilibrium", "dropout": 0.1}, "no fixed point"),
    ],
)
def test_rules_need_one_shared_layer(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingError, match=message):
        replace(SMALL, **changes)


def test_flops_of_an_equilibrium() -> None:
    settings = replace(SMALL, layers=10, depth_rule="halting")
    fixed, solved = count_flops(settings, 16), count_flops(replace(settings, depth_rule="equilibrium"), 16)
    layers = fixed.training_with_recomputation_per_token - fixed.training_per_token
    difference = fixed.training_per_token - solved.training_per_token
    assert difference == pytest.approx(layers / 10 * (3 * 10 - (2 * 10 + 3)))

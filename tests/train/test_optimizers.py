"""The optimizers move the weights as their definitions say, worked out apart in float64."""

from typing import get_args

import pytest
import torch
from torch import Tensor

from albertine.model.network import Model
from albertine.settings import ModelSettings
from albertine.train.muon import orthogonal
from albertine.train.optimizers import Optimizers, kinds_of
from albertine.train.settings import OptimizerName, TrainSettings

SMALL = ModelSettings(vocab_size=40, embedding_size=8, hidden_size=16, layers=2, heads=2, max_length=16)
STEPS = 12


def gradients(network: Model, step: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return {
        name: torch.randn(one.shape, generator=generator) * 10 ** (step % 3 - 2)
        for name, one in network.named_parameters()
    }


def moved(network: Model, train: TrainSettings, rates: list[float]) -> dict[str, Tensor]:
    """Move a network by some steps and return its weights in float64."""
    optimizers = Optimizers(network, train, torch.float32)
    for step, rate in enumerate(rates):
        for parameter, gradient in zip(network.parameters(), gradients(network, step).values(), strict=True):
            parameter.grad = gradient
        optimizers.step(rate)
    return {name: one.detach().double() for name, one in network.named_parameters()}


def in_thirds(name: str, matrix: Tensor) -> list[Tensor]:
    return list(matrix.chunk(3)) if name.endswith("qkv.weight") else [matrix]


def lamb_of_the_reference(network: Model, rates: list[float], decay: float) -> dict[str, Tensor]:
    """The reference optimizer, written from its description: one matrix at a time, in float64."""
    weights = {name: one.detach().double() for name, one in network.named_parameters()}
    for name, whole in weights.items():
        thirds = in_thirds(name, whole)
        firsts = [torch.zeros_like(one) for one in thirds]
        seconds = [torch.zeros_like(one) for one in thirds]
        for step, rate in enumerate(rates):
            parts = in_thirds(name, gradients(network, step)[name].double())
            for weight, gradient, first, second in zip(thirds, parts, firsts, seconds, strict=True):
                first.copy_(0.9 * first + 0.1 * gradient)
                second.copy_(0.999 * second + 0.001 * gradient**2)
                update = first / (second.sqrt() + 1e-6)
                ratio = 1.0
                excluded = "norm" in name or name.endswith("bias")
                if not excluded:
                    update = update + decay * weight
                    long, wide = float(weight.norm()), float(update.norm())
                    ratio = long / wide if long > 0 and wide > 0 else 1.0
                weight -= rate * ratio * update
    return weights


def test_lamb_is_that_of_the_reference_step_by_step() -> None:
    rates = [0.01 * (step + 1) for step in range(STEPS)]
    for steps in range(1, STEPS + 1):
        network = Model(SMALL, seed=3)
        expected = lamb_of_the_reference(network, rates[:steps], 0.01)
        found = moved(network, TrainSettings(optimizer="lamb", weight_decay=0.01), rates[:steps])
        for name, weight in expected.items():
            torch.testing.assert_close(found[name], weight, rtol=2e-5, atol=2e-6, msg=f"{name}, step {steps}")


def test_lamb_without_length_or_gradient_moves_as_adam_does() -> None:
    network = Model(SMALL, seed=0)
    with torch.no_grad():
        network.get_parameter("head.pooler.dense.weight").zero_()
    rates = [0.01]
    expected = lamb_of_the_reference(network, rates, 0.01)
    found = moved(network, TrainSettings(optimizer="lamb"), rates)
    name = "head.pooler.dense.weight"
    torch.testing.assert_close(found[name], expected[name], rtol=1e-5, atol=1e-7)
    assert found[name].abs().max() > 1e-3


def test_adamw_is_that_of_torch_with_decay_for_matrices_alone() -> None:
    rates = [1e-3, 2e-3, 5e-4]
    network, other = Model(SMALL, seed=1), Model(SMALL, seed=1)
    found = moved(network, TrainSettings(optimizer="adamw", weight_decay=0.1), rates)
    matrices = [one for one in other.parameters() if one.dim() > 1]
    vectors = [one for one in other.parameters() if one.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    peer = torch.optim.AdamW(groups, lr=0.0)
    for step, rate in enumerate(rates):
        for name, parameter in other.named_parameters():
            parameter.grad = gradients(other, step)[name]
        for group in peer.param_groups:
            group["lr"] = rate
        peer.step()
    for name, parameter in other.named_parameters():
        torch.testing.assert_close(found[name], parameter.detach().double(), rtol=1e-6, atol=1e-8)


def test_muon_is_that_of_torch_on_each_matrix() -> None:
    """Torch's own Muon, given queries, keys and values as three matrices, with its RMS scaling."""
    rates = [1e-2, 2e-2, 1e-2]
    network, other = Model(SMALL, seed=1), Model(SMALL, seed=1)
    found = moved(network, TrainSettings(optimizer="muon", weight_decay=0.05), rates)
    kinds = kinds_of(other)
    named = {id(one): name for name, one in other.named_parameters()}
    for parameter in [*kinds.stacked, *kinds.hidden]:
        name = named[id(parameter)]
        parts = [torch.nn.Parameter(one.clone()) for one in in_thirds(name, parameter.detach())]
        peer = torch.optim.Muon(
            parts, lr=0.0, weight_decay=0.05 / 3.2, momentum=0.95, nesterov=True, adjust_lr_fn="original"
        )
        for step, rate in enumerate(rates):
            for part, gradient in zip(parts, in_thirds(name, gradients(other, step)[name]), strict=True):
                part.grad = gradient.clone()
            peer.param_groups[0]["lr"] = 3.2 * rate
            peer.step()
        # torch turns in bf16, we in the precision of the run.
        joined = torch.cat([part.detach() for part in parts]).double()
        torch.testing.assert_close(found[name], joined, rtol=0.02, atol=2e-3, msg=name)


@pytest.mark.parametrize("shape", [(1, 6, 6), (3, 4, 9), (2, 12, 5)])
def test_orthogonal_brings_singular_values_near_one(shape: tuple[int, ...]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    before, after = (torch.linalg.svd(one) for one in (matrices, orthogonal(matrices)))
    assert after.S.min() > 0.6
    assert after.S.max() < 1.3
    # The directions stay: U and V of one are those of the other.
    ideal = before.U[..., : before.S.shape[-1]] @ before.Vh[..., : before.S.shape[-1], :]
    overlap = (orthogonal(matrices) * ideal).sum((-1, -2)) / before.S.shape[-1]
    assert (overlap > 0.75).all()


def test_orthogonal_of_nothing_is_nothing() -> None:
    assert not orthogonal(torch.zeros(2, 3, 4)).any()


def test_kinds_are_all_parameters_each_once() -> None:
    network = Model(SMALL)
    kinds = kinds_of(network)
    found = [one for kind in vars(kinds).values() for one in kind]
    assert {id(one) for one in found} == {id(one) for one in network.parameters()}
    assert len(found) == len(list(network.parameters()))
    tables = {id(one) for one in kinds.tables}
    assert id(network.get_parameter("encoder.embedding.tokens.weight")) in tables
    assert id(network.get_parameter("head.pair.weight")) in tables
    assert all(one.dim() == 1 for one in kinds.vectors)


@pytest.mark.parametrize("optimizer", get_args(OptimizerName))
def test_what_is_remembered_comes_back(optimizer: OptimizerName) -> None:
    train = TrainSettings(optimizer=optimizer)
    rates = [1e-2] * 6
    expected = moved(Model(SMALL, seed=2), train, rates)
    network = Model(SMALL, seed=2)
    first = Optimizers(network, train, torch.float32)
    for step in range(6):
        if step == 3:  # another object, given what the first remembered
            kept = {name: one.clone() for name, one in first.tensors().items()}
            first = Optimizers(network, train, torch.float32)
            first.restore(kept)
        for name, parameter in network.named_parameters():
            parameter.grad = gradients(network, step)[name]
        first.step(rates[step])
    for name, parameter in network.named_parameters():
        assert torch.equal(parameter.detach().double(), expected[name]), name


def test_rates_of_zero_move_nothing() -> None:
    network = Model(SMALL, seed=0)
    before = {name: one.detach().double() for name, one in network.named_parameters()}
    for optimizer in get_args(OptimizerName):
        after = moved(network, TrainSettings(optimizer=optimizer), [0.0, 0.0])
        assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("width", [32, 256])
def test_one_rate_turns_hidden_states_of_any_width_alike(width: int) -> None:
    """What a step changes of a hidden state, beside what was there, depends on the rate alone."""
    model = ModelSettings(
        vocab_size=40, embedding_size=8, hidden_size=width, layers=1, heads=1, max_length=16
    )
    network = Model(model, seed=0)
    before = network.get_parameter("encoder.attention.0.out.weight").detach().clone()
    moved(network, TrainSettings(optimizer="muon", weight_decay=0.0), [0.01])
    change = network.get_parameter("encoder.attention.0.out.weight").detach() - before
    state = torch.randn(width, generator=torch.Generator().manual_seed(0))
    turned = float((change @ state).norm() / state.norm())
    assert turned == pytest.approx(0.01 * 3.2, rel=0.25)

"""Tests of the optimizers against independent implementations in fp64."""

from typing import get_args

import pytest
import torch
from torch import Tensor

from albertine.model.model import Model
from albertine.settings import ModelSettings
from albertine.train.muon import orthogonalized
from albertine.train.optimizers import Optimizers, parameter_groups
from albertine.train.settings import OptimizerName, PretrainTrainSettings

SMALL = ModelSettings(vocab_size=40, embedding_size=8, hidden_size=16, layers=2, heads=2, max_length=16)
STEPS = 12


def random_gradients(network: Model, step: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(step)
    return {
        name: torch.randn(one.shape, generator=generator) * 10 ** (step % 3 - 2)
        for name, one in network.named_parameters()
    }


def weights_after(network: Model, train: PretrainTrainSettings, rates: list[float]) -> dict[str, Tensor]:
    """Take some steps and return the weights in fp64."""
    optimizers = Optimizers(network, train, torch.float32)
    for step, rate in enumerate(rates):
        for parameter, gradient in zip(
            network.parameters(), random_gradients(network, step).values(), strict=True
        ):
            parameter.grad = gradient
        optimizers.step(rate)
    return {name: one.detach().double() for name, one in network.named_parameters()}


def split_qkv(name: str, matrix: Tensor) -> list[Tensor]:
    return list(matrix.chunk(3)) if name.endswith("qkv.weight") else [matrix]


def reference_lamb(network: Model, rates: list[float], decay: float) -> dict[str, Tensor]:
    """LAMB, one matrix at a time, in fp64."""
    weights = {name: one.detach().double() for name, one in network.named_parameters()}
    for name, tensor in weights.items():
        thirds = split_qkv(name, tensor)
        firsts = [torch.zeros_like(one) for one in thirds]
        seconds = [torch.zeros_like(one) for one in thirds]
        for step, rate in enumerate(rates):
            parts = split_qkv(name, random_gradients(network, step)[name].double())
            for weight, gradient, first, second in zip(thirds, parts, firsts, seconds, strict=True):
                first.copy_(0.9 * first + 0.1 * gradient)
                second.copy_(0.999 * second + 0.001 * gradient**2)
                update = first / (second.sqrt() + 1e-6)
                ratio = 1.0
                excluded = "norm" in name or name.endswith("bias")
                if not excluded:
                    update = update + decay * weight
                    weight_norm, update_norm = float(weight.norm()), float(update.norm())
                    ratio = weight_norm / update_norm if weight_norm > 0 and update_norm > 0 else 1.0
                weight -= rate * ratio * update
    return weights


def test_lamb_matches_the_reference_at_every_step() -> None:
    rates = [0.01 * (step + 1) for step in range(STEPS)]
    for steps in range(1, STEPS + 1):
        network = Model(SMALL, seed=3)
        expected = reference_lamb(network, rates[:steps], 0.01)
        found = weights_after(
            network, PretrainTrainSettings(optimizer="lamb", weight_decay=0.01), rates[:steps]
        )
        for name, weight in expected.items():
            torch.testing.assert_close(found[name], weight, rtol=2e-5, atol=2e-6, msg=f"{name}, step {steps}")


def test_lamb_of_zero_norm_matches_adam() -> None:
    network = Model(SMALL, seed=0)
    with torch.no_grad():
        network.get_parameter("head.pooler.dense.weight").zero_()
    rates = [0.01]
    expected = reference_lamb(network, rates, 0.01)
    found = weights_after(network, PretrainTrainSettings(optimizer="lamb"), rates)
    name = "head.pooler.dense.weight"
    torch.testing.assert_close(found[name], expected[name], rtol=1e-5, atol=1e-7)
    assert found[name].abs().max() > 1e-3


def test_adamw_matches_torch_and_decays_only_matrices() -> None:
    rates = [1e-3, 2e-3, 5e-4]
    network, other = Model(SMALL, seed=1), Model(SMALL, seed=1)
    found = weights_after(network, PretrainTrainSettings(optimizer="adamw", weight_decay=0.1), rates)
    matrices = [one for one in other.parameters() if one.dim() > 1]
    vectors = [one for one in other.parameters() if one.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    peer = torch.optim.AdamW(groups, lr=0.0)
    for step, rate in enumerate(rates):
        for name, parameter in other.named_parameters():
            parameter.grad = random_gradients(other, step)[name]
        for group in peer.param_groups:
            group["lr"] = rate
        peer.step()
    for name, parameter in other.named_parameters():
        torch.testing.assert_close(found[name], parameter.detach().double(), rtol=1e-6, atol=1e-8)


def test_muon_matches_torch_on_each_matrix() -> None:
    """Muon of torch, with queries, keys and values as three matrices, and its RMS scaling."""
    rates = [1e-2, 2e-2, 1e-2]
    network, other = Model(SMALL, seed=1), Model(SMALL, seed=1)
    found = weights_after(network, PretrainTrainSettings(optimizer="muon", weight_decay=0.05), rates)
    kinds = parameter_groups(other)
    named = {id(one): name for name, one in other.named_parameters()}
    for parameter in [*kinds.qkv_matrices, *kinds.hidden_matrices]:
        name = named[id(parameter)]
        parts = [torch.nn.Parameter(one.clone()) for one in split_qkv(name, parameter.detach())]
        peer = torch.optim.Muon(
            parts, lr=0.0, weight_decay=0.05 / 3.2, momentum=0.95, nesterov=True, adjust_lr_fn="original"
        )
        for step, rate in enumerate(rates):
            for part, gradient in zip(
                parts, split_qkv(name, random_gradients(other, step)[name]), strict=True
            ):
                part.grad = gradient.clone()
            peer.param_groups[0]["lr"] = 3.2 * rate
            peer.step()
        # torch turns in bf16, we in the precision of the run.
        joined = torch.cat([part.detach() for part in parts]).double()
        torch.testing.assert_close(found[name], joined, rtol=0.02, atol=2e-3, msg=name)


@pytest.mark.parametrize("shape", [(1, 6, 6), (3, 4, 9), (2, 12, 5)])
def test_orthogonalized_singular_values_are_near_one(shape: tuple[int, ...]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    before, after = (torch.linalg.svd(one) for one in (matrices, orthogonalized(matrices)))
    assert after.S.min() > 0.6
    assert after.S.max() < 1.3
    # The directions stay: U and V of one are those of the other.
    ideal = before.U[..., : before.S.shape[-1]] @ before.Vh[..., : before.S.shape[-1], :]
    overlap = (orthogonalized(matrices) * ideal).sum((-1, -2)) / before.S.shape[-1]
    assert (overlap > 0.75).all()


def test_orthogonalized_zero_is_zero() -> None:
    assert not orthogonalized(torch.zeros(2, 3, 4)).any()


def test_parameter_groups_hold_each_parameter_once() -> None:
    network = Model(SMALL)
    kinds = parameter_groups(network)
    found = [one for kind in vars(kinds).values() for one in kind]
    assert {id(one) for one in found} == {id(one) for one in network.parameters()}
    assert len(found) == len(list(network.parameters()))
    tables = {id(one) for one in kinds.other_matrices}
    assert id(network.get_parameter("encoder.embedding.tokens.weight")) in tables
    assert id(network.get_parameter("head.pair.weight")) in tables
    assert all(one.dim() == 1 for one in kinds.vectors)


@pytest.mark.parametrize("optimizer", get_args(OptimizerName))
def test_optimizer_state_is_restored(optimizer: OptimizerName) -> None:
    train = PretrainTrainSettings(optimizer=optimizer)
    rates = [1e-2] * 6
    expected = weights_after(Model(SMALL, seed=2), train, rates)
    network = Model(SMALL, seed=2)
    first = Optimizers(network, train, torch.float32)
    for step in range(6):
        if step == 3:  # another object, given what the first remembered
            kept = {name: one.clone() for name, one in first.state_tensors().items()}
            first = Optimizers(network, train, torch.float32)
            first.load_state_tensors(kept)
        for name, parameter in network.named_parameters():
            parameter.grad = random_gradients(network, step)[name]
        first.step(rates[step])
    for name, parameter in network.named_parameters():
        assert torch.equal(parameter.detach().double(), expected[name]), name


def test_zero_learning_rate_changes_nothing() -> None:
    network = Model(SMALL, seed=0)
    before = {name: one.detach().double() for name, one in network.named_parameters()}
    for optimizer in get_args(OptimizerName):
        after = weights_after(network, PretrainTrainSettings(optimizer=optimizer), [0.0, 0.0])
        assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("width", [32, 256])
def test_muon_update_size_is_independent_of_width(width: int) -> None:
    """The relative change of a hidden state by a step depends only on the learning rate."""
    model = ModelSettings(
        vocab_size=40, embedding_size=8, hidden_size=width, layers=1, heads=1, max_length=16
    )
    network = Model(model, seed=0)
    before = network.get_parameter("encoder.attention.0.out.weight").detach().clone()
    weights_after(network, PretrainTrainSettings(optimizer="muon", weight_decay=0.0), [0.01])
    change = network.get_parameter("encoder.attention.0.out.weight").detach() - before
    state = torch.randn(width, generator=torch.Generator().manual_seed(0))
    turned = float((change @ state).norm() / state.norm())
    assert turned == pytest.approx(0.01 * 3.2, rel=0.25)

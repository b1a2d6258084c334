"""Tests of the optimizers against independent implementations in fp64."""

from dataclasses import replace
from typing import get_args

import pytest
import torch
from torch import Tensor

from albertine.errors import InputError
from albertine.model.model import Model
from albertine.settings import ModelSettings
from albertine.train.muon import orthogonalized
from albertine.train.optimizers import Optimizers, parameter_groups
from albertine.train.settings import OptimizerName, PretrainTrainSettings

SMALL = ModelSettings(vocab_size=40, embedding_size=8, hidden_size=16, layers=2, heads=2, max_length=16)
STEPS = 12


def random_gradients(model: Model, step: int) -> dict[str, Tensor]:
    """Return gradients of very different sizes, which depend only on the step."""
    generator = torch.Generator().manual_seed(step)
    return {
        name: torch.randn(parameter.shape, generator=generator) * 10 ** (step % 3 - 2)
        for name, parameter in model.named_parameters()
    }


def fp64_weights(model: Model) -> dict[str, Tensor]:
    return {name: parameter.detach().double() for name, parameter in model.named_parameters()}


def weights_after(model: Model, train: PretrainTrainSettings, rates: list[float]) -> dict[str, Tensor]:
    """Take a step at each learning rate and return the weights in fp64."""
    optimizers = Optimizers(model, train, torch.float32)
    for step, rate in enumerate(rates):
        for parameter, gradient in zip(
            model.parameters(), random_gradients(model, step).values(), strict=True
        ):
            parameter.grad = gradient
        optimizers.step(rate)
    return fp64_weights(model)


def split_qkv(name: str, matrix: Tensor) -> list[Tensor]:
    """Return the matrices that a parameter stacks: of queries, keys and values, or of the layers."""
    if matrix.dim() == 3:
        return list(matrix)
    return list(matrix.chunk(3)) if name.endswith("qkv.weight") else [matrix]


def reference_lamb(model: Model, rates: list[float], decay: float) -> dict[str, Tensor]:
    """LAMB, one matrix at a time, in fp64."""
    weights = fp64_weights(model)
    for name, stacked in weights.items():
        matrices = split_qkv(name, stacked)
        first_moments = [torch.zeros_like(matrix) for matrix in matrices]
        second_moments = [torch.zeros_like(matrix) for matrix in matrices]
        for step, rate in enumerate(rates):
            gradients = split_qkv(name, random_gradients(model, step)[name].double())
            for weight, gradient, first_moment, second_moment in zip(
                matrices, gradients, first_moments, second_moments, strict=True
            ):
                first_moment.copy_(0.9 * first_moment + 0.1 * gradient)
                second_moment.copy_(0.999 * second_moment + 0.001 * gradient**2)
                update = first_moment / (second_moment.sqrt() + 1e-6)
                trust_ratio = 1.0
                is_excluded = "norm" in name or name.endswith("bias")
                if not is_excluded:
                    update = update + decay * weight
                    weight_norm, update_norm = float(weight.norm()), float(update.norm())
                    trust_ratio = weight_norm / update_norm if weight_norm > 0 and update_norm > 0 else 1.0
                weight -= rate * trust_ratio * update
    return weights


@pytest.mark.slow
@pytest.mark.parametrize("step_rank", [0, 3])
def test_lamb_matches_the_reference_at_every_step(step_rank: int) -> None:
    rates = [0.01 * (step + 1) for step in range(STEPS)]
    for steps in range(1, STEPS + 1):
        model = Model(replace(SMALL, step_rank=step_rank), seed=3)
        expected = reference_lamb(model, rates[:steps], 0.01)
        actual = weights_after(
            model, PretrainTrainSettings(optimizer="lamb", weight_decay=0.01), rates[:steps]
        )
        for name, weight in expected.items():
            message = f"{name}, step {steps}"
            torch.testing.assert_close(actual[name], weight, rtol=2e-5, atol=2e-6, msg=message)


def test_lamb_updates_a_matrix_of_zeros() -> None:
    """Its trust ratio is 1; with a ratio of 0 it would never change."""
    model, name = Model(SMALL, seed=0), "head.pooler.dense.weight"
    with torch.no_grad():
        model.get_parameter(name).zero_()
    rates = [0.01]
    expected = reference_lamb(model, rates, 0.01)
    actual = weights_after(model, PretrainTrainSettings(optimizer="lamb"), rates)
    torch.testing.assert_close(actual[name], expected[name], rtol=1e-5, atol=1e-7)
    assert actual[name].abs().max() > 1e-3


def test_adamw_matches_torch_and_decays_only_matrices() -> None:
    rates = [1e-3, 2e-3, 5e-4]
    model, reference = Model(SMALL, seed=1), Model(SMALL, seed=1)
    actual = weights_after(model, PretrainTrainSettings(optimizer="adamw", weight_decay=0.1), rates)
    matrices = [parameter for parameter in reference.parameters() if parameter.dim() > 1]
    vectors = [parameter for parameter in reference.parameters() if parameter.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=0.0)
    for step, rate in enumerate(rates):
        for name, parameter in reference.named_parameters():
            parameter.grad = random_gradients(reference, step)[name]
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
    for name, expected in fp64_weights(reference).items():
        torch.testing.assert_close(actual[name], expected, rtol=1e-6, atol=1e-8)


def test_bert_adam_matches_the_reference_at_every_step() -> None:
    """The reference is AdamWeightDecayOptimizer of Google's `optimization.py`, here in fp64."""
    rates, decay = [0.01 * (step + 1) for step in range(STEPS)], 0.1
    network = Model(SMALL, seed=3)
    expected = {name: one.detach().double() for name, one in network.named_parameters()}
    firsts = {name: torch.zeros_like(one) for name, one in expected.items()}
    seconds = {name: torch.zeros_like(one) for name, one in expected.items()}
    for steps in range(1, STEPS + 1):
        for name, gradient in random_gradients(network, steps - 1).items():
            firsts[name] = 0.9 * firsts[name] + 0.1 * gradient.double()
            seconds[name] = 0.999 * seconds[name] + 0.001 * gradient.double() ** 2
            update = firsts[name] / (seconds[name].sqrt() + 1e-6)
            if not ("norm" in name or name.endswith("bias")):
                update = update + decay * expected[name]
            expected[name] = expected[name] - rates[steps - 1] * update
        found = weights_after(
            Model(SMALL, seed=3),
            PretrainTrainSettings(optimizer="bert-adam", weight_decay=decay),
            rates[:steps],
        )
        for name, weight in expected.items():
            torch.testing.assert_close(found[name], weight, rtol=2e-5, atol=2e-6, msg=f"{name}, step {steps}")


def test_muon_matches_torch_on_each_matrix() -> None:
    """In torch, queries, keys and values are three matrices, and updates are scaled by 1, not by 3.2."""
    rates = [1e-2, 2e-2, 1e-2]
    model, reference = Model(SMALL, seed=1), Model(SMALL, seed=1)
    actual = weights_after(model, PretrainTrainSettings(optimizer="muon", weight_decay=0.05), rates)
    groups = parameter_groups(reference)
    names = {id(parameter): name for name, parameter in reference.named_parameters()}
    for parameter in [*groups.qkv_matrices, *groups.hidden_matrices]:
        name = names[id(parameter)]
        matrices = [torch.nn.Parameter(matrix.clone()) for matrix in split_qkv(name, parameter.detach())]
        optimizer = torch.optim.Muon(
            matrices, lr=0.0, weight_decay=0.05 / 3.2, momentum=0.95, nesterov=True, adjust_lr_fn="original"
        )
        for step, rate in enumerate(rates):
            gradients = split_qkv(name, random_gradients(reference, step)[name])
            for matrix, gradient in zip(matrices, gradients, strict=True):
                matrix.grad = gradient.clone()
            optimizer.param_groups[0]["lr"] = 3.2 * rate
            optimizer.step()
        # Not closer, because torch orthogonalizes in bf16 and Albertine in the precision of the run.
        expected = torch.cat([matrix.detach() for matrix in matrices]).double()
        torch.testing.assert_close(actual[name], expected, rtol=0.02, atol=2e-3, msg=name)


@pytest.mark.parametrize("shape", [(1, 6, 6), (3, 4, 9), (2, 12, 5)])
def test_orthogonalized_singular_values_are_near_one(shape: tuple[int, ...]) -> None:
    matrices = torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    update = orthogonalized(matrices)
    singular_values = torch.linalg.svdvals(update)
    assert singular_values.min() > 0.6
    assert singular_values.max() < 1.3
    # The singular vectors stay the same: the update resembles U V^T.
    u, s, vh = torch.linalg.svd(matrices, full_matrices=False)
    overlap = (update * (u @ vh)).sum((-1, -2)) / s.shape[-1]
    assert (overlap > 0.75).all()


def test_orthogonalized_zero_is_zero() -> None:
    assert not orthogonalized(torch.zeros(2, 3, 4)).any()


def test_parameter_groups_hold_each_parameter_once() -> None:
    model = Model(SMALL)
    groups = parameter_groups(model)
    grouped = [parameter for group in vars(groups).values() for parameter in group]
    assert {id(parameter) for parameter in grouped} == {id(parameter) for parameter in model.parameters()}
    assert len(grouped) == len(list(model.parameters()))
    other_matrices = {id(parameter) for parameter in groups.other_matrices}
    assert id(model.get_parameter("encoder.embedding.tokens.weight")) in other_matrices
    assert id(model.get_parameter("head.pair.weight")) in other_matrices
    assert all(parameter.dim() == 1 for parameter in groups.vectors)


@pytest.mark.parametrize("optimizer", get_args(OptimizerName))
def test_optimizer_state_is_restored(optimizer: OptimizerName) -> None:
    train = PretrainTrainSettings(optimizer=optimizer)
    rates = [1e-2] * 6
    expected = weights_after(Model(SMALL, seed=2), train, rates)
    model = Model(SMALL, seed=2)
    optimizers = Optimizers(model, train, torch.float32)
    for step in range(6):
        if step == 3:
            state = {name: tensor.clone() for name, tensor in optimizers.state_tensors().items()}
            optimizers = Optimizers(model, train, torch.float32)
            optimizers.load_state_tensors(state)
        for name, parameter in model.named_parameters():
            parameter.grad = random_gradients(model, step)[name]
        optimizers.step(rates[step])
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter.detach().double(), expected[name]), name


@pytest.mark.parametrize(
    ("name", "tensor"),
    [
        ("exp_avg", torch.zeros(2)),
        ("encoder.nothing.weight/exp_avg", torch.zeros(2)),
        ("encoder.embedding.tokens.weight/exp_avg", torch.zeros(2)),
        ("encoder.embedding.tokens.weight/step", torch.tensor(3)),
    ],
)
def test_state_that_does_not_fit_is_refused(name: str, tensor: torch.Tensor) -> None:
    optimizers = Optimizers(Model(SMALL), PretrainTrainSettings(), torch.float32)
    with pytest.raises(InputError, match=f"{name} .*does not fit the model"):
        optimizers.load_state_tensors({name: tensor})


def test_zero_learning_rate_changes_nothing() -> None:
    model = Model(SMALL, seed=0)
    before = fp64_weights(model)
    for optimizer in get_args(OptimizerName):
        after = weights_after(model, PretrainTrainSettings(optimizer=optimizer), [0.0, 0.0])
        assert all(torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("width", [32, 256])
def test_muon_update_size_is_independent_of_width(width: int) -> None:
    """The relative change of a hidden state by a step depends only on the learning rate."""
    settings = ModelSettings(
        vocab_size=40, embedding_size=8, hidden_size=width, layers=1, heads=1, max_length=16
    )
    model = Model(settings, seed=0)
    before = model.get_parameter("encoder.attention.0.out.weight").detach().clone()
    weights_after(model, PretrainTrainSettings(optimizer="muon", weight_decay=0.0), [0.01])
    change = model.get_parameter("encoder.attention.0.out.weight").detach() - before
    hidden_state = torch.randn(width, generator=torch.Generator().manual_seed(0))
    relative_change = float((change @ hidden_state).norm() / hidden_state.norm())
    assert relative_change == pytest.approx(0.01 * 3.2, rel=0.25)

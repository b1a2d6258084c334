"""Which kernel runs for which input, and that one option switches all kernels off."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tests.model.model_fixtures import SMALL, STRIP, loss_and_gradients, random_strip
from torch import Tensor

from albertine.model import model as model_module
from albertine.model.encoder import ComputeOptions
from albertine.model.kernels import selection
from albertine.model.kernels.fused_linear_gelu import has_fast_linear_gelu
from albertine.model.kernels.selection import Kernels
from albertine.model.model import Model

SMALL_WITH_DROPOUT = replace(SMALL, dropout=0.3, attention_dropout=0.3)
KERNEL_NAMES = (
    "add_spare_rows",
    "fused_linear_gelu",
    "flash_attention",
    "has_fast_linear_gelu",
    "is_supported_head_size",
    "pad_to_rounded_count",
    "short_attention",
    "sixteen_bit_dropout",
    "vocabulary_loss",
)


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Names of the kernels that have run so far."""
    names: set[str] = set()

    def record(module: Any, name: str) -> None:
        kernel = getattr(module, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            names.add(name)
            return kernel(*args, **kwargs)

        monkeypatch.setattr(module, name, call)

    for name in (*KERNEL_NAMES, "compiled_function"):
        record(selection, name)
    record(model_module, "limit_primitive_cache")
    return names


def test_list_of_kernels_is_complete() -> None:
    modules = {name: getattr(value, "__module__", "") for name, value in vars(selection).items()}
    imported_kernels = {
        name
        for name, module in modules.items()
        if module.startswith("albertine.model.kernels.") and module != selection.__name__
    }
    assert imported_kernels == set(KERNEL_NAMES)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_no_kernel_runs_if_kernels_are_off(called: set[str], dtype: torch.dtype) -> None:
    model = Model(SMALL_WITH_DROPOUT, seed=1).train()
    for recompute in (False, True):
        model.configure(ComputeOptions(dtype, recompute, kernels=False))
        loss_and_gradients(model)
    model.eval()
    with torch.no_grad():
        model(STRIP)
    assert called == set()


def test_kernels_of_training_on_a_cpu(called: set[str]) -> None:
    model = Model(SMALL_WITH_DROPOUT, seed=1).train()
    model.configure(ComputeOptions())
    loss_and_gradients(model)
    assert called == {"limit_primitive_cache", "short_attention", "sixteen_bit_dropout", "vocabulary_loss"}


def test_bf16_on_a_cpu_has_spare_rows(called: set[str]) -> None:
    model = Model(SMALL, seed=1)
    model.configure(ComputeOptions(torch.bfloat16))
    loss_and_gradients(model)
    spare_rows = {"add_spare_rows", "pad_to_rounded_count"}
    assert called == {"limit_primitive_cache", "short_attention", "vocabulary_loss"} | spare_rows


def test_inference_on_a_cpu_attends_by_length(called: set[str]) -> None:
    model = Model(SMALL, seed=1).eval()
    model.configure(ComputeOptions(torch.bfloat16))
    with torch.no_grad():
        model(STRIP)
    expected = {"limit_primitive_cache", "add_spare_rows", "has_fast_linear_gelu"}
    assert called == expected | ({"fused_linear_gelu"} if has_fast_linear_gelu() else set())


@pytest.mark.skipif(not has_fast_linear_gelu(), reason="needs a CPU with AVX-512")
@pytest.mark.parametrize("activation", ["gelu_tanh", "gelu"])
def test_linear_and_gelu_are_fused_in_bf16_without_gradients(called: set[str], activation: Any) -> None:
    model = Model(replace(SMALL, activation=activation), seed=1).eval()
    for parameter in model.encoder.ffn.parameters():
        parameter.data.mul_(5)  # else the activation is nearly linear

    def encode(dtype: torch.dtype, *, needs_gradient: bool) -> tuple[Tensor, bool]:
        called.clear()
        model.configure(ComputeOptions(dtype))
        with torch.set_grad_enabled(needs_gradient):
            hidden: Tensor = model.encoder(STRIP).detach()
        return hidden, "fused_linear_gelu" in called

    exact, is_fused_in_fp32 = encode(torch.float32, needs_gradient=False)
    training, is_fused_in_training = encode(torch.bfloat16, needs_gradient=True)
    inference, is_fused_in_inference = encode(torch.bfloat16, needs_gradient=False)
    assert (is_fused_in_fp32, is_fused_in_training, is_fused_in_inference) == (False, False, True)
    fused_error, plain_error = ((hidden - exact).square().mean().sqrt() for hidden in (inference, training))
    assert 0 < float(fused_error) < 1.2 * float(plain_error)
    torch._C._set_mkldnn_enabled(False)
    try:
        assert not encode(torch.bfloat16, needs_gradient=False)[1]
    finally:
        torch._C._set_mkldnn_enabled(True)


@pytest.mark.parametrize("lengths", [[5, 2, 5, 1], [3, 9, 16, 16, 4], [8, 8]], ids=str)
def test_kernels_do_not_change_values_and_gradients(lengths: list[int]) -> None:
    model, strip = Model(SMALL, seed=1), random_strip(lengths)
    model.configure(ComputeOptions(kernels=False))
    plain_loss, plain_gradients = loss_and_gradients(model, strip)
    plain_hidden = model.eval().encoder(strip)
    model.train().configure(ComputeOptions())
    loss, gradients = loss_and_gradients(model, strip)
    assert float(loss) == pytest.approx(float(plain_loss), rel=1e-6)
    assert torch.allclose(model.eval().encoder(strip), plain_hidden, atol=1e-5)
    for name, gradient in plain_gradients.items():
        assert torch.allclose(gradients[name], gradient, rtol=1e-4, atol=1e-6), name


def test_plain_dropout_is_that_of_torch() -> None:
    values = torch.randn(300, 70)
    torch.manual_seed(0)
    expected = torch.nn.functional.dropout(values, 0.25)
    torch.manual_seed(0)
    assert torch.equal(Kernels(enabled=False).dropout(values, 0.25), expected)


@pytest.mark.parametrize("enabled", [True, False])
def test_dropout_rate_of_0_draws_no_random_numbers(enabled: bool) -> None:
    values, state = torch.randn(5), torch.get_rng_state()
    assert torch.equal(Kernels(enabled).dropout(values, 0.0), values)
    assert torch.equal(torch.get_rng_state(), state)

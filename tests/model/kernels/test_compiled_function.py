"""The compiled part of a layer: same results, and no unnecessary recompilation."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import pytest
import torch
from tests.model.model_fixtures import SMALL, STRIP, loss_and_gradients
from torch._dynamo.utils import counters

from albertine.model.encoder import ComputeOptions
from albertine.model.kernels.selection import compiled_function
from albertine.model.model import Model

# Tracing uses deprecated parts of torch itself.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")


@pytest.fixture(autouse=True)
def reset_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    counters.clear()
    compiled_function.cache_clear()
    yield
    compiled_function.cache_clear()


@pytest.mark.parametrize("kernels", [pytest.param(True, marks=pytest.mark.slow), False])
def test_values_and_gradients_equal_those_of_the_plain_function(kernels: bool) -> None:
    model = Model(SMALL, seed=1)
    model.configure(ComputeOptions(kernels=False))
    loss, gradients = loss_and_gradients(model)
    model.configure(ComputeOptions(compile=True, kernels=kernels))
    compiled_loss, compiled_gradients = loss_and_gradients(model)
    assert counters["stats"]["unique_graphs"] > 0
    assert float(compiled_loss) == pytest.approx(float(loss), rel=1e-6)
    for name, gradient in gradients.items():
        assert torch.allclose(compiled_gradients[name], gradient, rtol=1e-4, atol=1e-7), name


def test_depth_does_not_recompile() -> None:
    model = Model(SMALL, seed=1)
    model.configure(ComputeOptions(compile=True))
    model.encoder(STRIP, depth=1)
    counters.clear()
    model.encoder(STRIP, depth=12)
    assert not counters["stats"]["unique_graphs"]


@pytest.mark.slow
def test_many_models_compile_in_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of recompilations is that of the tracing, so that no kernels need to be compiled."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    for index in range(10):
        model = Model(replace(SMALL, layers=1, norm_epsilon=(index + 1) / 10), seed=1)
        model.configure(ComputeOptions(compile=True))
        model.encoder(STRIP)
    assert counters["stats"]["unique_graphs"] == 10

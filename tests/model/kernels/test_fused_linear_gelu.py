"""The fused linear layer and GELU against the two plain operations."""

import os
import subprocess
import sys

import pytest
import torch
from torch.nn import functional

from albertine.model.kernels.fused_linear_gelu import fused_linear_gelu, has_fast_linear_gelu

has_onednn = torch.backends.mkldnn.is_available()


@pytest.mark.skipif(not has_onednn, reason="needs oneDNN")
@pytest.mark.parametrize("approximation", ["tanh", "none"])
def test_values_equal_those_of_plain_operations(approximation: str) -> None:
    hidden, weight, bias = torch.randn(5, 48), torch.randn(64, 48), torch.randn(64)
    actual = fused_linear_gelu(hidden, weight, bias, approximation)
    expected = functional.gelu(functional.linear(hidden, weight, bias), approximate=approximation)
    assert torch.allclose(actual, expected, atol=1e-5)


@pytest.mark.skipif(not has_fast_linear_gelu(), reason="needs a CPU with AVX-512")
@pytest.mark.parametrize("approximation", ["tanh", "none"])
def test_bf16_is_rounded_once(approximation: str) -> None:
    # With zero weights the bias is the input of GELU. At -3.5 the two forms of GELU differ by a quarter.
    bias = torch.linspace(-3.5, 3.5, 64).bfloat16()
    hidden, weight = torch.ones(3, 32).bfloat16(), torch.zeros(64, 32).bfloat16()
    actual = fused_linear_gelu(hidden, weight, bias, approximation)
    expected = functional.gelu(bias.float(), approximate=approximation)
    assert torch.allclose(actual.float(), expected.expand(3, -1), rtol=2**-8, atol=0)


@pytest.mark.skipif(not has_onednn, reason="needs oneDNN")
def test_strides_of_the_bias_are_respected() -> None:
    hidden, weight, bias = torch.randn(5, 48), torch.randn(64, 48), torch.randn(64)
    strided_bias = torch.stack([bias, bias.neg()], 1)[:, 0]
    assert not strided_bias.is_contiguous()
    expected = fused_linear_gelu(hidden, weight, bias, "tanh")
    assert torch.equal(fused_linear_gelu(hidden, weight, strided_bias, "tanh"), expected)


@pytest.mark.slow
@pytest.mark.parametrize("isa", ["AVX2", "AVX2_VNNI_2", "AVX512_CORE"])
def test_model_runs_if_onednn_may_not_use_bf16_instructions(isa: str) -> None:
    script = """
import torch
from albertine.model.encoder import ComputeOptions
from albertine.model.model import Model
from tests.model.model_fixtures import SMALL, STRIP
model = Model(SMALL).eval()
model.configure(ComputeOptions(dtype=torch.bfloat16))
with torch.no_grad():
    model.encoder(STRIP)
"""
    environment = {**os.environ, "ONEDNN_MAX_CPU_ISA": isa}
    process = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert process.returncode == 0, process.stderr

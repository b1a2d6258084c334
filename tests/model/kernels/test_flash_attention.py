"""Flash attention against plain attention, on a GPU; `test_gpu_calls` checks its arguments without one."""

from dataclasses import replace

import pytest
import torch
from tests.model.model_fixtures import strip_of_lengths
from torch import Tensor

from albertine.model.attention import AttentionLayout, attention_by_length
from albertine.model.kernels.flash_attention import flash_attention, is_supported_head_size

HEADS, WIDTH = 3, 48


@pytest.mark.parametrize(
    ("head_size", "is_supported"), [(8, True), (64, True), (256, True), (12, False), (264, False)]
)
def test_supported_head_sizes(head_size: int, is_supported: bool) -> None:
    assert is_supported_head_size(head_size) == is_supported


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("lengths", [[1], [7, 7, 7], [1, 1, 2, 5, 5, 9, 40], [30, 300, 300]], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_values_and_gradients_equal_those_of_plain_attention(lengths: list[int], causal: bool) -> None:
    strip = replace(strip_of_lengths(lengths), causal=causal)
    layout = AttentionLayout.from_strip(strip.to("cuda"))
    qkv = torch.randn(sum(lengths), 3 * WIDTH, device="cuda").bfloat16()
    weight = torch.randn(sum(lengths), WIDTH, device="cuda").bfloat16()

    def output_and_gradient(qkv: Tensor, *, plain: bool) -> tuple[Tensor, Tensor]:
        leaf = qkv.detach().requires_grad_()
        if plain:
            output = attention_by_length(leaf, layout.length_groups, HEADS, 0.0, causal=causal)
        else:
            output = flash_attention(leaf, layout, HEADS)
        (gradient,) = torch.autograd.grad((output.float() * weight).sum(), leaf)
        return output.detach().float(), gradient.float()

    flash = output_and_gradient(qkv, plain=False)
    reference = output_and_gradient(qkv.float(), plain=True)
    for actual, expected in zip(flash, reference, strict=True):
        assert (actual - expected).norm() <= 0.01 * expected.norm()

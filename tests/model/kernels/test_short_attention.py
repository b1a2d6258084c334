"""Grouped attention and its backward pass: as accurate as plain attention, both compared with fp64."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.model.model_fixtures import strip_of_lengths
from torch import Tensor

from albertine.model.attention import AttentionLayout, LengthGroups, attention_by_length
from albertine.model.kernels.short_attention import max_short_length, padded_groups, short_attention

HEADS, WIDTH = 3, 48
MAX_SHORT_LENGTH = max_short_length(torch.bfloat16)
LENGTH_CASES = [[1], [2], [7, 7, 7], [64], [129, 129], [1, 1, 2, 5, 5, 9, 40], [30, 90, 100, 101, 128, 128]]


def length_groups(lengths: list[int]) -> LengthGroups:
    return AttentionLayout.from_strip(strip_of_lengths(lengths)).length_groups


def relative_error(actual: Tensor, exact: Tensor) -> float:
    return float((actual.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("lengths", LENGTH_CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_values_and_gradients_are_as_accurate_as_plain_attention(
    lengths: list[int], dtype: torch.dtype, causal: bool
) -> None:
    generator = torch.Generator().manual_seed(sum(lengths))
    qkv = torch.randn(sum(lengths), 3 * WIDTH, generator=generator, dtype=torch.float64).to(dtype)
    weight = torch.randn(sum(lengths), WIDTH, generator=generator, dtype=torch.float64).to(dtype)
    runs = length_groups(lengths)

    def output_and_gradients(precision: torch.dtype, *, plain: bool) -> list[Tensor]:
        leaf = qkv.to(precision).requires_grad_()
        attention = attention_by_length if plain else short_attention
        output = attention(leaf, runs, HEADS, 0.0, causal=causal)
        output.backward(weight.to(precision))
        assert leaf.grad is not None
        return [output.detach(), *leaf.grad.split(WIDTH, 1)]

    exact_values = output_and_gradients(torch.float64, plain=True)
    grouped_values = output_and_gradients(dtype, plain=False)
    plain_values = output_and_gradients(dtype, plain=True)
    tolerance = {torch.bfloat16: 4e-3, torch.float32: 1e-6, torch.float64: 1e-14}[dtype]
    for grouped, plain, exact in zip(grouped_values, plain_values, exact_values, strict=True):
        if exact.abs().max() > 1e-9:
            assert relative_error(grouped, exact) < max(2 * relative_error(plain, exact), tolerance)
        else:  # in sequences of one token, queries and keys have no gradient
            assert grouped.abs().max() < 1e-6


@pytest.mark.parametrize("causal", [False, True])
def test_long_and_short_sequences_together(causal: bool) -> None:
    lengths = [3, 60, MAX_SHORT_LENGTH, MAX_SHORT_LENGTH + 1, MAX_SHORT_LENGTH + 1, MAX_SHORT_LENGTH + 40]
    qkv = torch.randn(sum(lengths), 3 * WIDTH).bfloat16().requires_grad_()
    actual = short_attention(qkv, length_groups(lengths), HEADS, 0.0, causal=causal)
    exact = attention_by_length(qkv.detach().double(), length_groups(lengths), HEADS, 0.0, causal=causal)
    assert relative_error(actual.detach(), exact) < 4e-3


def test_second_derivative_is_refused() -> None:
    qkv = torch.randn(5, 3 * WIDTH, requires_grad=True)
    output = short_attention(qkv, length_groups([2, 3]), HEADS, 0.0)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(output.sum(), qkv, create_graph=True)


def test_padding_is_not_attended_to() -> None:
    qkv = torch.randn(14, 3 * WIDTH)
    qkv[5:] = float("nan")
    output = short_attention(qkv.requires_grad_(), length_groups([5, 9]), HEADS, 0.0)
    assert output[:5].isfinite().all()
    assert output[5:].isnan().all()


@pytest.mark.parametrize("lengths", [[128] * 8, [30, 35, 40, 128]], ids=str)
def test_dropout_rate_and_gradient(lengths: list[int]) -> None:
    runs, rate = length_groups(lengths), 0.25
    qkv = torch.randn(sum(lengths), 3 * WIDTH, dtype=torch.float64)

    def attend(rows: Tensor) -> Tensor:
        torch.manual_seed(3)
        return short_attention(rows, runs, HEADS, rate)

    # If all values are 1, the output is the sum of the attention weights that dropout kept, rescaled.
    qkv_with_unit_values = qkv.clone()
    qkv_with_unit_values[:, 2 * WIDTH :] = 1
    weight_sums = attend(qkv_with_unit_values.requires_grad_()).detach()
    assert float(weight_sums.mean()) == pytest.approx(1, abs=0.02)
    assert float(weight_sums.std()) > 0.02
    # The derivative along a random direction equals a finite difference.
    leaf = qkv.clone().requires_grad_()
    weight, direction = torch.randn(sum(lengths), WIDTH).double(), torch.randn_like(qkv)
    (attend(leaf) * weight).sum().backward()
    assert leaf.grad is not None
    step = 1e-5
    above, below = (
        (attend((qkv + sign * step * direction).requires_grad_()) * weight).sum() for sign in (1, -1)
    )
    difference_quotient = float((above - below).detach()) / (2 * step)
    assert float((leaf.grad * direction).sum()) == pytest.approx(difference_quotient, rel=1e-6)


@given(st.lists(st.integers(1, MAX_SHORT_LENGTH), max_size=80))
def test_groups_cover_all_sequences_with_little_padding(lengths: list[int]) -> None:
    remaining = iter(sorted(lengths))
    for group in padded_groups(length_groups(lengths)):
        group_lengths = [next(remaining) for _ in range(group.sequence_count)]
        assert group.padded_length == max(group_lengths)
        assert group.token_count == sum(group_lengths)
        assert group.sequence_count * group.padded_length - group.token_count <= 64
        if group.padded_indices is not None:
            rows = torch.arange(1, group.token_count + 1.0)[:, None]
            unpadded = torch.empty_like(rows)
            group.unpad_into(group.pad(rows), unpadded)
            assert unpadded.equal(rows)
    assert next(remaining, None) is None


def test_sequences_of_one_length_need_no_padding() -> None:
    (group,) = padded_groups(((8, 128),))
    assert group.padded_indices is None


def test_similar_lengths_share_a_group() -> None:
    assert len(padded_groups(((4, 50), (4, 51), (4, 52), (4, 53)))) == 1

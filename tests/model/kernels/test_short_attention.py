"""Attention by groups with its own backward against float64, and against the kernel's accuracy."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from albertine.model.attention import AttentionLayout, attend, padded_row_count
from albertine.model.kernels.short_attention import max_short_length, padded_groups
from albertine.model.strip import Strip

HEADS, WIDTH = 3, 48
MAX_SHORT_LENGTH = max_short_length(torch.bfloat16)
LENGTH_CASES = [[1], [2], [7, 7, 7], [64], [129, 129], [1, 1, 2, 5, 5, 9, 40], [30, 90, 100, 101, 128, 128]]


def strip_of_lengths(lengths: list[int]) -> Strip:
    tokens = torch.zeros(sum(lengths), dtype=torch.long)
    return Strip(tokens, torch.zeros_like(tokens), torch.tensor([0, *lengths]).cumsum(0))


def attend_one_by_one(qkv: Tensor, lengths: list[int]) -> Tensor:
    """Attend, sequence by sequence, with the kernel."""
    parts = []
    for rows in torch.split(qkv, lengths):
        query, key, value = rows.view(len(rows), 3, HEADS, -1).permute(1, 2, 0, 3)
        parts.append(functional.scaled_dot_product_attention(query[None], key[None], value[None])[0])
    return torch.cat([part.transpose(0, 1).flatten(1) for part in parts])


def relative_error(value: Tensor, exact: Tensor) -> float:
    return float((value.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("lengths", LENGTH_CASES, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_outputs_and_gradients_are_those_of_float64(lengths: list[int], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(sum(lengths))
    qkv = torch.randn(sum(lengths), 3 * WIDTH, generator=generator, dtype=torch.float64).to(dtype)
    weight = torch.randn(sum(lengths), WIDTH, generator=generator, dtype=torch.float64).to(dtype)

    def run(precision: torch.dtype, *, kernel: bool) -> list[Tensor]:
        leaf = qkv.to(precision).requires_grad_()
        if kernel:
            out = attend_one_by_one(leaf, lengths)
        else:
            out = attend(leaf, AttentionLayout.for_strip(strip_of_lengths(lengths)), HEADS, 0.0)
        out.backward(weight.to(precision))
        assert leaf.grad is not None
        return [out.detach(), *leaf.grad.split(WIDTH, 1)]

    exact = run(torch.float64, kernel=True)
    ours, kernels = run(dtype, kernel=False), run(dtype, kernel=True)
    least = {torch.bfloat16: 4e-3, torch.float32: 1e-6, torch.float64: 1e-14}[dtype]
    for mine, theirs, right in zip(ours, kernels, exact, strict=True):
        if right.abs().max() > 1e-9:  # over one token nothing depends on query and key
            assert relative_error(mine, right) < max(2 * relative_error(theirs, right), least)
        else:
            assert mine.abs().max() < 1e-6


@pytest.mark.parametrize("grad", [True, False])
def test_long_and_short_sequences_together(grad: bool) -> None:
    lengths = [3, 60, MAX_SHORT_LENGTH, MAX_SHORT_LENGTH + 1, MAX_SHORT_LENGTH + 1, MAX_SHORT_LENGTH + 40]
    qkv = torch.randn(sum(lengths), 3 * WIDTH).bfloat16().requires_grad_(grad)
    found = attend(qkv, AttentionLayout.for_strip(strip_of_lengths(lengths)), HEADS, 0.0)
    exact = attend_one_by_one(qkv.detach().double(), lengths)
    assert relative_error(found.detach(), exact) < 4e-3


def test_a_second_derivative_is_refused() -> None:
    qkv = torch.randn(5, 3 * WIDTH, requires_grad=True)
    out = attend(qkv, AttentionLayout.for_strip(strip_of_lengths([2, 3])), HEADS, 0.0)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(out.sum(), qkv, create_graph=True)


def test_padding_is_not_attended_to() -> None:
    lengths = [5, 9]
    qkv = torch.randn(14, 3 * WIDTH)
    qkv[5:] = float("nan")
    found = attend(qkv.requires_grad_(), AttentionLayout.for_strip(strip_of_lengths(lengths)), HEADS, 0.0)
    assert found[:5].isfinite().all()
    assert found[5:].isnan().all()


@pytest.mark.parametrize("lengths", [[128] * 8, [30, 35, 40, 128]], ids=str)
def test_attention_dropout_rate_and_gradient(lengths: list[int]) -> None:
    cuts, rate = AttentionLayout.for_strip(strip_of_lengths(lengths)), 0.25
    qkv = torch.randn(sum(lengths), 3 * WIDTH, dtype=torch.float64)

    def found(rows: Tensor) -> Tensor:
        torch.manual_seed(3)
        return attend(rows, cuts, HEADS, rate)

    # One value everywhere: what comes out is the share of attention that stays, made up for.
    even = qkv.clone()
    even[:, 2 * WIDTH :] = 1
    shares = found(even.requires_grad_()).detach()
    assert float(shares.mean()) == pytest.approx(1, abs=0.02)
    assert float(shares.std()) > 0.02
    # The gradient along a direction, by differences; in fp32 scores are no finer in a float64 strip.
    leaf = qkv.clone().requires_grad_()
    weight, direction = torch.randn(sum(lengths), WIDTH).double(), torch.randn_like(qkv)
    (found(leaf) * weight).sum().backward()
    assert leaf.grad is not None
    step = 1e-5
    sides = [(found((qkv + sign * step * direction).requires_grad_()) * weight).sum() for sign in (1, -1)]
    slope = float((sides[0] - sides[1]).detach()) / (2 * step)
    assert float((leaf.grad * direction).sum()) == pytest.approx(slope, rel=1e-6)


@given(st.lists(st.integers(1, MAX_SHORT_LENGTH), max_size=80))
def test_groups_cover_all_sequences_with_little_padding(lengths: list[int]) -> None:
    groups = padded_groups(AttentionLayout.for_strip(strip_of_lengths(lengths)).length_runs)
    coming = iter(sorted(lengths))
    for group in groups:
        own = [next(coming) for _ in range(group.sequence_count)]
        assert group.padded_length == max(own)
        assert group.token_count == sum(own)
        assert group.sequence_count * group.padded_length - group.token_count <= 64
        if group.padded_indices is not None:
            rows = torch.arange(1, group.token_count + 1.0)[:, None]
            back = torch.empty_like(rows)
            group.unpad_into(group.pad(rows), back)
            assert back.equal(rows)
    assert next(coming, None) is None


def test_sequences_of_one_length_are_one_call() -> None:
    (group,) = padded_groups(((8, 128),))
    assert group.padded_indices is None
    assert len(padded_groups(((4, 50), (4, 51), (4, 52), (4, 53)))) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("lengths", [[5], [3, 5, 5], [3, 700], [700]], ids=str)
def test_spare_rows_have_no_effect_and_no_gradient(lengths: list[int], dtype: torch.dtype) -> None:
    cuts, many = AttentionLayout.for_strip(strip_of_lengths(lengths)), sum(lengths)
    rows = torch.randn(many, 3 * WIDTH).to(dtype)
    alone, beside = rows.clone().requires_grad_(), rows.clone().requires_grad_()
    foreign = torch.full((7, 3 * WIDTH), float("nan"), dtype=dtype, requires_grad=True)
    expected = attend(alone, cuts, HEADS, 0.0)
    found = attend(torch.cat([beside, foreign]), cuts, HEADS, 0.0)
    assert torch.equal(found[:many], expected)
    assert not found[many:].any()
    gradient = torch.randn(many, WIDTH).to(dtype)
    expected.backward(gradient)
    found[:many].backward(gradient)
    assert alone.grad is not None
    assert beside.grad is not None
    assert torch.equal(alone.grad, beside.grad)
    assert foreign.grad is not None
    assert not foreign.grad.any()


def test_few_row_counts_in_bf16() -> None:
    numbers = [padded_row_count(tokens) for tokens in range(1, 4097)]
    assert all(0 <= rows - tokens < max(16, tokens / 16) for tokens, rows in enumerate(numbers, start=1))
    assert len({rows for rows in numbers if rows > 2048}) == 16
    strip = strip_of_lengths([3, 9, 5])
    assert AttentionLayout.for_strip(strip).spare_rows == 0
    assert AttentionLayout.for_strip(strip, torch.bfloat16).spare_rows == 15
    assert AttentionLayout.for_strip(strip_of_lengths([]), torch.bfloat16).spare_rows == 0
    values = torch.arange(32.0).view(32, 1)
    assert AttentionLayout.for_strip(strip, torch.bfloat16).restore_order(values).flatten().tolist() == [
        *range(3), *range(8, 17), *range(3, 8)
    ]  # fmt: skip


def test_restore_order_and_its_gradient() -> None:
    cuts = AttentionLayout.for_strip(strip_of_lengths([3, 9, 5]), torch.bfloat16)
    assert cuts.token_order is not None
    rows = torch.randn(17 + cuts.spare_rows, 4, requires_grad=True)
    gradient = torch.randn(17, 4)
    cuts.restore_order(rows).backward(gradient)
    assert rows.grad is not None
    assert torch.equal(rows.grad[:17], gradient[cuts.token_order[:17]])
    assert not rows.grad[17:].any()

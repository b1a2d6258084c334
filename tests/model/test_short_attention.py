"""Attention by groups with its own backward against float64, and against the kernel's accuracy."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from albertine.model.attention import Cuts, attend, rows_for
from albertine.model.short_attention import groups_of, longest
from albertine.model.strip import Strip

HEADS, WIDTH = 3, 48
LONGEST = longest(torch.bfloat16)
RAGGED = [[1], [2], [7, 7, 7], [64], [129, 129], [1, 1, 2, 5, 5, 9, 40], [30, 90, 100, 101, 128, 128]]


def strip_of_lengths(lengths: list[int]) -> Strip:
    tokens = torch.zeros(sum(lengths), dtype=torch.long)
    return Strip(tokens, torch.zeros_like(tokens), torch.tensor([0, *lengths]).cumsum(0))


def one_by_one(qkv: Tensor, lengths: list[int]) -> Tensor:
    """Attend, sequence by sequence, with the kernel."""
    parts = []
    for rows in torch.split(qkv, lengths):
        query, key, value = rows.view(len(rows), 3, HEADS, -1).permute(1, 2, 0, 3)
        parts.append(functional.scaled_dot_product_attention(query[None], key[None], value[None])[0])
    return torch.cat([part.transpose(0, 1).flatten(1) for part in parts])


def error(value: Tensor, exact: Tensor) -> float:
    return float((value.double() - exact).norm() / exact.norm())


@pytest.mark.parametrize("lengths", RAGGED, ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_outputs_and_gradients_are_those_of_float64(lengths: list[int], dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(sum(lengths))
    qkv = torch.randn(sum(lengths), 3 * WIDTH, generator=generator, dtype=torch.float64).to(dtype)
    weight = torch.randn(sum(lengths), WIDTH, generator=generator, dtype=torch.float64).to(dtype)

    def run(precision: torch.dtype, *, kernel: bool) -> list[Tensor]:
        leaf = qkv.to(precision).requires_grad_()
        if kernel:
            out = one_by_one(leaf, lengths)
        else:
            out = attend(leaf, Cuts.of(strip_of_lengths(lengths)), HEADS, 0.0)
        out.backward(weight.to(precision))
        assert leaf.grad is not None
        return [out.detach(), *leaf.grad.split(WIDTH, 1)]

    exact = run(torch.float64, kernel=True)
    ours, kernels = run(dtype, kernel=False), run(dtype, kernel=True)
    least = {torch.bfloat16: 4e-3, torch.float32: 1e-6, torch.float64: 1e-14}[dtype]
    for mine, theirs, right in zip(ours, kernels, exact, strict=True):
        if right.abs().max() > 1e-9:  # over one token nothing depends on query and key
            assert error(mine, right) < max(2 * error(theirs, right), least)
        else:
            assert mine.abs().max() < 1e-6


@pytest.mark.parametrize("grad", [True, False])
def test_long_sequences_lie_beside_short_ones(grad: bool) -> None:
    lengths = [3, 60, LONGEST, LONGEST + 1, LONGEST + 1, LONGEST + 40]
    qkv = torch.randn(sum(lengths), 3 * WIDTH).bfloat16().requires_grad_(grad)
    found = attend(qkv, Cuts.of(strip_of_lengths(lengths)), HEADS, 0.0)
    exact = one_by_one(qkv.detach().double(), lengths)
    assert error(found.detach(), exact) < 4e-3


def test_a_second_derivative_is_refused() -> None:
    qkv = torch.randn(5, 3 * WIDTH, requires_grad=True)
    out = attend(qkv, Cuts.of(strip_of_lengths([2, 3])), HEADS, 0.0)
    with pytest.raises(RuntimeError, match="no second derivative"):
        torch.autograd.grad(out.sum(), qkv, create_graph=True)


def test_what_lengthens_one_sequence_is_seen_by_none() -> None:
    lengths = [5, 9]
    qkv = torch.randn(14, 3 * WIDTH)
    qkv[5:] = float("nan")
    found = attend(qkv.requires_grad_(), Cuts.of(strip_of_lengths(lengths)), HEADS, 0.0)
    assert found[:5].isfinite().all()
    assert found[5:].isnan().all()


@pytest.mark.parametrize("lengths", [[128] * 8, [30, 35, 40, 128]], ids=str)
def test_dropout_leaves_out_so_many_and_has_the_gradient_of_what_it_left(lengths: list[int]) -> None:
    cuts, rate = Cuts.of(strip_of_lengths(lengths)), 0.25
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


@given(st.lists(st.integers(1, LONGEST), max_size=80))
def test_groups_are_all_sequences_in_order_with_little_between(lengths: list[int]) -> None:
    groups = groups_of(Cuts.of(strip_of_lengths(lengths)).blocks)
    coming = iter(sorted(lengths))
    for group in groups:
        own = [next(coming) for _ in range(group.count)]
        assert group.length == max(own)
        assert group.tokens == sum(own)
        assert group.count * group.length - group.tokens <= 64
        if group.places is not None:
            rows = torch.arange(1, group.tokens + 1.0)[:, None]
            back = torch.empty_like(rows)
            group.shortened(group.lengthened(rows), back)
            assert back.equal(rows)
    assert next(coming, None) is None


def test_sequences_of_one_length_are_one_call() -> None:
    (group,) = groups_of(((8, 128),))
    assert group.places is None
    assert len(groups_of(((4, 50), (4, 51), (4, 52), (4, 53)))) == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("lengths", [[5], [3, 5, 5], [3, 700], [700]], ids=str)
def test_spare_rows_are_seen_by_none_and_teach_nothing(lengths: list[int], dtype: torch.dtype) -> None:
    cuts, many = Cuts.of(strip_of_lengths(lengths)), sum(lengths)
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


def test_in_bf16_strips_have_few_numbers_of_rows() -> None:
    numbers = [rows_for(tokens) for tokens in range(1, 4097)]
    assert all(0 <= rows - tokens < max(16, tokens / 16) for tokens, rows in enumerate(numbers, start=1))
    assert len({rows for rows in numbers if rows > 2048}) == 16
    strip = strip_of_lengths([3, 9, 5])
    assert Cuts.of(strip).spare == 0
    assert Cuts.of(strip, torch.bfloat16).spare == 15
    assert Cuts.of(strip_of_lengths([]), torch.bfloat16).spare == 0
    values = torch.arange(32.0).view(32, 1)
    assert Cuts.of(strip, torch.bfloat16).restore(values).flatten().tolist() == [
        *range(3), *range(8, 17), *range(3, 8)
    ]  # fmt: skip


def test_rows_go_back_to_their_tokens_and_gradients_to_their_rows() -> None:
    cuts = Cuts.of(strip_of_lengths([3, 9, 5]), torch.bfloat16)
    assert cuts.order is not None
    rows = torch.randn(17 + cuts.spare, 4, requires_grad=True)
    gradient = torch.randn(17, 4)
    cuts.restore(rows).backward(gradient)
    assert rows.grad is not None
    assert torch.equal(rows.grad[:17], gradient[cuts.order[:17]])
    assert not rows.grad[17:].any()

"""Spare rows change no value, have no gradient, and make row counts repeat."""

from collections.abc import Callable

import pytest
import torch
from tests.model.model_fixtures import strip_of_lengths
from torch import Tensor

from albertine.model.attention import AttentionLayout, attention_by_length
from albertine.model.kernels.short_attention import short_attention
from albertine.model.kernels.spare_rows import add_spare_rows, pad_to_rounded_count, rounded_row_count

HEADS, WIDTH = 3, 48


def layout_with_spare_rows(lengths: list[int]) -> AttentionLayout:
    return add_spare_rows(AttentionLayout.from_strip(strip_of_lengths(lengths)))


@pytest.mark.parametrize("attention", [attention_by_length, short_attention])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("lengths", [[5], [3, 5, 5], [3, 700], [700]], ids=str)
def test_attention_ignores_spare_rows(
    attention: Callable[..., Tensor], lengths: list[int], dtype: torch.dtype
) -> None:
    runs, token_count = layout_with_spare_rows(lengths).length_groups, sum(lengths)
    random_qkv = torch.randn(token_count, 3 * WIDTH).to(dtype)
    qkv_alone, qkv = random_qkv.clone().requires_grad_(), random_qkv.clone().requires_grad_()
    spare_qkv = torch.full((7, 3 * WIDTH), float("nan"), dtype=dtype, requires_grad=True)
    expected = attention(qkv_alone, runs, HEADS, 0.0)
    actual = attention(torch.cat([qkv, spare_qkv]), runs, HEADS, 0.0)
    assert torch.equal(actual[:token_count], expected)
    assert not actual[token_count:].any()
    gradient = torch.randn(token_count, WIDTH).to(dtype)
    expected.backward(gradient)
    actual[:token_count].backward(gradient)
    assert qkv_alone.grad is not None
    assert qkv.grad is not None
    assert torch.equal(qkv_alone.grad, qkv.grad)
    assert spare_qkv.grad is not None
    assert not spare_qkv.grad.any()


@pytest.mark.parametrize("lengths", [[3, 9, 5], [3, 5, 9]], ids=["unsorted", "sorted"])
def test_restore_order_drops_spare_rows(lengths: list[int]) -> None:
    layout, values = layout_with_spare_rows(lengths), torch.arange(17.0).view(17, 1)
    rows = layout.sort(values).requires_grad_()
    assert len(rows) == 32
    restored = layout.restore_order(rows)
    assert torch.equal(restored, values)
    restored.sum().backward()
    assert rows.grad is not None
    assert rows.grad.flatten().tolist() == [1] * 17 + [0] * 15


def test_padded_indices_repeat_row_0() -> None:
    assert pad_to_rounded_count(torch.tensor([4, 2])).tolist() == [4, 2, *[0] * 14]
    assert pad_to_rounded_count(torch.tensor([], dtype=torch.long)).tolist() == []


def test_row_counts_are_few_and_close_to_the_token_counts() -> None:
    row_counts = {tokens: rounded_row_count(tokens) for tokens in range(1, 4097)}
    assert all(0 <= rows - tokens < max(16, tokens / 16) for tokens, rows in row_counts.items())
    assert len({rows for rows in row_counts.values() if rows > 2048}) == 16


def test_round_number_of_tokens_needs_no_spare_rows() -> None:
    for lengths in ([], [16], [8, 24]):
        assert layout_with_spare_rows(lengths).token_indices is None

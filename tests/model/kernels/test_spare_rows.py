"""Spare rows change no value, have no gradient, and leave few row counts."""

from collections.abc import Callable

import pytest
import torch
from tests.model.model_fixtures import strip_of_lengths
from torch import Tensor

from albertine.model.attention import AttentionLayout, attention_by_length
from albertine.model.kernels.short_attention import short_attention
from albertine.model.kernels.spare_rows import add_spare_rows, rounded_row_count

HEADS, WIDTH = 3, 48


def spare_layout(lengths: list[int]) -> AttentionLayout:
    return add_spare_rows(AttentionLayout.from_strip(strip_of_lengths(lengths)))


@pytest.mark.parametrize("attention", [attention_by_length, short_attention])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("lengths", [[5], [3, 5, 5], [3, 700], [700]], ids=str)
def test_attention_ignores_spare_rows(
    attention: Callable[..., Tensor], lengths: list[int], dtype: torch.dtype
) -> None:
    runs, count = spare_layout(lengths).length_runs, sum(lengths)
    rows = torch.randn(count, 3 * WIDTH).to(dtype)
    alone, beside = rows.clone().requires_grad_(), rows.clone().requires_grad_()
    spare = torch.full((7, 3 * WIDTH), float("nan"), dtype=dtype, requires_grad=True)
    expected = attention(alone, runs, HEADS, 0.0)
    found = attention(torch.cat([beside, spare]), runs, HEADS, 0.0)
    assert torch.equal(found[:count], expected)
    assert not found[count:].any()
    gradient = torch.randn(count, WIDTH).to(dtype)
    expected.backward(gradient)
    found[:count].backward(gradient)
    assert alone.grad is not None
    assert beside.grad is not None
    assert torch.equal(alone.grad, beside.grad)
    assert spare.grad is not None
    assert not spare.grad.any()


@pytest.mark.parametrize("lengths", [[3, 9, 5], [3, 5, 9]], ids=["unsorted", "sorted"])
def test_layout_drops_spare_rows_when_it_restores_the_order(lengths: list[int]) -> None:
    layout, values = spare_layout(lengths), torch.arange(17.0).view(17, 1)
    rows = layout.sort(values).requires_grad_()
    assert len(rows) == 32
    restored = layout.restore_order(rows)
    assert torch.equal(restored, values)
    restored.sum().backward()
    assert rows.grad is not None
    assert rows.grad.flatten().tolist() == [1] * 17 + [0] * 15


def test_few_row_counts() -> None:
    counts = [rounded_row_count(tokens) for tokens in range(1, 4097)]
    assert all(0 <= rows - tokens < max(16, tokens / 16) for tokens, rows in enumerate(counts, start=1))
    assert len({rows for rows in counts if rows > 2048}) == 16


def test_a_rounded_number_of_tokens_gets_no_spare_rows() -> None:
    for lengths in ([], [16], [8, 24]):
        assert spare_layout(lengths).token_indices is None

"""The layout of a strip for attention, and plain attention."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.model.model_fixtures import strip_of_lengths
from torch import Tensor

from albertine.model.attention import AttentionLayout, attention_by_length, multi_head_attention
from albertine.model.kernels.short_attention import short_attention

HEADS, WIDTH = 3, 48


def reference_attention(qkv: Tensor, lengths: list[int], *, causal: bool = False) -> Tensor:
    """Return attention computed by its definition, one sequence at a time."""
    contexts = []
    for rows in qkv.split(lengths):
        query, key, value = (
            columns.view(len(rows), HEADS, -1).transpose(0, 1) for columns in rows.split(WIDTH, 1)
        )
        scores = query @ key.transpose(1, 2) / (WIDTH / HEADS) ** 0.5
        if causal:
            is_later = torch.arange(len(rows)) > torch.arange(len(rows))[:, None]
            scores = scores.masked_fill(is_later, float("-inf"))
        weights = scores.softmax(-1)
        contexts.append((weights @ value).transpose(0, 1).flatten(1))
    return torch.cat(contexts)


@given(st.lists(st.integers(0, 9), max_size=12))
def test_layout_sorts_sequences_and_restores_their_order(lengths: list[int]) -> None:
    layout = AttentionLayout.from_strip(strip_of_lengths(lengths))
    values = torch.arange(sum(lengths)).view(-1, 1)
    rows = layout.sort(values)
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    sequences = values.split(lengths) if lengths else ()
    assert torch.equal(rows, torch.cat([values[:0], *(sequences[index] for index in order)]))
    assert torch.equal(layout.restore_order(rows), values)
    assert [length for count, length in layout.length_groups for _ in range(count)] == sorted(
        length for length in lengths if length
    )
    assert layout.offsets.diff().tolist() == sorted(lengths)


def test_layout_of_a_sorted_strip_copies_nothing() -> None:
    layout = AttentionLayout.from_strip(strip_of_lengths([1, 4, 4]))
    values = torch.randn(9, 2)
    assert layout.sort(values) is values
    assert layout.restore_order(values) is values


def test_restore_order_passes_gradients_back_to_their_rows() -> None:
    layout = AttentionLayout.from_strip(strip_of_lengths([3, 9, 5]))
    rows = torch.randn(17, 4, requires_grad=True)
    gradient = torch.randn(17, 4)
    layout.restore_order(rows).backward(gradient)
    assert rows.grad is not None
    assert torch.equal(rows.grad, layout.sort(gradient))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("attention", [attention_by_length, short_attention])
def test_attention_equals_the_definition(attention: Callable[..., Tensor], causal: bool) -> None:
    lengths = [1, 3, 3, 8]
    qkv = torch.randn(15, 3 * WIDTH, dtype=torch.float64, requires_grad=True)
    layout = AttentionLayout.from_strip(strip_of_lengths(lengths))
    actual = attention(qkv, layout.length_groups, HEADS, 0.0, causal=causal)
    expected = reference_attention(qkv, lengths, causal=causal)
    assert torch.allclose(actual, expected, atol=1e-12)
    weight = torch.randn_like(actual)
    actual_gradient, expected_gradient = (
        torch.autograd.grad((output * weight).sum(), qkv)[0] for output in (actual, expected)
    )
    assert torch.allclose(actual_gradient, expected_gradient, atol=1e-12)


def test_rows_after_the_last_sequence_are_zeros() -> None:
    qkv = torch.randn(9, 3 * WIDTH)
    qkv[5:] = float("nan")
    actual = attention_by_length(qkv, ((1, 2), (1, 3)), HEADS, 0.0)
    assert torch.equal(actual[:5], attention_by_length(qkv[:5], ((1, 2), (1, 3)), HEADS, 0.0))
    assert not actual[5:].any()


def test_attention_bias_hides_positions() -> None:
    qkv = torch.randn(2, 7, 3 * WIDTH)
    bias = torch.zeros(2, 1, 1, 7)
    bias[1, ..., 4:] = -torch.inf
    actual = multi_head_attention(qkv, HEADS, 0.0, bias)
    assert torch.allclose(actual[0], reference_attention(qkv[0], [7]), atol=1e-6)
    assert torch.allclose(actual[1, :4], reference_attention(qkv[1, :4], [4]), atol=1e-6)

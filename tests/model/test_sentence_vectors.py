"""Tests of vectors for sequences: each pooling against one sequence at a time."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from albertine.model.sentence_vectors import (
    POOLING_MODES,
    DenseLayer,
    PoolingMode,
    pool,
    pool_rows,
    unit_length,
)
from albertine.model.strip import Strip

STRIP = Strip.from_sequences([[2, 3], [2, 5, 6, 7, 3], [2], [2, 9, 3]])

# What each mode computes from the states of one sequence, [tokens, hidden].
EXPECTED: dict[PoolingMode, Callable[[Tensor], Tensor]] = {
    "cls": lambda states: states[0],
    "lasttoken": lambda states: states[-1],
    "max": lambda states: states.max(0).values,
    "mean": lambda states: states.mean(0),
    "mean_sqrt_len_tokens": lambda states: states.sum(0) / len(states) ** 0.5,
    "weightedmean": lambda states: (
        sum((number * state for number, state in enumerate(states, 1)), torch.zeros(4))
        / sum(range(1, len(states) + 1))
    ),
}


@pytest.mark.parametrize("mode", POOLING_MODES)
def test_pooling_reads_only_the_tokens_of_its_sequence(mode: PoolingMode) -> None:
    hidden = torch.randn(11, 4, generator=torch.Generator().manual_seed(0))
    expected = torch.stack([EXPECTED[mode](states) for states in hidden.split(STRIP.lengths)])
    torch.testing.assert_close(pool(hidden, STRIP, [mode]), expected)


@pytest.mark.parametrize("mode", POOLING_MODES)
def test_padded_rows_are_pooled_as_a_strip_wherever_the_padding_is(mode: PoolingMode) -> None:
    hidden = torch.randn(11, 4, generator=torch.Generator().manual_seed(0))
    mask = torch.tensor([[0, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 0], [0, 0, 0, 1, 0, 0], [1, 0, 1, 1, 0, 0]])
    rows = torch.full((4, 6, 4), 1e3)
    rows[mask.bool()] = hidden
    torch.testing.assert_close(pool_rows(rows, mask, [mode]), pool(hidden, STRIP, [mode]))
    assert pool_rows(rows, torch.zeros_like(mask), [mode, "cls"]).isfinite().all()


def test_several_poolings_are_concatenated_and_summed_in_fp32() -> None:
    hidden = torch.randn(11, 4, generator=torch.Generator().manual_seed(0)).bfloat16()
    vectors = pool(hidden, STRIP, ["mean", "max"])
    assert vectors.dtype == torch.float32
    torch.testing.assert_close(vectors[:, :4], pool(hidden.float(), STRIP, ["mean"]))
    torch.testing.assert_close(vectors[:, 4:], pool(hidden.float(), STRIP, ["max"]))


def test_layers_and_unit_length() -> None:
    vectors = torch.tensor([[3.0, -4.0], [0.0, 0.0]])
    layer = DenseLayer(torch.tensor([[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]]), torch.ones(3), "relu")
    assert layer(vectors).tolist() == [[4.0, 0.0, 0.0], [1.0, 1.0, 1.0]]
    assert unit_length(vectors).tolist() == [[pytest.approx(0.6), pytest.approx(-0.8)], [0.0, 0.0]]

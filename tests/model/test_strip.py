"""The strip: padding, joining and splitting lose nothing, and invalid input is refused."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from albertine.errors import InputError
from albertine.model.strip import Strip

sequences = st.lists(st.lists(st.integers(0, 99), max_size=9), max_size=7)


def make_strip(rows: list[list[int]]) -> Strip:
    return Strip.from_sequences(rows, [[one % 2 for one in row] for row in rows])


def sequence_lists(strip: Strip) -> list[list[int]]:
    return [strip.slice(index, index + 1).tokens.tolist() for index in range(len(strip))]


def are_equal(one: Strip, other: Strip) -> bool:
    return all(
        torch.equal(getattr(one, part), getattr(other, part)) for part in ("tokens", "segments", "offsets")
    )


@given(sequences)
def test_padding_round_trip(rows: list[list[int]]) -> None:
    strip = make_strip(rows)
    ids, mask, types = strip.to_padded(pad_token_id=7)
    assert ids.shape == (len(rows), max(map(len, rows), default=0))
    assert (ids[mask == 0] == 7).all()
    assert are_equal(Strip.from_padded(ids, mask, types), strip)


@given(sequences, st.data())
def test_padding_may_be_anywhere(rows: list[list[int]], data: st.DataObject) -> None:
    strip = make_strip(rows)
    ids, mask, types = strip.to_padded()
    order = torch.tensor(data.draw(st.permutations(range(ids.shape[1]))), dtype=torch.long)
    back = Strip.from_padded(ids[:, order], mask[:, order], types[:, order])
    assert [sorted(row) for row in sequence_lists(back)] == [sorted(row) for row in rows]


@given(st.lists(sequences, max_size=4))
def test_joining_strips_joins_their_sequences(parts: list[list[list[int]]]) -> None:
    joined = Strip.cat([make_strip(part) for part in parts])
    assert are_equal(joined, make_strip([row for part in parts for row in part]))


@given(sequences, st.integers(9, 30))
def test_splitting_keeps_all_and_each_part_within_the_budget(rows: list[list[int]], budget: int) -> None:
    strip = make_strip(rows)
    parts = list(strip.split(budget))
    assert all(len(part) > 0 and len(part.tokens) <= budget for part in parts)
    assert are_equal(Strip.cat(parts), strip)
    for one, other in pairwise(parts):
        assert len(one.tokens) + other.lengths[0] > budget


@given(sequences)
def test_positions_count_within_each_sequence(rows: list[list[int]]) -> None:
    assert make_strip(rows).positions.tolist() == [place for row in rows for place in range(len(row))]


def test_values_of_any_shape_are_padded() -> None:
    strip = Strip.from_sequences([[1, 2], [3]])
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    padded = strip.pad(values, fill=-1)
    assert padded.tolist() == [[[1, 2], [3, 4]], [[5, 6], [-1, -1]]]


def test_split_refuses_a_too_long_sequence() -> None:
    with pytest.raises(InputError, match="sequence 1 has 3 tokens, more than the budget of 2"):
        list(Strip.from_sequences([[1], [1, 2, 3]]).split(2))


@pytest.mark.parametrize("offsets", [[0, 2], [1, 3], [0, 2, 1, 3], [[0, 3]], [0.0, 3.0], []])
def test_offsets_that_do_not_fit_are_refused(offsets: list[int]) -> None:
    with pytest.raises(InputError, match="offsets must rise from 0 to 3"):
        Strip(torch.ones(3, dtype=torch.long), torch.zeros(3, dtype=torch.long), torch.tensor(offsets))


def test_shapes_that_do_not_fit_are_refused() -> None:
    ones = torch.ones(2, 3, dtype=torch.long)
    with pytest.raises(InputError, match=r"attention_mask must be \[2, 3\]"):
        Strip.from_padded(ones, ones[:, :2])
    with pytest.raises(InputError, match="must be \\[batch, length\\]"):
        Strip.from_padded(ones[0])
    with pytest.raises(InputError, match="as many segments as tokens"):
        Strip.from_sequences([[1, 2]], [[0]])


def test_empty_sequence_has_no_cls() -> None:
    with pytest.raises(InputError, match="sequence 1 is empty"):
        _ = Strip.from_sequences([[1], []]).cls_indices


def test_a_mask_of_anything_but_ones_and_zeros_is_refused() -> None:
    ones = torch.ones(1, 3, dtype=torch.long)
    with pytest.raises(InputError, match="attention_mask must be 1 at tokens and 0 at padding"):
        Strip.from_padded(ones, torch.tensor([[0.0, 0.0, -1e4]]))


@pytest.mark.parametrize(("start", "stop"), [(-2, 1), (1, 9), (2, 1)])
def test_a_slice_outside_the_strip_is_refused(start: int, stop: int) -> None:
    with pytest.raises(InputError, match="are not all among the 3 of this strip"):
        Strip.from_sequences([[1], [2], [3]]).slice(start, stop)

"""The strip: padding, concatenation and splitting lose nothing, and invalid input is refused."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from albertine.errors import InputError
from albertine.model.strip import Strip

Sequences = list[list[int]]
any_sequences = st.lists(st.lists(st.integers(0, 99), max_size=9), max_size=7)


def make_strip(sequences: Sequences) -> Strip:
    return Strip.from_sequences(sequences, [[token % 2 for token in tokens] for tokens in sequences])


def sequences_of(strip: Strip) -> Sequences:
    return [strip.slice(index, index + 1).tokens.tolist() for index in range(len(strip))]


def are_equal(actual: Strip, expected: Strip) -> bool:
    return all(
        torch.equal(getattr(actual, name), getattr(expected, name))
        for name in ("tokens", "segments", "offsets")
    )


@given(any_sequences)
def test_padding_round_trip(sequences: Sequences) -> None:
    strip = make_strip(sequences)
    ids, mask, segments = strip.to_padded(pad_token_id=7)
    assert ids.shape == (len(sequences), max(map(len, sequences), default=0))
    assert (ids[mask == 0] == 7).all()
    assert are_equal(Strip.from_padded(ids, mask, segments), strip)


@given(any_sequences, st.data())
def test_padding_may_be_anywhere(sequences: Sequences, data: st.DataObject) -> None:
    ids, mask, segments = make_strip(sequences).to_padded()
    order = torch.tensor(data.draw(st.permutations(range(ids.shape[1]))), dtype=torch.long)
    permuted = Strip.from_padded(ids[:, order], mask[:, order], segments[:, order])
    assert [sorted(tokens) for tokens in sequences_of(permuted)] == [sorted(tokens) for tokens in sequences]


@given(st.lists(any_sequences, max_size=4))
def test_concatenated_strips_have_all_sequences(batches: list[Sequences]) -> None:
    concatenated = Strip.cat([make_strip(sequences) for sequences in batches])
    assert are_equal(concatenated, make_strip([tokens for sequences in batches for tokens in sequences]))


@given(any_sequences, st.integers(9, 30))
def test_split_strips_are_full_and_within_the_budget(sequences: Sequences, budget: int) -> None:
    strip = make_strip(sequences)
    parts = list(strip.split(budget))
    assert all(len(part) > 0 and len(part.tokens) <= budget for part in parts)
    assert are_equal(Strip.cat(parts), strip)
    for part, following in pairwise(parts):
        assert len(part.tokens) + following.lengths[0] > budget


@given(any_sequences)
def test_positions_count_within_each_sequence(sequences: Sequences) -> None:
    expected = [position for tokens in sequences for position in range(len(tokens))]
    assert make_strip(sequences).positions.tolist() == expected


def test_values_of_any_shape_are_padded() -> None:
    strip = Strip.from_sequences([[1, 2], [3]])
    values = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    padded = strip.pad(values, fill=-1)
    assert padded.tolist() == [[[1, 2], [3, 4]], [[5, 6], [-1, -1]]]


def test_split_refuses_a_sequence_longer_than_the_budget() -> None:
    with pytest.raises(InputError, match="sequence 1 has 3 tokens, more than the budget of 2"):
        list(Strip.from_sequences([[1], [1, 2, 3]]).split(2))


@pytest.mark.parametrize("offsets", [[0, 2], [1, 3], [0, 2, 1, 3], [[0, 3]], [0.0, 3.0], []])
def test_invalid_offsets_are_refused(offsets: list[int]) -> None:
    with pytest.raises(InputError, match="offsets must start at 0, never decrease and end at 3"):
        Strip(torch.ones(3, dtype=torch.long), torch.zeros(3, dtype=torch.long), torch.tensor(offsets))


def test_inconsistent_shapes_are_refused() -> None:
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


def test_mask_with_other_values_than_1_and_0_is_refused() -> None:
    ones = torch.ones(1, 3, dtype=torch.long)
    with pytest.raises(InputError, match="attention_mask must be 1 at tokens and 0 at padding"):
        Strip.from_padded(ones, torch.tensor([[0.0, 0.0, -1e4]]))


@pytest.mark.parametrize(("start", "stop"), [(-2, 1), (1, 9), (2, 1)])
def test_a_slice_outside_the_strip_is_refused(start: int, stop: int) -> None:
    with pytest.raises(InputError, match="is out of range for a strip of 3 sequences"):
        Strip.from_sequences([[1], [2], [3]]).slice(start, stop)


@given(any_sequences, st.data())
def test_selected_sequences(sequences: Sequences, data: st.DataObject) -> None:
    strip = make_strip(sequences)
    indices = data.draw(
        st.lists(st.integers(0, len(sequences) - 1), max_size=7) if sequences else st.just([])
    )
    selected, tokens = strip.select(torch.tensor(indices, dtype=torch.long))
    assert are_equal(selected, make_strip([sequences[index] for index in indices]))
    assert torch.equal(strip.tokens[tokens], selected.tokens)
    starts = strip.offsets[:-1][indices].tolist()
    expected = [
        start + position
        for start, index in zip(starts, indices, strict=True)
        for position in range(len(sequences[index]))
    ]
    assert tokens.tolist() == expected

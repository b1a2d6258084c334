"""Tests of the marks of tokens that both texts of a pair have."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.model.model_fixtures import SMALL, random_strip
from tests.model.test_padded import make_model

from albertine.model.match_marks import matches_in_rows, matches_in_strip
from albertine.model.model import Model
from albertine.model.parameter_counts import count_parameters
from albertine.model.strip import Strip
from albertine.settings import ModelSettings, SettingError

MARKED = replace(SMALL, mark_matches=True)


def expected_marks(strip: Strip) -> list[bool]:
    """Return the marks of a strip, computed one token at a time."""
    marks, stop = [], 0
    for length in strip.lengths:
        start, stop = stop, stop + length
        pairs = list(zip(strip.tokens[start:stop].tolist(), strip.segments[start:stop].tolist(), strict=True))
        marks += [(token, 1 - segment) in pairs for token, segment in pairs]
    return marks


@given(st.lists(st.integers(1, 16), min_size=1, max_size=6), st.integers(0, 1_000))
def test_marks_are_those_of_a_loop(lengths: list[int], seed: int) -> None:
    strip = random_strip(lengths, seed)
    tokens = strip.tokens % 7  # so that texts have tokens in common
    strip = Strip(tokens, strip.segments, torch.tensor([0, *lengths]).cumsum(0))
    expected = expected_marks(strip)
    assert matches_in_strip(strip, SMALL.vocab_size).tolist() == expected
    # All sequences in one row, as in a packed export.
    sequence_ids = (strip.positions == 0).cumsum(0)
    is_visible = sequence_ids[:, None] == sequence_ids
    in_rows = matches_in_rows(strip.tokens[None], strip.segments[None], is_visible[None])
    assert in_rows[0].tolist() == expected


def test_tokens_of_other_sequences_are_no_matches() -> None:
    """The largest token of a sequence has the number after it, which is token 0 of the next."""
    last = SMALL.vocab_size - 1
    tokens, segments = torch.tensor([last, 0, 0, last]), torch.tensor([0, 1, 0, 1])
    strip = Strip(tokens, segments, torch.tensor([0, 2, 4]))
    assert not matches_in_strip(strip, SMALL.vocab_size).any()


def test_a_new_vector_changes_nothing_and_a_trained_one_only_sequences_with_matches() -> None:
    tokens = torch.tensor([1, 5, 2, 5, 2, 1, 6, 2, 7, 3])
    strip = Strip(tokens, torch.tensor([0, 0, 0, 1, 1] * 2), torch.tensor([0, 5, 10]))
    plain, marked = Model(SMALL, seed=1).eval(), Model(MARKED, seed=1).eval()
    with torch.no_grad():
        before = plain.encoder(strip)
        assert torch.equal(marked.encoder(strip), before)
        assert marked.encoder.embedding.match is not None
        marked.encoder.embedding.match.normal_()
        after = marked.encoder(strip)
    assert (after[:5] - before[:5]).abs().max() > 0.1
    assert torch.equal(after[5:], before[5:])


def test_the_vector_is_counted_and_trained() -> None:
    assert count_parameters(MARKED).total == count_parameters(SMALL).total + SMALL.embedding_size
    model = make_model(MARKED)
    model.encoder(random_strip([16, 12])).square().sum().backward()
    assert model.encoder.embedding.match is not None
    assert model.encoder.embedding.match.grad is not None
    assert model.encoder.embedding.match.grad.abs().max() > 0


def test_one_segment_is_refused() -> None:
    with pytest.raises(SettingError, match="mark_matches"):
        ModelSettings(segments=1, mark_matches=True)

"""Tests of packed rows: every token has its place, and the rows waste little."""

from dataclasses import replace

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.model.model_fixtures import SMALL, random_strip
from tests.model.test_padded import HEADS, make_model

from albertine.engines.packed_rows import pack_rows
from albertine.model.padded import PaddedModel


@given(lengths=st.lists(st.integers(1, 200), max_size=40))
def test_every_sequence_has_its_own_number_in_a_row(lengths: list[int]) -> None:
    strip = random_strip(lengths)
    rows = pack_rows(strip)
    ids, mask = (rows.inputs[name].reshape(-1) for name in ("input_ids", "attention_mask"))
    assert np.array_equal(ids[rows.token_indices.numpy()], strip.tokens.numpy())
    assert len(set(rows.token_indices.tolist())) == len(strip.tokens)
    assert (mask != 0).sum() == len(strip.tokens)
    width = rows.inputs["attention_mask"].shape[1]
    keys = {(index // width, mask[index]) for index in rows.first_indices.tolist()}
    assert len(keys) == len(strip)
    for first, length in zip(rows.first_indices.tolist(), lengths, strict=True):
        assert first % width + length <= width
        assert (mask[first : first + length] == mask[first]).all()


def test_short_sequences_leave_little_padding() -> None:
    lengths = np.random.default_rng(0).integers(4, 50, 80).tolist()
    rows = pack_rows(random_strip(lengths)).inputs["attention_mask"]
    assert max(lengths) <= rows.shape[1] < max(lengths) + 8
    assert (rows != 0).mean() > 0.9


def test_short_sequences_share_a_row() -> None:
    mask = pack_rows(random_strip([5, 8, 2, 1])).inputs["attention_mask"]
    assert mask.tolist() == [[1] * 8, [1] * 5 + [2] * 2 + [3]]


def test_rows_have_few_different_lengths() -> None:
    widths = {pack_rows(random_strip([length])).inputs["input_ids"].shape[1] for length in range(1, 513)}
    assert len(widths) == 8 + 4 + 4 + 12


def test_many_sequences_of_about_one_length_have_hardly_any_padding() -> None:
    rows = pack_rows(random_strip([29] * 4 + [28] * 16)).inputs["attention_mask"]
    assert rows.shape == (20, 29)
    few = pack_rows(random_strip([29] * 4)).inputs["attention_mask"]
    assert few.shape == (4, 32)
    mixed = pack_rows(random_strip([29] * 20 + [3])).inputs["attention_mask"]
    assert mixed.shape == (20, 32)  # the short one shares a row


def test_an_empty_strip_has_no_rows() -> None:
    assert pack_rows(random_strip([])).inputs["input_ids"].shape == (0, 0)


@torch.no_grad()
def test_packed_rows_have_the_hidden_states_of_the_strip() -> None:
    for variant in (SMALL, replace(SMALL, norm_first=True, rotary=True)):
        model, strip = make_model(variant, HEADS["token"]), random_strip([7, 12, 3, 12, 1, 16, 4])
        rows = pack_rows(strip)
        inputs = [torch.from_numpy(values) for values in rows.inputs.values()]
        hidden = PaddedModel(model).hidden(*inputs).flatten(0, 1)[rows.token_indices]
        assert (hidden - model.encoder(strip)).abs().max() < 1e-5

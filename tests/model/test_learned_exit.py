"""The exit unit: probabilities of the exits, their divergence from the prior, and its start."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.model.model_fixtures import SMALL, random_strip

from albertine.errors import InputError
from albertine.model.learned_exit import (
    divergence_from_prior,
    exit_log_probabilities,
    prior_log_probabilities,
)
from albertine.model.model import Model
from albertine.settings import HeadSettings

HEAD = HeadSettings("classify", labels=3, exits="shared", learned_exit=True)


@given(st.lists(st.floats(-200, 200), min_size=1, max_size=12), st.floats(0.01, 0.99))
def test_probabilities_sum_to_one(logits: list[float], stop_probability: float) -> None:
    log_probabilities = exit_log_probabilities(torch.tensor(logits, dtype=torch.float64)[:, None])
    assert log_probabilities.shape == (len(logits) + 1, 1)
    assert float(log_probabilities.exp().sum()) == pytest.approx(1)
    divergence = divergence_from_prior(log_probabilities, stop_probability)
    assert math.isfinite(float(divergence))
    assert float(divergence) > -1e-9


def test_the_divergence_is_that_computed_by_hand() -> None:
    stops = [0.2, 0.5]
    exits = [0.2, 0.8 * 0.5, 0.8 * 0.5]
    geometric = [0.3, 0.7 * 0.3, 0.7 * 0.7 * 0.3]
    prior = [one / sum(geometric) for one in geometric]
    expected = sum(p * math.log(p / q) for p, q in zip(exits, prior, strict=True))
    log_probabilities = exit_log_probabilities(torch.logit(torch.tensor(stops))[:, None].expand(2, 4))
    assert torch.allclose(log_probabilities[:, 3].exp(), torch.tensor(exits))
    assert prior_log_probabilities(3, 0.3).exp().tolist() == pytest.approx(prior)
    assert torch.allclose(divergence_from_prior(log_probabilities, 0.3), torch.full((4,), expected))
    same = torch.tensor(prior).log()[:, None]
    assert float(divergence_from_prior(same, 0.3)) == pytest.approx(0, abs=1e-6)


def test_a_new_unit_stops_with_the_probability_that_it_starts_at() -> None:
    model = Model(replace(SMALL, layers=4), HEAD, seed=1)
    assert model.exit_unit is not None
    assert not model.exit_unit.out.bias.any()
    model.exit_unit.start_at(0.1)
    with torch.no_grad():
        _, stop_logits = model.learned_exit_outputs(random_strip([5, 2, 9]), None)
    assert torch.allclose(torch.sigmoid(stop_logits), torch.tensor(0.1), atol=0.05)


def test_the_unit_does_not_change_other_weights() -> None:
    model, plain = (
        Model(replace(SMALL, layers=4), replace(HEAD, learned_exit=learned), seed=1)
        for learned in (True, False)
    )
    for name, parameter in plain.named_parameters():
        assert torch.equal(model.get_parameter(name), parameter)


def test_one_layer_is_refused() -> None:
    with pytest.raises(InputError, match="learned_exit: needs at least 2 layers"):
        Model(replace(SMALL, layers=1), HEAD)

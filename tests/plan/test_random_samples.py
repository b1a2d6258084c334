"""Samples of random tokens are like those of a run."""

import pytest

from albertine.plan.random_samples import RandomSamples


@pytest.mark.parametrize("length", [16, 64, 512, 4096])
def test_samples_have_the_lengths_and_masks_of_a_run(length: int) -> None:
    batch = RandomSamples(length, 0.25, 50).batch(200)
    lengths = batch.strip.lengths
    assert len(lengths) == 200
    assert max(lengths) == length
    assert 0.8 * length < sum(lengths) / 200 < length  # some are shorter
    assert len(set(lengths)) > 1
    assert 0.2 < len(batch.targets.masked.labels) / sum(lengths) < 0.3
    assert batch.strip.tokens.max() < 50


def test_short_samples_take_more_time_per_token() -> None:
    short, long = (RandomSamples(length, 0.15, 1000).drawing_seconds() for length in (32, 512))
    assert short > 2 * long > 0


def test_examples_of_a_fine_tuning_may_be_shorter() -> None:
    assert max(RandomSamples(3, 0.15, 50).batch(20).strip.lengths) == 8

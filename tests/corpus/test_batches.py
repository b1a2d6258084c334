"""Batches: full strips, the same samples for any number of ranks and workers, and exact resumption."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from albertine.corpus.batches import Batch, Batches, Position
from albertine.corpus.corpus import Corpus
from albertine.corpus.samples import Sampler
from albertine.corpus.settings import Objective
from albertine.errors import InputError

BUDGET = 400


@pytest.fixture(scope="module", params=["sop", "nsp"])
def sampler(request: pytest.FixtureRequest, corpus: Corpus) -> Sampler:
    return Sampler(corpus, Objective(pair=request.param, max_length=64))


def taken(sampler: Sampler, count: int, **asked: Any) -> list[Batch]:
    return list(itertools.islice(Batches(sampler, BUDGET, **asked), count))


def sequences(batch: Batch) -> list[tuple[int, ...]]:
    return [tuple(one.tolist()) for one in batch.strip.tokens.split(batch.strip.lengths)]


def equal(one: Batch, other: Batch) -> bool:
    pairs = [
        (one.strip.tokens, other.strip.tokens),
        (one.strip.types, other.strip.types),
        (one.strip.offsets, other.strip.offsets),
        (one.targets.masked.at, other.targets.masked.at),
        (one.targets.masked.pieces, other.targets.masked.pieces),
        (one.targets.pair, other.targets.pair),
    ]
    return one.samples == other.samples and all(torch.equal(a, b) for a, b in pairs)


def test_samples_come_in_order_and_fill_the_strip(sampler: Sampler) -> None:
    batches = taken(sampler, 30)
    rows = [row for batch in batches for row in sequences(batch)]
    drawn = sampler.draw(np.arange(len(rows)))
    assert rows == [tuple(sample.tokens.tolist()) for sample in drawn]
    for batch in batches:
        assert BUDGET - 64 < sum(batch.strip.lengths) <= BUDGET or sampler.objective.pair == "nsp"
        assert sum(batch.strip.lengths) <= BUDGET
        assert batch.samples == len(batch.strip)
    at = 0
    for batch in batches:
        masked = torch.cat([torch.from_numpy(sample.masked) for sample in drawn[at : at + len(batch.strip)]])
        assert len(masked) == len(batch.targets.masked.at)
        for sample, start in zip(drawn[at:], batch.strip.offsets[:-1].tolist(), strict=False):
            inside = batch.targets.masked.at - start
            mine = inside[(inside >= 0) & (inside < len(sample))]
            assert mine.tolist() == sample.masked.tolist()
        assert batch.targets.pair.tolist() == [one.label for one in drawn[at : at + len(batch.strip)]]
        at += len(batch.strip)


@pytest.mark.parametrize("pool", [1, 4])
@pytest.mark.parametrize("ranks", [2, 3, 6])
def test_the_union_over_ranks_does_not_depend_on_how_many_there_are(
    sampler: Sampler, ranks: int, pool: int
) -> None:
    alone = taken(sampler, 12, pool=pool)
    shares = [taken(sampler, 12, pool=pool, rank=rank, ranks=ranks) for rank in range(ranks)]
    for step, whole in enumerate(alone):
        together = [row for rank in range(ranks) for row in sequences(shares[rank][step])]
        assert together == sequences(whole)
        for rank in range(ranks):
            assert shares[rank][step].samples == whole.samples
            assert sum(shares[rank][step].strip.lengths) <= BUDGET / ranks + 64


@pytest.mark.parametrize("pool", [1, 5])
@pytest.mark.parametrize("workers", [0, 2])
def test_from_any_position_it_goes_on_exactly(sampler: Sampler, pool: int, workers: int) -> None:
    whole = taken(sampler, 20, pool=pool)
    batches = Batches(sampler, BUDGET, pool=pool, workers=workers)
    for number, batch in enumerate(itertools.islice(batches, 13)):
        assert equal(batch, whole[number])
    # Workers are ahead of what was handed out; the position is not.
    position = Position(**vars(batches.position))
    going_on = taken(sampler, 7, pool=pool, position=position, workers=workers)
    assert all(equal(one, other) for one, other in zip(going_on, whole[13:], strict=True))


@pytest.mark.parametrize("pool", [1, 3])
def test_once_is_every_sample_of_an_epoch(sampler: Sampler, pool: int) -> None:
    rows = [row for batch in Batches(sampler, BUDGET, once=True, pool=pool) for row in sequences(batch)]
    drawn = sampler.draw(np.arange(len(sampler)))
    assert sorted(rows) == sorted(tuple(sample.tokens.tolist()) for sample in drawn)
    if pool == 1:
        second = Batches(sampler, BUDGET, once=True, position=Position(len(sampler)))
        again = [row for batch in second for row in sequences(batch)]
        assert len(again) == len(rows)
        assert again != rows


def test_a_pool_deals_out_by_length(sampler: Sampler) -> None:
    def spread(batches: list[Batch]) -> float:
        return float(np.mean([np.ptp(batch.strip.lengths) for batch in batches]))

    plain, pooled = taken(sampler, 60), taken(sampler, 60, pool=20)
    assert spread(pooled) < 0.7 * spread(plain)
    assert all(sum(batch.strip.lengths) <= BUDGET for batch in pooled)


def test_a_budget_that_holds_no_sample_is_refused(sampler: Sampler) -> None:
    with pytest.raises(InputError, match="batch_tokens = 63: must hold a sample of max_length = 64"):
        Batches(sampler, 63)
    with pytest.raises(InputError, match="for each of 4 ranks"):
        Batches(sampler, 100, ranks=4)

"""Batches: full strips, samples that do not depend on ranks or workers, and exact resuming."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from albertine.corpus.batches import Batch, BatchLoader, DataPosition
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.settings import ObjectiveSettings
from albertine.errors import InputError

BATCH_TOKENS = 400


@pytest.fixture(scope="module", params=["sop", "nsp"])
def dataset(request: pytest.FixtureRequest, corpus: Corpus) -> PretrainDataset:
    return PretrainDataset(corpus, ObjectiveSettings(pair=request.param, max_length=64))


def take_batches(dataset: PretrainDataset, count: int, **options: Any) -> list[Batch]:
    return list(itertools.islice(BatchLoader(dataset, BATCH_TOKENS, **options), count))


def sequences(batch: Batch) -> list[tuple[int, ...]]:
    return [tuple(one.tolist()) for one in batch.strip.tokens.split(batch.strip.lengths)]


def equal_batches(one: Batch, other: Batch) -> bool:
    pairs = [
        (one.strip.tokens, other.strip.tokens),
        (one.strip.segments, other.strip.segments),
        (one.strip.offsets, other.strip.offsets),
        (one.targets.masked.indices, other.targets.masked.indices),
        (one.targets.masked.labels, other.targets.masked.labels),
        (one.targets.pair_labels, other.targets.pair_labels),
    ]
    return one.step_samples == other.step_samples and all(torch.equal(a, b) for a, b in pairs)


def test_samples_are_in_order_and_fill_the_strip(dataset: PretrainDataset) -> None:
    batches = take_batches(dataset, 30)
    rows = [row for batch in batches for row in sequences(batch)]
    drawn = dataset.draw(np.arange(len(rows)))
    assert rows == [tuple(sample.tokens.tolist()) for sample in drawn]
    for batch in batches:
        assert BATCH_TOKENS - 64 < sum(batch.strip.lengths) <= BATCH_TOKENS or dataset.objective.pair == "nsp"
        assert sum(batch.strip.lengths) <= BATCH_TOKENS
        assert batch.step_samples == len(batch.strip)
    at = 0
    for batch in batches:
        masked = torch.cat(
            [torch.from_numpy(sample.masked_positions) for sample in drawn[at : at + len(batch.strip)]]
        )
        assert len(masked) == len(batch.targets.masked.indices)
        for sample, start in zip(drawn[at:], batch.strip.offsets[:-1].tolist(), strict=False):
            inside = batch.targets.masked.indices - start
            mine = inside[(inside >= 0) & (inside < len(sample))]
            assert mine.tolist() == sample.masked_positions.tolist()
        assert batch.targets.pair_labels.tolist() == [
            one.pair_label for one in drawn[at : at + len(batch.strip)]
        ]
        at += len(batch.strip)


@pytest.mark.parametrize("pool", [1, 4])
@pytest.mark.parametrize("world_size", [2, 3, 6])
def test_union_over_ranks_is_independent_of_world_size(
    dataset: PretrainDataset, world_size: int, pool: int
) -> None:
    alone = take_batches(dataset, 12, pool_size=pool)
    shares = [
        take_batches(dataset, 12, pool_size=pool, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    for step, whole in enumerate(alone):
        together = [row for rank in range(world_size) for row in sequences(shares[rank][step])]
        assert together == sequences(whole)
        for rank in range(world_size):
            assert shares[rank][step].step_samples == whole.step_samples
            assert sum(shares[rank][step].strip.lengths) <= BATCH_TOKENS / world_size + 64


@pytest.mark.parametrize("pool", [1, 5])
@pytest.mark.parametrize("workers", [0, 2])
def test_resumes_exactly_from_any_position(dataset: PretrainDataset, pool: int, workers: int) -> None:
    whole = take_batches(dataset, 20, pool_size=pool)
    batches = BatchLoader(dataset, BATCH_TOKENS, pool_size=pool, workers=workers)
    for number, batch in enumerate(itertools.islice(batches, 13)):
        assert equal_batches(batch, whole[number])
    # Workers prefetch batches; the position counts only those returned.
    position = DataPosition(**vars(batches.position))
    resumed = take_batches(dataset, 7, pool_size=pool, position=position, workers=workers)
    assert all(equal_batches(one, other) for one, other in zip(resumed, whole[13:], strict=True))


@pytest.mark.parametrize("pool", [1, 3])
def test_single_epoch_has_every_sample(dataset: PretrainDataset, pool: int) -> None:
    rows = [
        row
        for batch in BatchLoader(dataset, BATCH_TOKENS, single_epoch=True, pool_size=pool)
        for row in sequences(batch)
    ]
    drawn = dataset.draw(np.arange(len(dataset)))
    assert sorted(rows) == sorted(tuple(sample.tokens.tolist()) for sample in drawn)
    if pool == 1:
        second = BatchLoader(dataset, BATCH_TOKENS, single_epoch=True, position=DataPosition(len(dataset)))
        again = [row for batch in second for row in sequences(batch)]
        assert len(again) == len(rows)
        assert again != rows


def test_pool_groups_samples_by_length(dataset: PretrainDataset) -> None:
    def spread(batches: list[Batch]) -> float:
        return float(np.mean([np.ptp(batch.strip.lengths) for batch in batches]))

    plain, pooled = take_batches(dataset, 60), take_batches(dataset, 60, pool_size=20)
    assert spread(pooled) < 0.7 * spread(plain)
    assert all(sum(batch.strip.lengths) <= BATCH_TOKENS for batch in pooled)


def test_batch_tokens_below_one_sample_is_refused(dataset: PretrainDataset) -> None:
    with pytest.raises(InputError, match="batch_tokens = 63: must hold a sample of max_length = 64"):
        BatchLoader(dataset, 63)
    with pytest.raises(InputError, match="for each of 4 ranks"):
        BatchLoader(dataset, 100, world_size=4)

"""Batches: full strips, samples that do not depend on ranks or workers, and exact resuming."""

import itertools
import multiprocessing
import shutil
from pathlib import Path
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


def first_batches(dataset: PretrainDataset, count: int, **options: Any) -> list[Batch]:
    return list(itertools.islice(BatchLoader(dataset, BATCH_TOKENS, **options), count))


def sequences(batch: Batch) -> list[tuple[int, ...]]:
    return [tuple(tokens.tolist()) for tokens in batch.strip.tokens.split(batch.strip.lengths)]


def equal_batches(a: Batch, b: Batch) -> bool:
    pairs = [
        (a.strip.tokens, b.strip.tokens),
        (a.strip.segments, b.strip.segments),
        (a.strip.offsets, b.strip.offsets),
        (a.targets.masked.indices, b.targets.masked.indices),
        (a.targets.masked.labels, b.targets.masked.labels),
        (a.targets.pair_labels, b.targets.pair_labels),
    ]
    counts = [(batch.step_samples, batch.causal_samples) for batch in (a, b)]
    return counts[0] == counts[1] and all(torch.equal(*pair) for pair in pairs)


def test_samples_are_in_order_and_fill_the_strip(dataset: PretrainDataset) -> None:
    batches = first_batches(dataset, 30)
    found = [sequence for batch in batches for sequence in sequences(batch)]
    samples = dataset.draw(np.arange(len(found)))
    assert found == [tuple(sample.tokens.tolist()) for sample in samples]
    for batch in batches:
        assert BATCH_TOKENS - 64 < sum(batch.strip.lengths) <= BATCH_TOKENS or dataset.objective.pair == "nsp"
        assert sum(batch.strip.lengths) <= BATCH_TOKENS
        assert batch.step_samples == len(batch.strip)
    remaining = samples
    for batch in batches:
        batch_samples, remaining = remaining[: len(batch.strip)], remaining[len(batch.strip) :]
        masked_count = sum(len(sample.masked_positions) for sample in batch_samples)
        assert masked_count == len(batch.targets.masked.indices)
        for sample, offset in zip(batch_samples, batch.strip.offsets[:-1].tolist(), strict=True):
            positions = batch.targets.masked.indices - offset
            inside = positions[(positions >= 0) & (positions < len(sample))]
            assert inside.tolist() == sample.masked_positions.tolist()
        assert batch.targets.pair_labels.tolist() == [sample.pair_label for sample in batch_samples]


@pytest.mark.parametrize("pool_size", [1, 4])
@pytest.mark.parametrize("world_size", [2, 3, 6])
def test_union_over_ranks_is_independent_of_world_size(
    dataset: PretrainDataset, world_size: int, pool_size: int
) -> None:
    one_rank = first_batches(dataset, 12, pool_size=pool_size)
    many_ranks = [
        first_batches(dataset, 12, pool_size=pool_size, rank=rank, world_size=world_size)
        for rank in range(world_size)
    ]
    for whole, *parts in zip(one_rank, *many_ranks, strict=True):
        assert [sequence for part in parts for sequence in sequences(part)] == sequences(whole)
        for part in parts:
            assert part.step_samples == whole.step_samples
            assert sum(part.strip.lengths) <= BATCH_TOKENS / world_size + 64


@pytest.mark.parametrize("pool_size", [1, 5])
@pytest.mark.parametrize("workers", [0, 2])
def test_resumes_exactly_from_a_position(dataset: PretrainDataset, pool_size: int, workers: int) -> None:
    expected = first_batches(dataset, 20, pool_size=pool_size)
    loader = BatchLoader(dataset, BATCH_TOKENS, pool_size=pool_size, workers=workers)
    for number, batch in enumerate(itertools.islice(loader, 13)):
        assert equal_batches(batch, expected[number])
    # Workers prefetch batches; the position counts only those yielded.
    position = DataPosition(**vars(loader.position))
    resumed = first_batches(dataset, 7, pool_size=pool_size, position=position, workers=workers)
    assert all(map(equal_batches, resumed, expected[13:]))
    assert len(resumed) == 7


@pytest.mark.slow
@pytest.mark.parametrize("pool_size", [1, 3])
def test_single_epoch_has_every_sample(dataset: PretrainDataset, pool_size: int) -> None:
    def epoch(**options: Any) -> list[tuple[int, ...]]:
        loader = BatchLoader(dataset, BATCH_TOKENS, single_epoch=True, **options)
        return [sequence for batch in loader for sequence in sequences(batch)]

    first_epoch = epoch(pool_size=pool_size)
    samples = dataset.draw(np.arange(len(dataset)))
    assert sorted(first_epoch) == sorted(tuple(sample.tokens.tolist()) for sample in samples)
    if pool_size == 1:
        second_epoch = epoch(position=DataPosition(len(dataset)))
        assert len(second_epoch) == len(first_epoch)
        assert second_epoch != first_epoch


def test_pool_groups_samples_by_length(dataset: PretrainDataset) -> None:
    def mean_length_range(batches: list[Batch]) -> float:
        return float(np.mean([np.ptp(batch.strip.lengths) for batch in batches]))

    unpooled, pooled = first_batches(dataset, 60), first_batches(dataset, 60, pool_size=20)
    # For next-sentence prediction, the pool knows the lengths before the second segments are cut.
    limit = 0.9 if dataset.objective.pair == "nsp" else 0.7
    assert mean_length_range(pooled) < limit * mean_length_range(unpooled)
    assert all(sum(batch.strip.lengths) <= BATCH_TOKENS for batch in pooled)


def test_batch_tokens_below_one_sample_is_refused(dataset: PretrainDataset) -> None:
    with pytest.raises(InputError, match="batch_tokens = 63: must hold a sample of max_length = 64"):
        BatchLoader(dataset, 63)
    with pytest.raises(InputError, match="for each of 4 ranks"):
        BatchLoader(dataset, 100, world_size=4)


def test_an_error_in_a_worker_is_one_line(corpus: Corpus, tmp_path: Path) -> None:
    shutil.copytree(corpus.folder, tmp_path / "copy")
    file = tmp_path / "copy" / "train-00000.arrow"
    (shard,) = corpus.shards("train")
    content = file.read_bytes()
    start = content.index(shard.tokens[:200].tobytes())
    file.write_bytes(content[:start] + b"\xff" * 400 + content[start + 400 :])
    damaged = PretrainDataset(Corpus(tmp_path / "copy"), ObjectiveSettings(max_length=64))
    with pytest.raises(InputError, match="damaged, token ids outside the vocabulary") as caught:
        first_batches(damaged, len(damaged), workers=2)
    assert "\n" not in str(caught.value)
    assert multiprocessing.active_children() == []


@pytest.fixture(scope="module")
def causal_dataset(corpus: Corpus) -> PretrainDataset:
    return PretrainDataset(corpus, ObjectiveSettings(max_length=64, causal_fraction=0.5))


@pytest.mark.parametrize(("fraction", "period", "causal"), [(0.8, 5, 4), (1 / 49, 49, 1), (0.3, 10, 3)])
def test_every_so_many_samples_have_the_same_number_of_causal_ones(
    corpus: Corpus, fraction: float, period: int, causal: int
) -> None:
    dataset = PretrainDataset(corpus, ObjectiveSettings(max_length=64, causal_fraction=fraction))
    for epoch in (0, 1, 10**9):
        is_causal = dataset._is_causal(epoch, np.arange(len(dataset)))
        counts = np.convolve(is_causal, np.ones(period, int), "valid")
        assert set(counts.tolist()) == {causal}


@pytest.mark.parametrize("workers", [0, 1])
def test_causal_samples_are_last_and_in_micro_batches_of_their_own(
    causal_dataset: PretrainDataset, workers: int
) -> None:
    start = 0
    for batch in first_batches(causal_dataset, 5, workers=workers):
        samples = causal_dataset.draw(np.arange(start, start + len(batch.strip)))
        expected = sorted(samples, key=lambda sample: sample.is_causal)
        assert sequences(batch) == [tuple(sample.tokens.tolist()) for sample in expected]
        parts = list(batch.split(100))
        assert all(part.causal_samples == (len(part.strip) if part.strip.causal else 0) for part in parts)
        assert sum(part.causal_samples for part in parts) == batch.causal_samples > 0
        assert [part.strip.causal for part in parts] == sorted(part.strip.causal for part in parts)
        labels = torch.cat([part.targets.masked.labels for part in parts])
        assert torch.equal(labels, batch.targets.masked.labels)
        for part in parts:
            targets = part.targets.masked
            if part.strip.causal:
                assert torch.equal(part.strip.tokens[targets.indices + 1], targets.labels)
        start += len(samples)


def test_masked_samples_as_causal_ones_predict_every_next_token(dataset: PretrainDataset) -> None:
    (batch,) = first_batches(dataset, 1)
    causal, samples = batch.as_causal(), dataset.draw(np.arange(len(batch.strip)))
    assert sequences(causal) == [tuple(sample.original_tokens().tolist()) for sample in samples]
    assert causal.strip.causal
    assert causal.targets.masked.labels.tolist() == [
        token for sample in samples for token in sample.original_tokens()[1:].tolist()
    ]
    assert set(causal.targets.pair_labels.tolist()) == {-100}

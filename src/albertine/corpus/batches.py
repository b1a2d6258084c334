"""Batches: strips of samples, each filled to a budget of tokens.

Samples come in the order of training and a batch takes as many as fit; how long each
will be is known without drawing it. So one process cuts the order into batches, and
workers draw them; and any number of ranks cuts the same, and each takes its share of
every batch. What training has seen is one place in the order, which is all there is
to save.

With a `pool` of several batches at a time, their samples are dealt out by length:
attention on a CPU is fastest where lengths are equal.

The processes are those of torch's `DataLoader`, handed ready lists of places. (grain
would bring workers, shuffling and state of its own; here an order and a place are
all the state there is, and shuffling is a function.)
"""

import signal
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from albertine.corpus.dataset import PretrainDataset, PretrainSample
from albertine.errors import InputError
from albertine.model.heads import MaskedLMTargets, PretrainingTargets
from albertine.model.strip import Strip
from albertine.processes import block_signals
from albertine.randomness import random_bits

_POOL_STREAM = 5  # what the hash is asked for


@dataclass(frozen=True)
class DataPosition:
    """Where training is: all that must be saved to go on with the next batch.

    Attributes:
        sample_index: the first sample of the pool, counted on through all epochs.
        batch_in_pool: which of the pool's batches comes next.
    """

    sample_index: int = 0
    batch_in_pool: int = 0


@dataclass(frozen=True)
class Batch:
    """One step's share of a rank; with many ranks and few samples to a step it may be empty.

    Attributes:
        strip: the sequences.
        targets: what is to be predicted of them.
        step_samples: how many samples the whole step has, over all ranks.
    """

    strip: Strip
    targets: PretrainingTargets
    step_samples: int

    def to(self, device: torch.device) -> "Batch":
        """Move it to a device."""
        masked = self.targets.masked
        moved = MaskedLMTargets(masked.indices.to(device), masked.labels.to(device))
        return Batch(
            self.strip.to(device),
            PretrainingTargets(moved, self.targets.pair_labels.to(device)),
            self.step_samples,
        )

    def split(self, max_tokens: int) -> Iterator["Batch"]:
        """Cut it into as few pieces of about equal size as have at most `max_tokens` tokens each."""
        masked, start = self.targets.masked, 0
        tokens = len(self.strip.tokens)
        count = -(-tokens // max_tokens)
        even_size = -(-tokens // max(1, count)) + max(self.strip.lengths, default=0)
        for strip in self.strip.split(min(max_tokens, even_size)):
            stop = start + len(strip)
            low, high = int(self.strip.offsets[start]), int(self.strip.offsets[stop])
            inside = slice(*torch.searchsorted(masked.indices, torch.tensor([low, high])).tolist())
            targets = MaskedLMTargets(masked.indices[inside] - low, masked.labels[inside])
            yield Batch(
                strip, PretrainingTargets(targets, self.targets.pair_labels[start:stop]), self.step_samples
            )
            start = stop

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes as arrays; tensors go by a server that outlives an end."""
        masked, strip = self.targets.masked, self.strip
        tensors = (
            strip.tokens,
            strip.segments,
            strip.offsets,
            masked.indices,
            masked.labels,
            self.targets.pair_labels,
        )
        return _batch_from_arrays, (*(one.numpy() for one in tensors), self.step_samples)


def _batch_from_arrays(*fields: Any) -> Batch:
    *arrays, step_samples = fields
    tokens, segments, offsets, indices, labels, pair = map(torch.from_numpy, arrays)
    return Batch(
        Strip(tokens, segments, offsets),
        PretrainingTargets(MaskedLMTargets(indices, labels), pair),
        step_samples,
    )


class BatchLoader:
    """Iterates over batches, from a position on, without end; or once through an epoch."""

    def __init__(
        self,
        dataset: PretrainDataset,
        batch_tokens: int,
        *,
        position: DataPosition = DataPosition(),
        single_epoch: bool = False,
        pool_size: int = 1,
        rank: int = 0,
        world_size: int = 1,
        workers: int = 0,
    ):
        longest = dataset.objective.max_length
        if batch_tokens < longest * world_size:
            per_rank = f" for each of {world_size} ranks" if world_size > 1 else ""
            raise InputError(
                f"batch_tokens = {batch_tokens}: must hold a sample of max_length = {longest}{per_rank}"
            )
        self._dataset, self._batch_tokens, self._pool_size = dataset, batch_tokens, pool_size
        self._single_epoch, self._rank, self._world_size, self._workers = (
            single_epoch,
            rank,
            world_size,
            workers,
        )
        self.position = position

    @property
    def epoch_samples(self) -> int:
        """How many samples an epoch has."""
        return len(self._dataset)

    def __iter__(self) -> Generator[Batch]:
        pending_positions: deque[DataPosition] = deque()

        def batch_indices() -> Iterator[tuple[NDArray[np.int64], int]]:
            for mine, samples, after in self._plan_batches(self.position):
                pending_positions.append(after)
                yield mine, samples

        loader: DataLoader[Batch] = DataLoader(
            _BatchDataset(self._dataset),
            batch_size=None,
            sampler=batch_indices(),
            num_workers=self._workers,
            prefetch_factor=4 if self._workers else None,
            collate_fn=_identity,
        )
        with block_signals(signal.SIGINT, signal.SIGTERM):  # workers end with the process that started them
            batches = iter(loader)
        for batch in batches:
            self.position = pending_positions.popleft()
            yield batch

    def _plan_batches(self, position: DataPosition) -> Iterator[tuple[NDArray[np.int64], int, DataPosition]]:
        """Yield a rank's places of each batch, the samples of all ranks, and the position after it."""
        start, first_batch = position.sample_index, position.batch_in_pool
        stop = (start // len(self._dataset) + 1) * len(self._dataset) if self._single_epoch else None
        while stop is None or start < stop:
            lengths = self._pool_lengths(start, stop)
            batches = self._length_grouped_batches(lengths, start)
            if first_batch >= len(batches):
                raise InputError(
                    f"batch {first_batch} of a pool of {len(batches)}: the position is of another pool"
                )
            for number, batch in enumerate(batches[first_batch:], start=first_batch):
                last = number + 1 == len(batches)
                after = DataPosition(start + len(lengths)) if last else DataPosition(start, number + 1)
                yield self._rank_samples(batch, lengths[batch - start]), len(batch), after
            start, first_batch = start + len(lengths), 0

    def _pool_lengths(self, start: int, stop: int | None) -> NDArray[np.int64]:
        """Return the lengths of the samples that fit into a pool."""
        pool_tokens = self._batch_tokens * self._pool_size
        count = pool_tokens // self._dataset.objective.max_length + 1
        while True:
            count = count if stop is None else min(count, stop - start)
            lengths = self._dataset.max_lengths(np.arange(start, start + count))
            fitting = int(np.searchsorted(lengths.cumsum(), pool_tokens, side="right"))
            if fitting < count or (stop is not None and start + count == stop):
                return lengths[:fitting]
            count = 2 * count

    def _length_grouped_batches(self, lengths: NDArray[np.int64], start: int) -> list[NDArray[np.int64]]:
        """Cut a pool into batches of samples of like lengths, in random order."""
        indices = np.arange(start, start + len(lengths))
        if self._pool_size == 1:
            return [indices]
        by_length = np.argsort(lengths, kind="stable")
        batches: list[list[int]] = [[]]
        size = 0
        for offset in by_length.tolist():
            if size + lengths[offset] > self._batch_tokens:
                batches.append([])
                size = 0
            batches[-1].append(start + offset)
            size += int(lengths[offset])
        order = np.argsort(
            random_bits(self._dataset.objective.seed, _POOL_STREAM, start, np.arange(len(batches)))
        )
        return [np.array(batches[number]) for number in order.tolist()]

    def _rank_samples(self, indices: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a rank's part of a batch: those whose middles lie in its part of the strip."""
        middles = lengths.cumsum() - lengths / 2
        owners = np.minimum(middles * self._world_size // lengths.sum(), self._world_size - 1)
        return np.compress(owners == self._rank, indices)


class _BatchDataset(Dataset[Batch]):
    """Draws a batch, given its places; in whichever process."""

    def __init__(self, dataset: PretrainDataset):
        self._dataset = dataset

    def __getitem__(self, request: tuple[NDArray[np.int64], int]) -> Batch:
        indices, step_samples = request
        return collate(self._dataset.draw(indices), step_samples)


def collate(samples: list[PretrainSample], step_samples: int) -> Batch:
    """Lay samples end to end; `step_samples` is how many the whole step has."""
    lengths = [len(sample) for sample in samples]
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    masked = [sample.masked_positions + base for sample, base in zip(samples, offsets[:-1], strict=True)]
    strip = Strip(
        _concatenated([sample.tokens for sample in samples]),
        _concatenated([sample.segments for sample in samples]),
        torch.from_numpy(offsets),
    )
    targets = PretrainingTargets(
        MaskedLMTargets(_concatenated(masked), _concatenated([sample.labels for sample in samples])),
        torch.tensor([sample.pair_label for sample in samples], dtype=torch.int64),
    )
    return Batch(strip, targets, step_samples)


def _concatenated(rows: list[NDArray[Any]]) -> Tensor:
    return torch.from_numpy(np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int64))


def _identity(batch: Any) -> Any:
    return batch

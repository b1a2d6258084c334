"""Batches of pre-training samples.

A step takes at most `batch_tokens` tokens over all ranks. A `Batch` is one rank's part of a step, or a
micro-batch of it. Consecutive samples in training order, enough for `pool_size` steps, form a pool, and each
step takes samples of similar length from it, because attention on a CPU is fastest with equal lengths.

The maximum length of a sample follows from its index, so every rank plans all steps as lists of indices, and
worker processes draw the samples. The position in the training order is therefore the only state to save.

See docs/decisions/dataloader.md.
"""

import signal
from collections import deque
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from albertine.corpus.dataset import NO_LABEL, PretrainDataset, PretrainSample
from albertine.errors import AlbertineError, InputError
from albertine.model.pretraining_heads import MaskedLMTargets, PretrainingTargets
from albertine.model.strip import Strip
from albertine.processes import block_signals
from albertine.randomness import Stream, random_bits


@dataclass(frozen=True)
class DataPosition:
    """Position in the training data: the state needed to resume with the next batch.

    Attributes:
        sample_index: index in training order of the current pool's first sample, counted across epochs.
        batch_in_pool: index of the next batch within the pool.
    """

    sample_index: int = 0
    batch_in_pool: int = 0


@dataclass(frozen=True)
class Batch:
    """One rank's samples of one step; may be empty if the step has fewer samples than ranks.

    Attributes:
        strip: the samples' sequences, the causal ones last.
        targets: indices and labels of the tokens to predict, and the label of each pair.
        step_samples: number of samples in the whole step, over all ranks.
        causal_samples: number of causal samples; in a micro-batch, all of them or none.
    """

    strip: Strip
    targets: PretrainingTargets
    step_samples: int
    causal_samples: int = 0

    def to(self, device: torch.device) -> "Batch":
        """Return a copy on a device."""
        masked = MaskedLMTargets(
            self.targets.masked.indices.to(device), self.targets.masked.labels.to(device)
        )
        targets = PretrainingTargets(masked, self.targets.pair_labels.to(device))
        return Batch(self.strip.to(device), targets, self.step_samples, self.causal_samples)

    def split(self, max_tokens: int) -> Iterator["Batch"]:
        """Yield micro-batches of at most `max_tokens` tokens: as few as possible, of similar size.

        Masked and causal samples are in different ones.
        """
        first_causal = len(self.strip) - self.causal_samples
        yield from self._split(0, first_causal, max_tokens)
        yield from self._split(first_causal, len(self.strip), max_tokens)

    def _split(self, start: int, stop: int, max_tokens: int) -> Iterator["Batch"]:
        """Yield micro-batches of the samples from `start` up to `stop`, which are of one kind."""
        part = self.strip.slice(start, stop)
        tokens = len(part.tokens)
        count = -(-tokens // max_tokens)
        # Sequences are not divided, so a limit of exactly `tokens / count` could need one micro-batch more.
        even_size = -(-tokens // max(1, count)) + max(part.lengths, default=0)
        for strip in part.split(min(max_tokens, even_size)):
            yield self._micro_batch(strip, start)
            start += len(strip)

    def _micro_batch(self, strip: Strip, start: int) -> "Batch":
        """Return the samples of a strip, which begins with sample `start`, as a batch."""
        masked, stop = self.targets.masked, start + len(strip)
        first_token, end_token = int(self.strip.offsets[start]), int(self.strip.offsets[stop])
        bounds = torch.searchsorted(masked.indices, torch.tensor([first_token, end_token]))
        selected = slice(*bounds.tolist())
        targets = PretrainingTargets(
            MaskedLMTargets(masked.indices[selected] - first_token, masked.labels[selected]),
            self.targets.pair_labels[start:stop],
        )
        is_causal = start >= len(self.strip) - self.causal_samples
        if is_causal:
            strip = replace(strip, causal=True)
        return Batch(strip, targets, self.step_samples, len(strip) if is_causal else 0)

    def as_causal(self) -> "Batch":
        """Return masked samples as causal ones, with all tokens to predict but the first of each."""
        masked, strip = self.targets.masked, self.strip
        tokens = strip.tokens.index_copy(0, masked.indices, masked.labels)
        has_next = torch.ones(len(tokens), dtype=torch.bool)
        has_next[strip.offsets[1:] - 1] = False
        indices = has_next.nonzero().squeeze(1)
        targets = PretrainingTargets(
            MaskedLMTargets(indices, tokens[indices + 1]),
            torch.full_like(self.targets.pair_labels, NO_LABEL),
        )
        causal = replace(strip, tokens=tokens, causal=True)
        return Batch(causal, targets, self.step_samples, len(strip))

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as numpy arrays: to share tensors, torch starts a process that may outlive the run."""
        masked, strip = self.targets.masked, self.strip
        tensors = (
            strip.tokens,
            strip.segments,
            strip.offsets,
            masked.indices,
            masked.labels,
            self.targets.pair_labels,
        )
        counts = self.step_samples, self.causal_samples
        return _batch_from_arrays, (*(tensor.numpy() for tensor in tensors), *counts)


def _batch_from_arrays(*fields: Any) -> Batch:
    *arrays, step_samples, causal_samples = fields
    tokens, segments, offsets, indices, labels, pair_labels = map(torch.from_numpy, arrays)
    return Batch(
        Strip(tokens, segments, offsets),
        PretrainingTargets(MaskedLMTargets(indices, labels), pair_labels),
        step_samples,
        causal_samples,
    )


class BatchLoader:
    """Iterates over batches from a position: endlessly, or to the end of the epoch.

    Args:
        dataset: source of the samples.
        batch_tokens: maximum number of tokens per batch, over all ranks.
        position: position of the first batch.
        single_epoch: stop at the end of the epoch.
        pool_size: number of batches that are planned together.
        rank: rank of this process.
        world_size: number of ranks.
        workers: number of worker processes; 0 draws the samples in this process.

    Attributes:
        position: position after the last batch that was yielded.
    """

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
        self._single_epoch, self._workers = single_epoch, workers
        self._rank, self._world_size = rank, world_size
        self.position = position

    @property
    def epoch_samples(self) -> int:
        """Number of samples per epoch."""
        return len(self._dataset)

    def __iter__(self) -> Generator[Batch]:
        pending_positions: deque[DataPosition] = deque()

        def batch_indices() -> Iterator[tuple[NDArray[np.int64], int]]:
            for indices, step_samples, next_position in self._plan_batches(self.position):
                pending_positions.append(next_position)
                yield indices, step_samples

        loader: DataLoader[Batch | AlbertineError] = DataLoader(
            _BatchDataset(self._dataset),
            batch_size=None,
            sampler=batch_indices(),
            num_workers=self._workers,
            prefetch_factor=4 if self._workers else None,
            collate_fn=_identity,  # `_BatchDataset` returns whole batches
        )
        with block_signals(signal.SIGINT, signal.SIGTERM):  # workers inherit this: Ctrl-C must not kill them
            batches = iter(loader)
        try:
            for batch in batches:
                if isinstance(batch, AlbertineError):
                    raise batch
                # Workers let the sampler run ahead. Batches come in its order: this has the oldest position.
                self.position = pending_positions.popleft()
                yield batch
        finally:
            # The traceback of an error may keep the iterator, and the exit would wait for the workers.
            if self._workers:
                batches._shutdown_workers()  # type: ignore[attr-defined]

    def _plan_batches(self, position: DataPosition) -> Iterator[tuple[NDArray[np.int64], int, DataPosition]]:
        """Yield for each batch: sample indices of this rank, total number of samples, next position."""
        start, first_batch = position.sample_index, position.batch_in_pool
        stop = (start // len(self._dataset) + 1) * len(self._dataset) if self._single_epoch else None
        while stop is None or start < stop:
            lengths = self._pool_lengths(start, stop)
            batches = self._length_grouped_batches(lengths, start)
            if first_batch >= len(batches):
                raise InputError(
                    f"position: batch {first_batch} of a pool of {len(batches)}; "
                    "resume with the pool size and batch_tokens that it was saved with"
                )
            for number, batch in enumerate(batches[first_batch:], start=first_batch):
                is_last = number + 1 == len(batches)
                next_position = (
                    DataPosition(start + len(lengths)) if is_last else DataPosition(start, number + 1)
                )
                yield self._rank_indices(batch, lengths[batch - start]), len(batch), next_position
            start, first_batch = start + len(lengths), 0

    def _pool_lengths(self, start: int, stop: int | None) -> NDArray[np.int64]:
        """Return the maximum length of each sample, [samples], of the pool that begins at `start`."""
        pool_tokens = self._batch_tokens * self._pool_size
        count = pool_tokens // self._dataset.objective.max_length + 1  # enough if all have max_length
        lengths = np.empty(0, np.int64)
        while True:
            count = count if stop is None else min(count, stop - start)
            more = self._dataset.max_lengths(np.arange(start + len(lengths), start + count))
            lengths = np.concatenate([lengths, more])
            fitting = int(np.searchsorted(lengths.cumsum(), pool_tokens, side="right"))
            if fitting < count or (stop is not None and start + count == stop):
                return lengths[:fitting]
            missing_tokens = pool_tokens - lengths.sum()
            count += int(missing_tokens / lengths.mean()) + 1 + count // 16

    def _length_grouped_batches(self, lengths: NDArray[np.int64], start: int) -> list[NDArray[np.int64]]:
        """Return the sample indices of each batch of a pool: batches of similar lengths, in random order."""
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
            random_bits(self._dataset.objective.seed, Stream.BATCH_POOL, start, np.arange(len(batches)))
        )
        return [np.array(batches[number]) for number in order.tolist()]

    def _rank_indices(self, indices: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the sample indices of this rank.

        The tokens of the batch are divided evenly over the ranks; a sample belongs to the rank that has
        its middle.
        """
        middles = lengths.cumsum() - lengths / 2
        ranks = np.minimum(middles * self._world_size // lengths.sum(), self._world_size - 1)
        return np.compress(ranks == self._rank, indices)


class _BatchDataset(Dataset[Batch | AlbertineError]):
    """Returns the batch of given sample indices, in the main process or in a worker.

    It returns errors as well, because one that a worker raises arrives with a traceback as its text.
    """

    def __init__(self, dataset: PretrainDataset):
        self._dataset = dataset

    def __getitem__(self, request: tuple[NDArray[np.int64], int]) -> Batch | AlbertineError:
        indices, step_samples = request
        try:
            return collate(self._dataset.draw(indices), step_samples)
        except AlbertineError as error:
            return error


def collate(samples: list[PretrainSample], step_samples: int) -> Batch:
    """Return the samples of a rank as a batch; `step_samples` is the number of samples of all ranks."""
    samples = sorted(samples, key=lambda sample: sample.is_causal)
    lengths = [len(sample) for sample in samples]
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    masked = [sample.masked_positions + offset for sample, offset in zip(samples, offsets[:-1], strict=True)]
    strip = Strip(
        _concatenated([sample.tokens for sample in samples]),
        _concatenated([sample.segments for sample in samples]),
        torch.from_numpy(offsets),
    )
    targets = PretrainingTargets(
        MaskedLMTargets(_concatenated(masked), _concatenated([sample.labels for sample in samples])),
        torch.tensor([sample.pair_label for sample in samples], dtype=torch.int64),
    )
    return Batch(strip, targets, step_samples, sum(sample.is_causal for sample in samples))


def _concatenated(arrays: list[NDArray[Any]]) -> Tensor:
    return torch.from_numpy(np.concatenate([np.empty(0, np.int64), *arrays]).astype(np.int64))


def _identity(batch: Any) -> Any:
    return batch

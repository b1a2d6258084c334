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

from albertine.corpus.chance import ask
from albertine.corpus.samples import Sample, Sampler
from albertine.errors import InputError
from albertine.model.heads import MaskedTargets, PretrainTargets
from albertine.model.strip import Strip
from albertine.processes import holding

_DEAL = 5  # what the hash is asked for


@dataclass(frozen=True)
class Position:
    """Where training is: all that must be saved to go on with the next batch.

    Attributes:
        place: the first sample of the pool, counted on through all epochs.
        batch: which of the pool's batches comes next.
    """

    place: int = 0
    batch: int = 0


@dataclass(frozen=True)
class Batch:
    """One step's share of a rank; with many ranks and few samples to a step it may be empty.

    Attributes:
        strip: the sequences.
        targets: what is to be predicted of them.
        samples: how many samples the whole step has, over all ranks.
    """

    strip: Strip
    targets: PretrainTargets
    samples: int

    def to(self, device: torch.device) -> "Batch":
        """Move it to a device."""
        masked = self.targets.masked
        moved = MaskedTargets(masked.at.to(device), masked.pieces.to(device))
        return Batch(
            self.strip.to(device), PretrainTargets(moved, self.targets.pair.to(device)), self.samples
        )

    def split(self, budget: int) -> Iterator["Batch"]:
        """Cut it into as few pieces of about equal size as have at most `budget` tokens each."""
        masked, first = self.targets.masked, 0
        tokens = len(self.strip.tokens)
        pieces = -(-tokens // budget)
        even = -(-tokens // max(1, pieces)) + max(self.strip.lengths, default=0)
        for strip in self.strip.split(min(budget, even)):
            last = first + len(strip)
            low, high = int(self.strip.offsets[first]), int(self.strip.offsets[last])
            mine = slice(*torch.searchsorted(masked.at, torch.tensor([low, high])).tolist())
            of_piece = MaskedTargets(masked.at[mine] - low, masked.pieces[mine])
            yield Batch(strip, PretrainTargets(of_piece, self.targets.pair[first:last]), self.samples)
            first = last

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between processes as arrays; tensors go by a server that outlives an end."""
        masked, strip = self.targets.masked, self.strip
        tensors = (strip.tokens, strip.types, strip.offsets, masked.at, masked.pieces, self.targets.pair)
        return _unpacked, (*(one.numpy() for one in tensors), self.samples)


def _unpacked(*parts: Any) -> Batch:
    *arrays, samples = parts
    tokens, types, offsets, at, pieces, pair = map(torch.from_numpy, arrays)
    return Batch(Strip(tokens, types, offsets), PretrainTargets(MaskedTargets(at, pieces), pair), samples)


class Batches:
    """Iterates over batches, from a position on, without end; or once through an epoch."""

    def __init__(
        self,
        sampler: Sampler,
        batch_tokens: int,
        *,
        position: Position = Position(),
        once: bool = False,
        pool: int = 1,
        rank: int = 0,
        ranks: int = 1,
        workers: int = 0,
    ):
        longest = sampler.objective.max_length
        if batch_tokens < longest * ranks:
            of = f" for each of {ranks} ranks" if ranks > 1 else ""
            raise InputError(
                f"batch_tokens = {batch_tokens}: must hold a sample of max_length = {longest}{of}"
            )
        self._sampler, self._budget, self._pool = sampler, batch_tokens, pool
        self._once, self._rank, self._ranks, self._workers = once, rank, ranks, workers
        self.position = position

    @property
    def epoch(self) -> int:
        """How many samples an epoch has."""
        return len(self._sampler)

    def __iter__(self) -> Generator[Batch]:
        passed: deque[Position] = deque()

        def places() -> Iterator[tuple[NDArray[np.int64], int]]:
            for mine, samples, after in self._cut(self.position):
                passed.append(after)
                yield mine, samples

        loader: DataLoader[Batch] = DataLoader(
            _Drawn(self._sampler),
            batch_size=None,
            sampler=places(),
            num_workers=self._workers,
            prefetch_factor=4 if self._workers else None,
            collate_fn=_as_it_is,
        )
        with holding(signal.SIGINT, signal.SIGTERM):  # workers end with the process that started them
            batches = iter(loader)
        for batch in batches:
            self.position = passed.popleft()
            yield batch

    def _cut(self, position: Position) -> Iterator[tuple[NDArray[np.int64], int, Position]]:
        """Yield a rank's places of each batch, the samples of all ranks, and the position after it."""
        place, skip = position.place, position.batch
        stop = (place // len(self._sampler) + 1) * len(self._sampler) if self._once else None
        while stop is None or place < stop:
            lengths = self._pooled(place, stop)
            batches = self._dealt(lengths, place)
            if skip >= len(batches):
                raise InputError(f"batch {skip} of a pool of {len(batches)}: the position is of another pool")
            for number, batch in enumerate(batches[skip:], start=skip):
                last = number + 1 == len(batches)
                after = Position(place + len(lengths)) if last else Position(place, number + 1)
                yield self._share(batch, lengths[batch - place]), len(batch), after
            place, skip = place + len(lengths), 0

    def _pooled(self, place: int, stop: int | None) -> NDArray[np.int64]:
        """Return the lengths of the samples that fit into a pool."""
        budget = self._budget * self._pool
        count = budget // self._sampler.objective.max_length + 1
        while True:
            count = count if stop is None else min(count, stop - place)
            lengths = self._sampler.lengths(np.arange(place, place + count))
            fitting = int(np.searchsorted(lengths.cumsum(), budget, side="right"))
            if fitting < count or (stop is not None and place + count == stop):
                return lengths[:fitting]
            count = 2 * count

    def _dealt(self, lengths: NDArray[np.int64], place: int) -> list[NDArray[np.int64]]:
        """Cut a pool into batches of samples of like lengths, in random order."""
        places = np.arange(place, place + len(lengths))
        if self._pool == 1:
            return [places]
        by_length = np.argsort(lengths, kind="stable")
        batches: list[list[int]] = [[]]
        size = 0
        for at in by_length.tolist():
            if size + lengths[at] > self._budget:
                batches.append([])
                size = 0
            batches[-1].append(place + at)
            size += int(lengths[at])
        order = np.argsort(ask(self._sampler.objective.seed, _DEAL, place, np.arange(len(batches))))
        return [np.array(batches[number]) for number in order.tolist()]

    def _share(self, places: NDArray[np.int64], lengths: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return a rank's part of a batch: those whose middles lie in its part of the strip."""
        middles = lengths.cumsum() - lengths / 2
        owners = np.minimum(middles * self._ranks // lengths.sum(), self._ranks - 1)
        return np.compress(owners == self._rank, places)


class _Drawn(Dataset[Batch]):
    """Draws a batch, given its places; in whichever process."""

    def __init__(self, sampler: Sampler):
        self._sampler = sampler

    def __getitem__(self, asked: tuple[NDArray[np.int64], int]) -> Batch:
        places, samples = asked
        return to_batch(self._sampler.draw(places), samples)


def to_batch(samples: list[Sample], of: int) -> Batch:
    """Lay samples end to end; `of` is how many the whole step has."""
    lengths = [len(sample) for sample in samples]
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    masked = [sample.masked + base for sample, base in zip(samples, offsets[:-1], strict=True)]
    strip = Strip(
        _joined([sample.tokens for sample in samples]),
        _joined([sample.types for sample in samples]),
        torch.from_numpy(offsets),
    )
    targets = PretrainTargets(
        MaskedTargets(_joined(masked), _joined([sample.labels for sample in samples])),
        torch.tensor([sample.label for sample in samples], dtype=torch.int64),
    )
    return Batch(strip, targets, of)


def _joined(rows: list[NDArray[Any]]) -> Tensor:
    return torch.from_numpy(np.concatenate([np.empty(0, np.int64), *rows]).astype(np.int64))


def _as_it_is(batch: Any) -> Any:
    return batch

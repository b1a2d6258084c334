"""A network and a kind of task together: examples in, scores and answers out, in order.

Examples come in any number and are taken a window at a time, so memory is bounded; in a
window samples go by length, so that attention finds those of a length side by side.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

import torch

from albertine.tasks.examples import Example
from albertine.tasks.kinds.kind import Kind, Row, Sample, Sheet, strip_of

E = TypeVar("E", bound=Example)

WINDOW = 1024


def at_once_on(device: torch.device) -> int:
    """Return how many tokens a device computes at a time, unless somebody says otherwise."""
    return 32_768 if device.type == "cuda" else 4_096


class Scorer:
    """Asks a network about examples; several threads may."""

    def __init__(self, network: Any, kind: Kind, device: torch.device, at_once: int | None = None):
        self.network, self.kind, self.device = network, kind, device
        self._at_once = at_once or at_once_on(device)
        self._encoding = threading.Lock()  # encoders remember words

    def sheets(self, examples: Sequence[E]) -> list[Sheet]:
        """Encode examples."""
        with self._encoding:
            return self.kind.sheets(examples)

    def scored(self, examples: Iterable[E]) -> Iterator[tuple[E, Sheet, list[Row]]]:
        """Yield examples with their scores, in order."""
        coming = iter(examples)
        while window := list(islice(coming, WINDOW)):
            sheets = self.sheets(window)
            yield from zip(window, sheets, self.rows(sheets), strict=True)

    def answered(self, examples: Iterable[E]) -> Iterator[tuple[E, dict[str, Any]]]:
        """Yield examples with their answers, in order."""
        for example, sheet, rows in self.scored(examples):
            yield example, self.kind.answer(example, sheet, rows)

    def rows(self, sheets: Sequence[Sheet]) -> list[list[Row]]:
        """Return the scores of each example's samples."""
        samples = [sample for sheet in sheets for sample in sheet.samples]
        found: dict[int, Row] = {}
        with torch.no_grad():  # weights that are spread cannot be gathered in inference mode
            for batch in self._batches(samples):
                strip = strip_of([samples[at] for at in batch]).to(self.device)
                rows = self.kind.rows(self.network(strip), strip)
                found |= dict(zip(batch, rows, strict=True))
        place = iter(range(len(samples)))
        return [[found[next(place)] for _ in sheet.samples] for sheet in sheets]

    def _batches(self, samples: Sequence[Sample]) -> Iterator[list[int]]:
        """Yield the places of samples that are computed together, the longest first."""
        batch: list[int] = []
        filled = 0
        for at in sorted(range(len(samples)), key=lambda at: -samples[at].tokens):
            if batch and filled + samples[at].tokens > self._at_once:
                yield batch
                batch, filled = [], 0
            batch.append(at)
            filled += samples[at].tokens
        if batch:
            yield batch

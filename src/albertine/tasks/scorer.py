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
from albertine.tasks.types.task_type import (
    EncodedExample,
    SampleScores,
    TaskSample,
    TaskType,
    strip_from_samples,
)

E = TypeVar("E", bound=Example)

CHUNK_SIZE = 1024


def default_micro_batch_tokens(device: torch.device) -> int:
    """Return how many tokens a device computes at a time, unless somebody says otherwise."""
    return 32_768 if device.type == "cuda" else 4_096


class Scorer:
    """Asks a network about examples; several threads may."""

    def __init__(
        self, model: Any, task_type: TaskType, device: torch.device, micro_batch_tokens: int | None = None
    ):
        self.model, self.task_type, self.device = model, task_type, device
        self._micro_batch_tokens = micro_batch_tokens or default_micro_batch_tokens(device)
        self._encoder_lock = threading.Lock()  # encoders remember words

    def encode(self, examples: Sequence[E]) -> list[EncodedExample]:
        """Encode examples."""
        with self._encoder_lock:
            return self.task_type.encode(examples)

    def score_examples(self, examples: Iterable[E]) -> Iterator[tuple[E, EncodedExample, list[SampleScores]]]:
        """Yield examples with their scores, in order."""
        coming = iter(examples)
        while chunk := list(islice(coming, CHUNK_SIZE)):
            encoded = self.encode(chunk)
            yield from zip(chunk, encoded, self.score(encoded), strict=True)

    def predict(self, examples: Iterable[E]) -> Iterator[tuple[E, dict[str, Any]]]:
        """Yield examples with their answers, in order."""
        for example, encoded, scores in self.score_examples(examples):
            yield example, self.task_type.prediction(example, encoded, scores)

    def score(self, encoded: Sequence[EncodedExample]) -> list[list[SampleScores]]:
        """Return the scores of each example's samples."""
        samples = [sample for sheet in encoded for sample in sheet.samples]
        scores_by_index: dict[int, SampleScores] = {}
        with torch.no_grad():  # weights that are spread cannot be gathered in inference mode
            for batch in self._batches(samples):
                strip = strip_from_samples([samples[at] for at in batch]).to(self.device)
                scores = self.task_type.sample_scores(self.model(strip), strip)
                scores_by_index |= dict(zip(batch, scores, strict=True))
        indices = iter(range(len(samples)))
        return [[scores_by_index[next(indices)] for _ in sheet.samples] for sheet in encoded]

    def _batches(self, samples: Sequence[TaskSample]) -> Iterator[list[int]]:
        """Yield the places of samples that are computed together, the longest first."""
        batch: list[int] = []
        num_tokens = 0
        for at in sorted(range(len(samples)), key=lambda at: -samples[at].num_tokens):
            if batch and num_tokens + samples[at].num_tokens > self._micro_batch_tokens:
                yield batch
                batch, num_tokens = [], 0
            batch.append(at)
            num_tokens += samples[at].num_tokens
        if batch:
            yield batch

"""Scores examples: a task type encodes them, an engine runs them, the task type reads its output.

Examples are processed in chunks, so that memory is bounded. Within a chunk, samples are
sorted by length: attention computes sequences of one length together.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from albertine.engines.engine import Engine
from albertine.tasks.examples import Example
from albertine.tasks.sequences import EncodedExample, split_by_tokens, strip_from_samples
from albertine.tasks.types.task_type import Prediction, SampleScores, TaskType

E = TypeVar("E", bound=Example)

CHUNK_SIZE = 1024  # examples


class Scorer:
    """Scores examples with one model; threads may share it."""

    def __init__(self, engine: Engine, task_type: TaskType):
        self._engine, self._task_type = engine, task_type
        self._encoder_lock = threading.Lock()  # encoders cache words

    def encode(self, examples: Sequence[E]) -> list[EncodedExample]:
        """Return encoded examples."""
        with self._encoder_lock:
            return self._task_type.encode(examples)

    def score_examples(self, examples: Iterable[E]) -> Iterator[tuple[E, EncodedExample, list[SampleScores]]]:
        """Yield examples with the scores of their samples, in order."""
        remaining = iter(examples)
        while chunk := list(islice(remaining, CHUNK_SIZE)):
            encoded = self.encode(chunk)
            yield from zip(chunk, encoded, self.score(encoded), strict=True)

    def predict(self, examples: Iterable[E]) -> Iterator[tuple[E, Prediction]]:
        """Yield examples with their predictions, in order."""
        for example, encoded, scores in self.score_examples(examples):
            yield example, self._task_type.prediction(example, encoded, scores)

    def score(self, encoded: Sequence[EncodedExample]) -> list[list[SampleScores]]:
        """Return the scores of the samples of each example."""
        samples = [sample for one in encoded for sample in one.samples]
        longest_first = sorted(range(len(samples)), key=lambda index: -samples[index].num_tokens)
        scores_by_index: dict[int, SampleScores] = {}
        for indices in split_by_tokens(
            longest_first, lambda index: samples[index].num_tokens, self._engine.micro_batch_tokens
        ):
            strip = strip_from_samples([samples[index] for index in indices])
            scores = self._task_type.sample_scores(self._engine.run(strip), strip)
            scores_by_index |= dict(zip(indices, scores, strict=True))
        all_scores = (scores_by_index[index] for index in range(len(samples)))
        return [[next(all_scores) for _ in one.samples] for one in encoded]

"""Scores examples: the task type encodes them, an engine runs them, the task type reads the output.

Examples are processed in chunks, so that memory is bounded. Within a chunk, samples are
sorted by length, because attention computes sequences of the same length together.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeVar

from albertine.engines.engine import Engine
from albertine.tasks.encoding_report import EncodingReport
from albertine.tasks.examples import Example
from albertine.tasks.sequences import EncodedExample, split_by_tokens, strip_from_samples
from albertine.tasks.types.task_type import Prediction, SampleScores, TaskType

E = TypeVar("E", bound=Example)

CHUNK_SIZE = 1024  # examples


class Scorer:
    """Scores examples with one model; threads may share it."""

    def __init__(self, engine: Engine, task_type: TaskType):
        self._engine, self._task_type = engine, task_type
        self._encoder_lock = threading.Lock()  # an encoder has a cache of words, which is not thread-safe

    def encode(self, examples: Sequence[E]) -> list[EncodedExample]:
        """Return the encoded examples."""
        with self._encoder_lock:
            return self._task_type.encode(examples)

    def score_examples(
        self, examples: Iterable[E], report: EncodingReport | None = None
    ) -> Iterator[tuple[E, EncodedExample, list[SampleScores]]]:
        """Yield each example with its encoded form and the scores of its samples, in order.

        Args:
            examples: the examples.
            report: counts truncated and unknown tokens.
        """
        remaining = iter(examples)
        while chunk := list(islice(remaining, CHUNK_SIZE)):
            encoded = self.encode(chunk)
            if report is not None:
                report.add(encoded)
            yield from zip(chunk, encoded, self.score(encoded), strict=True)

    def predict(
        self, examples: Iterable[E], report: EncodingReport | None = None
    ) -> Iterator[tuple[E, Prediction]]:
        """Yield each example with its prediction, in order; see `score_examples`.

        The prediction for a truncated example has `truncated_tokens`, the number of tokens that did not fit.
        """
        for example, encoded, scores in self.score_examples(examples, report):
            prediction = self._task_type.prediction(example, encoded, scores)
            if encoded.num_truncated_tokens:
                prediction["truncated_tokens"] = encoded.num_truncated_tokens
            yield example, prediction

    def score(self, encoded: Sequence[EncodedExample]) -> list[list[SampleScores]]:
        """Return, for each example, the scores of its samples."""
        samples = [sample for example in encoded for sample in example.samples]
        longest_first = sorted(range(len(samples)), key=lambda index: -samples[index].num_tokens)
        scores_by_index: dict[int, SampleScores] = {}
        for indices in split_by_tokens(
            longest_first, lambda index: samples[index].num_tokens, self._engine.micro_batch_tokens
        ):
            strip = strip_from_samples([samples[index] for index in indices])
            scores = self._task_type.sample_scores(self._engine.run(strip), strip)
            scores_by_index |= dict(zip(indices, scores, strict=True))
        all_scores = (scores_by_index[index] for index in range(len(samples)))
        return [[next(all_scores) for _ in example.samples] for example in encoded]

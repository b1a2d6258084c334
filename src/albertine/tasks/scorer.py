"""Scores examples: the task type encodes them, an engine runs them, the task type converts the output.

Examples are processed in chunks, so that memory is bounded. Within a chunk, samples are
sorted by length, because attention computes sequences of the same length together. An
ensemble is scored by the scorers of its members.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from albertine.engines.engine import Engine, check_finite
from albertine.tasks.encoding_counts import EncodingCounts
from albertine.tasks.examples import Example, example_chunks
from albertine.tasks.sequences import EncodedExample, longest_first_groups, strip_from_samples
from albertine.tasks.types.task_type import Prediction, SampleScores, TaskType

E = TypeVar("E", bound=Example)

ExampleScores = list[SampleScores]

CHUNK_SIZE = 1024  # examples


class ExampleScorer(ABC):
    """Base class of the scorers of one model and of an ensemble; threads may share a scorer."""

    def __init__(self, task_type: TaskType):
        self._task_type = task_type

    @abstractmethod
    def score_chunk(self, examples: Sequence[E]) -> tuple[list[EncodedExample], list[ExampleScores]]:
        """Return encoded examples, and for each of them the scores of its samples."""

    def score_examples(
        self, examples: Iterable[E], counts: EncodingCounts | None = None
    ) -> Iterator[tuple[E, EncodedExample, ExampleScores]]:
        """Yield each example with its encoded form and the scores of its samples, in order.

        Args:
            examples: the examples.
            counts: the counts of truncated and unknown tokens, which are updated; None to count none.
        """
        for chunk in example_chunks(examples, CHUNK_SIZE):
            encoded, scores = self.score_chunk(chunk)
            if counts is not None:
                counts.add(encoded)
            yield from zip(chunk, encoded, scores, strict=True)

    def predict(
        self, examples: Iterable[E], counts: EncodingCounts | None = None
    ) -> Iterator[tuple[E, Prediction]]:
        """Yield each example with its prediction, in order; see `score_examples`."""
        for example, encoded, scores in self.score_examples(examples, counts):
            yield example, prediction_to_write(self._task_type, example, encoded, scores)


def prediction_to_write(
    task_type: TaskType, example: Example, encoded: EncodedExample, scores: ExampleScores
) -> Prediction:
    """Return the prediction for an example, with the number of tokens that did not fit, if there are any."""
    prediction = task_type.prediction(example, encoded, scores)
    if encoded.num_truncated_tokens:
        prediction["truncated_tokens"] = encoded.num_truncated_tokens
    return prediction


class Scorer(ExampleScorer):
    """Scores examples with one model."""

    def __init__(self, engine: Engine, task_type: TaskType):
        super().__init__(task_type)
        self._engine = engine
        self._encoder_lock = threading.Lock()  # an encoder has a cache of words, which is not thread-safe

    def encode(self, examples: Sequence[E]) -> list[EncodedExample]:
        """Return the encoded examples."""
        with self._encoder_lock:
            return self._task_type.encode(examples)

    def score_chunk(self, examples: Sequence[E]) -> tuple[list[EncodedExample], list[ExampleScores]]:
        """Return encoded examples, and for each of them the scores of its samples."""
        encoded = self.encode(examples)
        return encoded, self.score(encoded)

    def score(self, encoded: Sequence[EncodedExample]) -> list[ExampleScores]:
        """Return, for each example, the scores of its samples."""
        samples = [sample for example in encoded for sample in example.samples]
        scores_by_index: dict[int, SampleScores] = {}
        for indices in longest_first_groups(samples, self._engine.micro_batch_tokens):
            strip = strip_from_samples([samples[index] for index in indices])
            scores = self._task_type.sample_scores(self._engine.run(strip), strip)
            scores_by_index |= dict(zip(indices, map(check_finite, scores), strict=True))
        all_scores = (scores_by_index[index] for index in range(len(samples)))
        return [[next(all_scores) for _ in example.samples] for example in encoded]


class EnsembleScorer(ExampleScorer):
    """Averages the scores of several scorers; the first one encodes the examples for predictions."""

    def __init__(self, scorers: Sequence[ExampleScorer], weights: Sequence[float], task_type: TaskType):
        super().__init__(task_type)
        self._scorers, self._weights = scorers, weights

    def score_chunk(self, examples: Sequence[E]) -> tuple[list[EncodedExample], list[ExampleScores]]:
        """Return examples as the first scorer encodes them, and for each of them the averaged scores."""
        results = [scorer.score_chunk(examples) for scorer in self._scorers]
        return results[0][0], mean_scores([scores for _, scores in results], self._weights)


def mean_scores(
    scores_by_model: Sequence[Sequence[ExampleScores]], weights: Sequence[float]
) -> list[ExampleScores]:
    """Return the weighted mean of the scores of models; all models must have scored the same samples."""
    total = sum(weights)

    def mean(scores: Sequence[SampleScores]) -> SampleScores:
        weighted = [weight * one.astype(np.float64) for weight, one in zip(weights, scores, strict=True)]
        average: SampleScores = (sum(weighted[1:], weighted[0]) / total).astype(np.float32)
        return average

    return [
        [mean(sample_scores) for sample_scores in zip(*example_scores, strict=True)]
        for example_scores in zip(*scores_by_model, strict=True)
    ]

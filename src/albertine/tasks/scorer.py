"""Scores examples: the task type encodes them, an engine runs them, the task type converts the output.

Examples are processed in chunks, so that memory is bounded. Within a chunk, samples are
sorted by length, because attention computes sequences of the same length together. An
ensemble is scored by the scorers of its members.
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import TypeVar

import numpy as np

from albertine.engines.engine import Engine, check_finite
from albertine.settings.exit_rule import ExitRule
from albertine.tasks.encoding_counts import EncodingCounts
from albertine.tasks.examples import Example, example_chunks
from albertine.tasks.sequences import EncodedExample, longest_first_groups, strip_from_samples
from albertine.tasks.types.task_type import Prediction, SampleScores, TaskType

E = TypeVar("E", bound=Example)
T = TypeVar("T")

ExampleScores = list[SampleScores]

CHUNK_SIZE = 1024  # examples


@dataclass(frozen=True)
class ScoredChunk:
    """Encoded examples with their scores.

    Attributes:
        encoded: the encoded examples.
        scores: for each example, the scores of its samples.
        depths: for each example, the mean number of steps of depth of its samples; None without exit rule.
    """

    encoded: Sequence[EncodedExample]
    scores: Sequence[ExampleScores]
    depths: Sequence[float] | None = None


class ExampleScorer(ABC):
    """Base class of the scorers of one model and of an ensemble; threads may share a scorer."""

    def __init__(self, task_type: TaskType):
        self._task_type = task_type

    @abstractmethod
    def score_chunk(self, examples: Sequence[Example]) -> ScoredChunk:
        """Return encoded examples, and for each of them the scores of its samples."""

    def score_examples(
        self, examples: Iterable[E], counts: EncodingCounts | None = None
    ) -> Iterator[tuple[E, EncodedExample, ExampleScores]]:
        """Yield each example with its encoded form and the scores of its samples, in order.

        Args:
            examples: the examples.
            counts: the counts of truncated and unknown tokens, which are updated; None to count none.
        """
        for chunk, scored in self._scored_chunks(examples, counts):
            yield from zip(chunk, scored.encoded, scored.scores, strict=True)

    def predict(
        self, examples: Iterable[E], counts: EncodingCounts | None = None
    ) -> Iterator[tuple[E, Prediction]]:
        """Yield each example with its prediction, in order; see `score_examples`.

        With an exit rule, a prediction has its `depth`.
        """
        for chunk in self.predict_chunks(examples, counts):
            yield from chunk

    def predict_chunks(
        self, examples: Iterable[E], counts: EncodingCounts | None = None
    ) -> Iterator[list[tuple[E, Prediction]]]:
        """Yield examples with their predictions as `predict` does, in the chunks that are computed together.

        The chunks after the end of a chunk do not depend on the examples before it.
        """
        for chunk, scored in self._scored_chunks(examples, counts):
            yield list(zip(chunk, self._predictions(chunk, scored), strict=True))

    def predict_encoded(
        self, examples: Iterable[E], counts: EncodingCounts | None = None
    ) -> Iterator[tuple[E, EncodedExample, Prediction]]:
        """Yield each example with its encoded form and its prediction, in order; see `predict`."""
        for chunk, scored in self._scored_chunks(examples, counts):
            yield from zip(chunk, scored.encoded, self._predictions(chunk, scored), strict=True)

    def _predictions(self, chunk: Sequence[E], scored: ScoredChunk) -> Iterator[Prediction]:
        """Yield the predictions for a chunk of examples."""
        for index, example in enumerate(chunk):
            encoded, scores = scored.encoded[index], scored.scores[index]
            prediction = prediction_to_write(self._task_type, example, encoded, scores)
            if scored.depths is not None:
                prediction["depth"] = round(scored.depths[index], 3)
            yield prediction

    def _scored_chunks(
        self, examples: Iterable[E], counts: EncodingCounts | None
    ) -> Iterator[tuple[Sequence[E], ScoredChunk]]:
        """Yield the examples in chunks, each with its scores; see `score_examples`."""
        for chunk in example_chunks(examples, CHUNK_SIZE):
            scored = self.score_chunk(chunk)
            if counts is not None:
                counts.add(scored.encoded)
            yield chunk, scored


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

    def __init__(self, engine: Engine, task_type: TaskType, exit_rule: ExitRule | None = None):
        super().__init__(task_type)
        self._engine, self._exit_rule = engine, exit_rule
        self._encoder_lock = threading.Lock()  # an encoder has a cache of words, which is not thread-safe

    def encode(self, examples: Sequence[Example]) -> list[EncodedExample]:
        """Return the encoded examples."""
        with self._encoder_lock:
            return self._task_type.encode(examples)

    def score_chunk(self, examples: Sequence[Example]) -> ScoredChunk:
        """Return encoded examples, and for each of them the scores of its samples."""
        encoded = self.encode(examples)
        scores, depths = self.scores_and_depths(encoded)
        mean_depths = None if depths is None else [fmean(sample_depths) for sample_depths in depths]
        return ScoredChunk(encoded, scores, mean_depths)

    def score(self, encoded: Sequence[EncodedExample]) -> list[ExampleScores]:
        """Return, for each example, the scores of its samples."""
        return self.scores_and_depths(encoded)[0]

    def scores_and_depths(
        self, encoded: Sequence[EncodedExample]
    ) -> tuple[list[ExampleScores], list[list[int]] | None]:
        """Return, for each example, the scores of its samples and the depths at which they were final.

        Without an exit rule, the depths are None.
        """
        samples = [sample for example in encoded for sample in example.samples]
        scores_by_index: dict[int, SampleScores] = {}
        depths_by_index: dict[int, int] = {}
        for indices in longest_first_groups(samples, self._engine.micro_batch_tokens):
            strip = strip_from_samples([samples[index] for index in indices])
            if self._exit_rule is None:
                output = self._engine.run(strip)
            else:
                exited = self._engine.run_with_exits(strip, self._exit_rule)
                output = exited.output
                depths_by_index.update(zip(indices, exited.depths.tolist(), strict=True))
            group_scores = self._task_type.sample_scores(output, strip)
            for index, scores in zip(indices, group_scores, strict=True):
                scores_by_index[index] = check_finite(scores)
        depths = None if self._exit_rule is None else _by_example(encoded, depths_by_index)
        return _by_example(encoded, scores_by_index), depths


class EnsembleScorer(ExampleScorer):
    """Averages the scores of several scorers; the first one encodes the examples for predictions."""

    def __init__(self, scorers: Sequence[ExampleScorer], weights: Sequence[float], task_type: TaskType):
        super().__init__(task_type)
        self._scorers, self._weights = scorers, weights

    def score_chunk(self, examples: Sequence[Example]) -> ScoredChunk:
        """Return examples as the first scorer encodes them, with averaged scores and depths.

        An example counts as truncated if any scorer truncates it.
        """
        chunks = [scorer.score_chunk(examples) for scorer in self._scorers]
        scores = mean_scores([chunk.scores for chunk in chunks], self._weights)
        # Only the members that have an exit rule have depths.
        member_depths = [chunk.depths for chunk in chunks if chunk.depths is not None]
        depths = [fmean(values) for values in zip(*member_depths, strict=True)] if member_depths else None
        truncated = [truncated_tokens(chunk.encoded) for chunk in chunks]
        return ScoredChunk(with_most_truncated(chunks[0].encoded, truncated), scores, depths)


def truncated_tokens(encoded: Sequence[EncodedExample]) -> list[int]:
    """Return the number of truncated tokens of each example."""
    return [example.num_truncated_tokens for example in encoded]


def with_most_truncated(
    encoded: Sequence[EncodedExample], truncated_by_model: Sequence[Sequence[int]]
) -> list[EncodedExample]:
    """Return examples with the largest of the numbers of tokens that several models truncate."""
    return [
        replace(example, num_truncated_tokens=max(numbers))
        for example, *numbers in zip(encoded, *truncated_by_model, strict=True)
    ]


def _by_example(encoded: Sequence[EncodedExample], by_index: Mapping[int, T]) -> list[list[T]]:
    """Return a list for each example of the values of its samples.

    Args:
        encoded: the examples.
        by_index: the value of each sample; samples are numbered through all examples.
    """
    grouped = []
    start = 0
    for example in encoded:
        stop = start + len(example.samples)
        grouped.append([by_index[index] for index in range(start, stop)])
        start = stop
    return grouped


def mean_scores(
    scores_by_model: Sequence[Sequence[ExampleScores]], weights: Sequence[float]
) -> list[ExampleScores]:
    """Return the weighted mean of the scores of models; all models must have scored the same samples."""
    return [
        [_mean_of_sample(sample_scores, weights) for sample_scores in zip(*example_scores, strict=True)]
        for example_scores in zip(*scores_by_model, strict=True)
    ]


def _mean_of_sample(scores: Sequence[SampleScores], weights: Sequence[float]) -> SampleScores:
    """Return the weighted mean of the scores that several models give one sample, computed in fp64."""
    total = np.zeros(scores[0].shape, np.float64)
    for weight, model_scores in zip(weights, scores, strict=True):
        total += weight * model_scores.astype(np.float64)
    mean: SampleScores = (total / sum(weights)).astype(np.float32)
    return mean

"""Words, each with a tag; a word's tag is read at its first piece."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from albertine.errors import InputError
from albertine.model.heads import PredictionOutput
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.settings.schema import display_text
from albertine.tasks.examples import TaggedExample
from albertine.tasks.metrics.scores import tagging_metrics
from albertine.tasks.types.task_type import (
    EncodedExample,
    Ids,
    Metrics,
    SampleScores,
    SequenceBuilder,
    TaskSample,
    TaskType,
    identical_predictions,
    require_label,
)
from albertine.text.tokenizer import Tokenizer
from albertine.train.trainable import ObjectiveLoss

IGNORE_INDEX = -100


class Tagging(TaskType):
    """A tag for every word."""

    objectives = ("tag",)

    def __init__(self, tokenizer: Tokenizer, labels: Sequence[str], max_length: int, dropout: float):
        self._builder = SequenceBuilder(tokenizer, max_length)
        self.labels = tuple(labels)
        self._tag_ids = {label: number for number, label in enumerate(self.labels)}
        self.head_settings = HeadSettings("token", labels=len(self.labels), dropout=dropout)

    def encode(self, examples: Sequence[TaggedExample]) -> list[EncodedExample]:
        """Encode sentences; one that is too long becomes several samples, cut between words."""
        token_ids = iter(self._builder.encode([word for one in examples for word in one.words]))
        unknown = np.array([self._builder.tokenizer.special_ids.unk], np.int32)
        encoded = []
        for example in examples:
            words = [next(token_ids)[: self._builder.max_length - 2] for _ in example.words]
            words = [word if len(word) else unknown for word in words]  # of characters that mean nothing
            tags = (
                [IGNORE_INDEX] * len(words)
                if example.tags is None
                else [self._tag_id(example, t) for t in example.tags]
            )
            encoded.append(EncodedExample(tuple(self._sample(*part) for part in self._chunks(words, tags))))
        return encoded

    def _tag_id(self, example: TaggedExample, tag: str) -> int:
        tag_id = self._tag_ids.get(tag)
        if tag_id is None:
            known = display_text(", ".join(self.labels))
            raise InputError(f"{example.location}: tag {display_text(tag)} is new; the model knows {known}")
        return tag_id

    def _chunks(self, words: list[Ids], tags: list[int]) -> list[tuple[list[Ids], list[int]]]:
        parts: list[tuple[list[Ids], list[int]]] = [([], [])]
        filled, max_tokens = 0, self._builder.max_length - 2
        for word, tag in zip(words, tags, strict=True):
            if filled + len(word) > max_tokens:
                parts.append(([], []))
                filled = 0
            parts[-1][0].append(word)
            parts[-1][1].append(tag)
            filled += len(word)
        return parts

    def _sample(self, words: list[Ids], tags: list[int]) -> TaskSample:
        ids, segments = self._builder.build(np.concatenate([np.empty(0, np.int32), *words]))
        starts = 1 + np.cumsum([0, *(len(word) for word in words[:-1])])[: len(words)]
        target = np.full((2, len(ids)), IGNORE_INDEX, np.int64)  # the tags, and which tokens start a word
        target[0, starts], target[1, starts] = tags, 1
        return TaskSample((ids,), (segments,), target)

    def targets(self, samples: Sequence[TaskSample]) -> Tensor:
        """Return the tag of each token; most have none."""
        return torch.from_numpy(np.concatenate([np.empty(0, np.int64), *(one.target[0] for one in samples)]))

    def target_counts(self, samples: Sequence[TaskSample]) -> Sequence[int]:
        """Return how many tags there are."""
        return (sum(int((sample.target[0] != IGNORE_INDEX).sum()) for sample in samples),)

    def objective_losses(
        self, output: PredictionOutput, targets: Tensor, strip: Strip
    ) -> Sequence[ObjectiveLoss]:  # all kinds are asked alike
        """Return the loss, and how many tags are right."""
        assert output.loss is not None
        return (ObjectiveLoss(output.loss, (output.logits.argmax(1) == targets).sum()),)

    def sample_scores(self, output: PredictionOutput, strip: Strip) -> list[SampleScores]:
        """Return the probabilities of the tags, for each token in turn."""
        probabilities = output.logits.float().softmax(1).cpu().numpy()
        boundaries = strip.offsets[1:-1].numpy()
        return [part.reshape(-1) for part in np.split(probabilities, boundaries)]

    def prediction(
        self, example: TaggedExample, encoded: EncodedExample, scores: Sequence[SampleScores]
    ) -> dict[str, Any]:
        """Return a tag for each word."""
        found = []
        for sample, row in zip(encoded.samples, scores, strict=True):
            token_probabilities = row.reshape(-1, len(self.labels))
            found.append(token_probabilities[sample.target[1] == 1])
        word_probabilities = np.concatenate(found)
        best = word_probabilities.argmax(1)
        return {
            "words": list(example.words),
            "tags": [self.labels[one] for one in best],
            "probabilities": [
                round(float(row[one]), 6) for row, one in zip(word_probabilities, best, strict=True)
            ],
        }

    def compute_metrics(
        self, examples: Sequence[TaggedExample], predictions: Sequence[Mapping[str, Any]]
    ) -> Metrics:
        """Score words, and, where tags are B-, I- and O, what they mark."""
        labels = [require_label(one.tags, one.location, "tags") for one in examples]
        return tagging_metrics(labels, [answer["tags"] for answer in predictions])

    def collapse_reason(
        self, examples: Sequence[TaggedExample], predictions: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Say so if all tags are one."""
        predicted = [tag for answer in predictions for tag in answer["tags"]]
        return identical_predictions(predicted, [tag for one in examples for tag in one.tags or ()], str)

"""A question with options; each option is a sequence with the passage and the question before it.

A passage that is too long loses its end; question and option stay whole.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from albertine.errors import InputError
from albertine.model.heads import PredictionOutput
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.tasks.examples import MultipleChoiceExample
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

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


class MultipleChoice(TaskType):
    """One option out of as many for every question."""

    objectives = ("choice",)

    def __init__(self, tokenizer: Tokenizer, num_options: int, max_length: int, dropout: float):
        self._builder = SequenceBuilder(tokenizer, max_length)
        self.head_settings = HeadSettings("choice", labels=1, options=num_options, dropout=dropout)

    def encode(self, examples: Sequence[MultipleChoiceExample]) -> list[EncodedExample]:
        """Encode questions."""
        texts = [text for one in examples for text in (one.context, one.question, *one.options)]
        token_ids = iter(self._builder.encode(texts))
        encoded = []
        for example in examples:
            if len(example.options) != self.head_settings.options:
                raise InputError(
                    f"{example.location}: {len(example.options)} options, where others have {self.head_settings.options}"
                )
            context, question = next(token_ids), next(token_ids)
            sequences = [self._build_sequence(context, question, next(token_ids)) for _ in example.options]
            ids, segments = zip(*sequences, strict=True)
            encoded.append(EncodedExample((TaskSample(ids, segments, example.correct_option),)))
        return encoded

    def _build_sequence(self, context: Ids, question: Ids, option: Ids) -> tuple[Ids, Ids]:
        question_and_option = np.concatenate([question, option])
        max_tokens = self._builder.max_length - 3
        # Only where question and option alone are too long does the question lose its beginning.
        question_and_option = (
            question_and_option[-max_tokens:]
            if len(question_and_option) > max_tokens
            else question_and_option
        )
        return self._builder.build(context[: max_tokens - len(question_and_option)], question_and_option)

    def targets(self, samples: Sequence[TaskSample]) -> Tensor:
        """Return the numbers of the right options."""
        return torch.tensor([sample.target for sample in samples], dtype=torch.int64)

    def target_counts(self, samples: Sequence[TaskSample]) -> Sequence[int]:
        """Return how many questions there are."""
        return (len(samples),)

    def objective_losses(
        self, output: PredictionOutput, targets: Tensor, strip: Strip
    ) -> Sequence[ObjectiveLoss]:  # all kinds are asked alike
        """Return the loss, and how many questions are answered rightly."""
        assert output.loss is not None
        return (ObjectiveLoss(output.loss, (output.logits.argmax(1) == targets).sum()),)

    def sample_scores(self, output: PredictionOutput, strip: Strip) -> list[SampleScores]:  # noqa: ARG002
        """Return the probabilities of the options."""
        return list(output.logits.float().softmax(1).cpu().numpy())

    def prediction(
        self, example: MultipleChoiceExample, encoded: EncodedExample, scores: Sequence[SampleScores]
    ) -> dict[str, Any]:
        """Return the likeliest option."""
        (row,) = scores
        best = int(row.argmax())
        return {
            "option": best,
            "letter": _LETTERS[best] if best < len(_LETTERS) else str(best),
            "text": example.options[best],
            "probability": round(float(row[best]), 6),
            "probabilities": [round(float(one), 6) for one in row],
        }

    def compute_metrics(
        self, examples: Sequence[MultipleChoiceExample], predictions: Sequence[Mapping[str, Any]]
    ) -> Metrics:
        """Score the questions, all and by group."""
        labels = np.array(
            [require_label(one.correct_option, one.location, "right option") for one in examples]
        )
        is_correct = labels == np.array([answer["option"] for answer in predictions])
        scores = {"accuracy": float(is_correct.mean())}
        for group in sorted({one.group for one in examples} - {""}, reverse=True):
            in_group = np.array([one.group == group for one in examples])
            scores[f"accuracy_{group}"] = float(is_correct[in_group].mean())
        return scores

    def collapse_reason(
        self, examples: Sequence[MultipleChoiceExample], predictions: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Say so if always the same option is taken."""
        predicted = [one["letter"] for one in predictions]
        return identical_predictions(
            predicted, [one.correct_option for one in examples], lambda letter: f"option {letter}"
        )

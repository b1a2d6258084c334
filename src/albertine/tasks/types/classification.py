"""One text or two, with a label out of several, or a number."""

from abc import abstractmethod
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
from albertine.tasks.examples import TextExample
from albertine.tasks.metrics.scores import compute_metric
from albertine.tasks.types.task_type import (
    EncodedExample,
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


class TextTask(TaskType):
    """What labels and numbers have in common: texts in a frame, and one thing to find out."""

    def __init__(self, tokenizer: Tokenizer, max_length: int):
        self._builder = SequenceBuilder(tokenizer, max_length)

    def encode(self, examples: Sequence[TextExample]) -> list[EncodedExample]:
        """Encode examples."""
        token_ids = iter(self._builder.encode([text for one in examples for text in one.texts]))
        encoded = []
        for example in examples:
            first, *rest = (next(token_ids) for _ in example.texts)
            if rest:
                ids, segments = self._builder.build(*self._builder.truncated_pair(first, rest[0]))
            else:
                ids, segments = self._builder.build(first[: self._builder.max_length - 2])
            encoded.append(EncodedExample((TaskSample((ids,), (segments,), self.label_target(example)),)))
        return encoded

    @abstractmethod
    def label_target(self, example: TextExample) -> Any:
        """Return what is to be found out."""

    def target_counts(self, samples: Sequence[TaskSample]) -> Sequence[int]:
        """Return how many there are."""
        return (len(samples),)


class Classification(TextTask):
    """A label out of several."""

    objectives = ("label",)

    def __init__(
        self,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        max_length: int,
        metric_names: Sequence[str],
        dropout: float,
    ):
        super().__init__(tokenizer, max_length)
        self.labels = tuple(labels)
        self._label_ids = {label: number for number, label in enumerate(self.labels)}
        self._metric_names = tuple(metric_names)
        self.head_settings = HeadSettings("classify", labels=len(self.labels), dropout=dropout)

    def label_target(self, example: TextExample) -> int | None:
        """Return the number of the label."""
        if example.label is None:
            return None
        label_id = self._label_ids.get(example.label)
        if label_id is None:
            known = display_text(", ".join(self.labels))
            raise InputError(
                f"{example.location}: label {display_text(example.label)} is new; the model knows {known}"
            )
        return label_id

    def targets(self, samples: Sequence[TaskSample]) -> Tensor:
        """Return the numbers of the labels."""
        return torch.tensor([sample.target for sample in samples], dtype=torch.int64)

    def objective_losses(
        self, output: PredictionOutput, targets: Tensor, strip: Strip
    ) -> Sequence[ObjectiveLoss]:  # all kinds are asked alike
        """Return the loss, and how many labels are right."""
        assert output.loss is not None
        return (ObjectiveLoss(output.loss, (output.logits.argmax(1) == targets).sum()),)

    def sample_scores(self, output: PredictionOutput, strip: Strip) -> list[SampleScores]:  # noqa: ARG002
        """Return the probabilities of the labels."""
        return list(output.logits.float().softmax(1).cpu().numpy())

    def prediction(
        self, example: TextExample, encoded: EncodedExample, scores: Sequence[SampleScores]
    ) -> dict[str, Any]:
        """Return the likeliest label."""
        (row,) = scores
        best = int(row.argmax())
        probabilities = {label: round(float(value), 6) for label, value in zip(self.labels, row, strict=True)}
        return {
            "label": self.labels[best],
            "probability": round(float(row[best]), 6),
            "probabilities": probabilities,
        }

    def compute_metrics(
        self, examples: Sequence[TextExample], predictions: Sequence[Mapping[str, Any]]
    ) -> Metrics:
        """Score the labels."""
        labels = np.array(
            [self._label_ids[require_label(one.label, one.location, "label")] for one in examples]
        )
        predicted = np.array([self._label_ids[answer["label"]] for answer in predictions])
        return {
            name: compute_metric(name, labels, predicted, len(self.labels)) for name in self._metric_names
        }

    def collapse_reason(
        self, examples: Sequence[TextExample], predictions: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Say so if all labels are one."""
        return identical_predictions(
            [one["label"] for one in predictions], [one.label for one in examples], str
        )


class Regression(TextTask):
    """A number."""

    objectives = ("number",)

    def __init__(self, tokenizer: Tokenizer, max_length: int, metric_names: Sequence[str], dropout: float):
        super().__init__(tokenizer, max_length)
        self._metric_names = tuple(metric_names)
        self.head_settings = HeadSettings("regress", labels=1, dropout=dropout)

    def label_target(self, example: TextExample) -> float | None:
        """Return the number."""
        return example.value

    def targets(self, samples: Sequence[TaskSample]) -> Tensor:
        """Return the numbers."""
        return torch.tensor([sample.target for sample in samples], dtype=torch.float32)

    def objective_losses(
        self, output: PredictionOutput, targets: Tensor, strip: Strip
    ) -> Sequence[ObjectiveLoss]:
        """Return the squared error; a number is never just right."""
        assert output.loss is not None
        return (ObjectiveLoss(output.loss, torch.full((), torch.nan, device=output.loss.device)),)

    def sample_scores(self, output: PredictionOutput, strip: Strip) -> list[SampleScores]:  # noqa: ARG002
        """Return the numbers."""
        return list(output.logits.float().cpu().numpy()[:, None])

    def prediction(
        self, example: TextExample, encoded: EncodedExample, scores: Sequence[SampleScores]
    ) -> dict[str, Any]:
        """Return the number."""
        return {"value": float(scores[0][0])}

    def compute_metrics(
        self, examples: Sequence[TextExample], predictions: Sequence[Mapping[str, Any]]
    ) -> Metrics:
        """Score the numbers."""
        labels = np.array([require_label(one.value, one.location, "number") for one in examples], np.float64)
        predicted = np.array([answer["value"] for answer in predictions], np.float64)
        return {name: compute_metric(name, labels, predicted, 0) for name in self._metric_names}

    def collapse_reason(
        self, examples: Sequence[TextExample], predictions: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Say so if all numbers are about one."""
        labels, predicted = (
            np.array(values, np.float64)
            for values in ([one.value for one in examples], [one["value"] for one in predictions])
        )
        if len(predicted) < 20 or labels.std() == 0 or predicted.std() > 0.01 * labels.std():
            return None
        return f"every answer is about {predicted.mean():.3g}"

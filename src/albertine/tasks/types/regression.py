"""Regression: a number for a text or a pair of texts.

Training standardizes the numbers by mean and standard deviation of the training examples, so
that years and prices are learned like ratings. In a saved model, both are folded into the output
layer, so that it predicts the original numbers.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import numpy as np
import torch
from torch import Tensor

from albertine.errors import InputError
from albertine.model.losses import ObjectiveLoss
from albertine.model.prediction_heads import PredictionOutput
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.tasks.baseline.baseline import predict_numbers
from albertine.tasks.card import TaskCard
from albertine.tasks.examples import TextExample
from albertine.tasks.formats.cells import example_id, parse_number, row_texts
from albertine.tasks.formats.rows import TableRow
from albertine.tasks.metrics.scores import compute_metric
from albertine.tasks.outcomes import Outcome
from albertine.tasks.sequences import EncodedExample, TaskSample
from albertine.tasks.settings import DataSettings
from albertine.tasks.types.json_schema import NUMBER, Schema, object_of
from albertine.tasks.types.task_type import Metrics, Prediction, SampleScores, require_label
from albertine.tasks.types.text_task import TextTask, num_texts_of, shown_texts
from albertine.text.tokenizer import Tokenizer

_MIN_PREDICTIONS = 20  # fewer may be similar by chance
_MIN_SPREAD = 0.01  # standard deviation of the standardized predictions
_OUTPUT_LAYER = re.compile(r"(head|exit_heads\.\d+)\.out\.(weight|bias)")
_MAX_NUMBER = 1e30  # the sum of squares of larger numbers may overflow, and weights are in fp32


class Regression(TextTask):
    """The task type "regress": a number."""

    name = "regress"
    title = "regression"
    head_kind = "regress"
    predicts_numbers = True
    metric_names = ("pearson", "spearman", "rmse")
    primary_metrics = ("pearson", "spearman")
    similar_task = "sts-b"
    table_columns = ("value",)
    prediction_description = "a number"
    score_title = "mean distance from the right number"
    objectives = ("number",)

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_length: int,
        metric_names: Sequence[str],
        dropout: float,
        num_texts: int | None = None,
    ):
        super().__init__(tokenizer, max_length, num_texts)
        self._computed_metrics = tuple(metric_names)
        self.head_settings = HeadSettings("regress", labels=1, dropout=dropout)
        self._mean, self._scale = 0.0, 1.0  # those of a saved model, which predicts original numbers

    @classmethod
    def from_card(
        cls,
        card: TaskCard,
        tokenizer: Tokenizer,
        *,
        answerable: bool,  # noqa: ARG003
        dropout: float,
    ) -> "Regression":
        """Return the task type of a model, from its task card."""
        return cls(tokenizer, card.max_length, card.metric_names, dropout, num_texts_of(card))

    @classmethod
    def example_from_row(cls, row: TableRow, columns: DataSettings, *, require_labels: bool) -> TextExample:
        """Return the texts and the number of a row."""
        texts = row_texts(row, columns)
        value = parse_number(row.number_cell(columns.label), columns.label) if require_labels else None
        return TextExample(row.location, example_id(row, columns), texts, value=value)

    def label_target(self, example: TextExample) -> float | None:
        """Return the number."""
        return example.value

    def updated_card(self, card: TaskCard) -> TaskCard:
        """Return the card with the standard deviation of the numbers."""
        if card.target_scale is not None and not self.target_transform:  # of a model that is not in training
            return card
        return replace(card, target_scale=self._scale)

    @property
    def target_transform(self) -> dict[str, float]:
        """Mean and standard deviation of the numbers; empty if they are not standardized."""
        is_standardized = (self._mean, self._scale) != (0.0, 1.0)
        return {"target_mean": self._mean, "target_scale": self._scale} if is_standardized else {}

    def fit_target_transform(self, samples: Sequence[TaskSample], source: str) -> None:
        """Standardize targets by mean and standard deviation of the training samples."""
        numbers = np.array([sample.target for sample in samples], np.float64)
        if numbers.min() == numbers.max():
            raise InputError(f"{source}: all numbers are {numbers[0]:g}; there must be at least two")
        if np.abs(numbers).max() > _MAX_NUMBER:
            raise InputError(
                f"{source}: the number {numbers[np.abs(numbers).argmax()]:g} is too large; "
                f"divide all numbers, so that none is above {_MAX_NUMBER:g}"
            )
        self._mean, self._scale = float(numbers.mean()), float(numbers.std())
        if self._scale == 0.0:
            raise InputError(f"{source}: the numbers are too close to each other; multiply them")

    def weights_to_save(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the output layers, those of exits too, with mean and standard deviation folded in."""
        saved = {}
        for name, values in weights.items():
            if _OUTPUT_LAYER.fullmatch(name):
                offset = self._mean if name.endswith("bias") else 0.0
                saved[name] = (values.double() * self._scale + offset).to(values.dtype)
        return saved

    def targets(self, samples: Sequence[TaskSample]) -> Tensor:
        """Return the standardized numbers, `[samples]`."""
        numbers = torch.tensor([sample.target for sample in samples], dtype=torch.float64)
        return ((numbers - self._mean) / self._scale).float()

    def objective_losses(
        self,
        output: PredictionOutput,
        targets: Tensor,  # noqa: ARG002
        strip: Strip,  # noqa: ARG002
    ) -> Sequence[ObjectiveLoss]:
        """Return the mean squared error; the number of correct predictions is NaN."""
        assert output.loss is not None
        return (ObjectiveLoss(output.loss, torch.full((), torch.nan, device=output.loss.device)),)

    def sample_losses(self, output: PredictionOutput, targets: Tensor, strip: Strip) -> Sequence[Tensor]:  # noqa: ARG002
        """Return the squared error of each number, [samples]."""
        return ((output.logits.float() - targets) ** 2,)

    def sample_scores(self, output: PredictionOutput, strip: Strip) -> list[SampleScores]:  # noqa: ARG002
        """Return the predicted number of each sample in its original unit, each `[1]`."""
        numbers = output.logits.double().cpu().numpy() * self._scale + self._mean
        return list(numbers.astype(np.float32)[:, None])

    def prediction(
        self,
        example: TextExample,  # noqa: ARG002
        encoded: EncodedExample,  # noqa: ARG002
        scores: Sequence[SampleScores],
    ) -> Prediction:
        """Return the predicted number."""
        return {"value": float(scores[0][0])}

    def prediction_schema(self) -> Schema:
        """Return the JSON schema of a prediction."""
        return object_of({"value": NUMBER})

    def compute_metrics(
        self, examples: Sequence[TextExample], predictions: Sequence[Mapping[str, Any]]
    ) -> Metrics:
        """Return the metrics of the task card."""
        labels = np.array(
            [require_label(example.value, example.location, "number") for example in examples], np.float64
        )
        predicted = np.array([prediction["value"] for prediction in predictions], np.float64)
        return {name: compute_metric(name, labels, predicted) for name in self._computed_metrics}

    @classmethod
    def baseline_predictions(
        cls,
        train: Sequence[TextExample],
        examples: Sequence[TextExample],
        *,
        balanced: bool = False,  # noqa: ARG003
    ) -> list[Prediction]:
        """Return the number of each example that a bag of words predicts."""
        return [{"value": number} for number in predict_numbers(train, examples)]

    @classmethod
    def constant_predictions(
        cls, train: Sequence[TextExample], examples: Sequence[TextExample]
    ) -> tuple[str, list[Prediction]]:
        """Return the mean of the numbers of train for each example."""
        mean = fmean(require_label(example.value, example.location, "number") for example in train)
        return f"always {mean:.4g}, the mean", [{"value": mean}] * len(examples)

    def outcome(self, example: TextExample, prediction: Mapping[str, Any]) -> Outcome:
        """Return the predicted number beside the right one."""
        expected = require_label(example.value, example.location, "number")
        distance = abs(prediction["value"] - expected)
        return Outcome(
            f"{expected:.4g}",
            f"{prediction['value']:.4g}",
            shown_texts(example),
            score=distance,
            severity=distance,
            expected_number=expected,
            predicted_number=prediction["value"],
        )

    def collapse_reason(
        self,
        examples: Sequence[TextExample],
        predictions: Sequence[Mapping[str, Any]],
        loss: float,  # noqa: ARG002
    ) -> str | None:
        """Return a message if all predicted numbers are nearly the same."""
        labels = np.array([example.value for example in examples], np.float64)
        predicted = np.array([prediction["value"] for prediction in predictions], np.float64)
        is_spread = predicted.std() > _MIN_SPREAD * self._scale
        if len(predicted) < _MIN_PREDICTIONS or labels.std() == 0 or is_spread:
            return None
        return f"every prediction is about {predicted.mean():.4g}"

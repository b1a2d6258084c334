"""Regression: a number for a text or a pair of texts."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from albertine.model.heads import PredictionOutput
from albertine.model.losses import ObjectiveLoss
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.tasks.card import TaskCard
from albertine.tasks.examples import TextExample
from albertine.tasks.formats.cells import example_id, parse_number, row_texts
from albertine.tasks.formats.tables import TableRow
from albertine.tasks.metrics.scores import compute_metric
from albertine.tasks.sequences import EncodedExample, TaskSample
from albertine.tasks.settings import DataSettings
from albertine.tasks.types.task_type import Metrics, Prediction, SampleScores, require_label
from albertine.tasks.types.text_task import TextTask, num_texts_of
from albertine.text.tokenizer import Tokenizer

_MIN_PREDICTIONS = 20  # fewer may be similar by chance
_MIN_SPREAD = 0.01  # standard deviation of the predictions, relative to that of the labels


class Regression(TextTask):
    """The task type "regress": a number."""

    name = "regress"
    title = "regression"
    head_kind = "regress"
    metric_names = ("pearson", "spearman", "rmse")
    primary_metrics = ("pearson", "spearman")
    similar_task = "sts-b"
    table_columns = ("value",)
    prediction_description = "a number"
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
        value = parse_number(row.cells.get(columns.label), columns.label) if require_labels else None
        return TextExample(row.location, example_id(row, columns), texts, value=value)

    def label_target(self, example: TextExample) -> float | None:
        """Return the number."""
        return example.value

    def targets(self, samples: Sequence[TaskSample]) -> Tensor:
        """Return the numbers, `[samples]`."""
        return torch.tensor([sample.target for sample in samples], dtype=torch.float32)

    def objective_losses(
        self,
        output: PredictionOutput,
        targets: Tensor,  # noqa: ARG002
        strip: Strip,  # noqa: ARG002
    ) -> Sequence[ObjectiveLoss]:
        """Return the mean squared error of the head, without a number of correct predictions."""
        assert output.loss is not None
        return (ObjectiveLoss(output.loss, torch.full((), torch.nan, device=output.loss.device)),)

    def sample_scores(self, output: PredictionOutput, strip: Strip) -> list[SampleScores]:  # noqa: ARG002
        """Return the predicted number of each sample, each `[1]`."""
        return list(output.logits.float().cpu().numpy()[:, None])

    def prediction(
        self,
        example: TextExample,  # noqa: ARG002
        encoded: EncodedExample,  # noqa: ARG002
        scores: Sequence[SampleScores],
    ) -> Prediction:
        """Return the predicted number."""
        return {"value": float(scores[0][0])}

    def compute_metrics(
        self, examples: Sequence[TextExample], predictions: Sequence[Mapping[str, Any]]
    ) -> Metrics:
        """Return the metrics of the task card."""
        labels = np.array(
            [require_label(example.value, example.location, "number") for example in examples], np.float64
        )
        predicted = np.array([prediction["value"] for prediction in predictions], np.float64)
        return {name: compute_metric(name, labels, predicted, 0) for name in self._computed_metrics}

    def collapse_reason(
        self, examples: Sequence[TextExample], predictions: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Return a message if all predicted numbers are nearly the same."""
        labels = np.array([example.value for example in examples], np.float64)
        predicted = np.array([prediction["value"] for prediction in predictions], np.float64)
        is_spread = predicted.std() > _MIN_SPREAD * labels.std()
        if len(predicted) < _MIN_PREDICTIONS or labels.std() == 0 or is_spread:
            return None
        return f"every prediction is about {predicted.mean():.3g}"

"""Multi-label classification: any number of labels for a text or a pair of texts.

Each label has a probability of its own, a sigmoid. A prediction has the labels whose probability reaches
the threshold, which is the one with the best micro-averaged F1 on dev.
"""

import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from albertine import progress
from albertine.display import display_text
from albertine.errors import InputError
from albertine.model.losses import ObjectiveLoss
from albertine.model.prediction_heads import PredictionOutput
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.tasks.baseline.baseline import predict_label_probabilities
from albertine.tasks.card import TaskCard, sorted_labels
from albertine.tasks.examples import MultiLabelExample
from albertine.tasks.formats.cells import (
    example_id,
    joined_label,
    parse_label_columns,
    parse_label_set,
    row_texts,
)
from albertine.tasks.formats.rows import TableRow
from albertine.tasks.metrics.multi_label import best_label_threshold, multi_label_metrics
from albertine.tasks.outcomes import Decision, Outcome, cut_answer
from albertine.tasks.sequences import EncodedExample, TaskSample
from albertine.tasks.settings import DataSettings
from albertine.tasks.types.json_schema import PROBABILITY, Schema, array_of, object_of, one_of
from albertine.tasks.types.task_type import (
    Metrics,
    Prediction,
    SampleScores,
    identical_predictions,
    most_common,
    require_label,
    unknown_label_error,
)
from albertine.tasks.types.text_task import TextTask, num_texts_of, shown_texts
from albertine.text.tokenizer import Tokenizer

_MAX_LABELS = 1000  # more labels suggest that the separator or the column is the wrong one
_INFORMED_SHARE = 0.99  # a loss that is closer to that of label frequencies may be lower by chance


class MultiLabel(TextTask):
    """The task type "multi-label": any number of labels."""

    name = "multi-label"
    title = "multi-label classification"
    head_kind = "multi-label"
    primary_metrics = ("micro_f1",)
    balanced_metric = "macro_f1"
    has_labels = True
    targets_are_label_sets = True
    similar_task = "sst-2"
    table_columns = ("labels", "probabilities")
    list_separator = ";"
    column_settings = (*TextTask.column_settings, "label_separator")
    joinable_columns = ("text", "text_pair", "label")
    prediction_description = "any number of its labels"
    objectives = ("labels",)
    decision_unit = "labels of the examples"
    absent_class = "without the label"
    score_title = "examples with exactly the right labels"

    def __init__(
        self,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        max_length: int,
        dropout: float,
        threshold: float,
        num_texts: int | None = None,
    ):
        super().__init__(tokenizer, max_length, num_texts)
        self.labels, self.threshold = tuple(labels), threshold
        self._label_ids = {label: index for index, label in enumerate(self.labels)}
        self.head_settings = HeadSettings("multi-label", labels=len(self.labels), dropout=dropout)

    @classmethod
    def from_card(
        cls,
        card: TaskCard,
        tokenizer: Tokenizer,
        *,
        answerable: bool,  # noqa: ARG003
        dropout: float,
    ) -> "MultiLabel":
        """Return the task type of a model, from its task card."""
        return cls(tokenizer, card.labels, card.max_length, dropout, card.label_threshold, num_texts_of(card))

    @classmethod
    def selecting_metrics(cls, card: TaskCard) -> tuple[str, ...]:  # noqa: ARG003
        """Return all metrics but the threshold."""
        return ("micro_f1", "macro_f1", "exact_match")

    @classmethod
    def complete_card(cls, card: TaskCard, examples: Sequence[MultiLabelExample], source: str) -> TaskCard:
        """Return the card with the labels of the examples."""
        labels = sorted_labels(label for example in examples for label in example.labels or ())
        if not labels:
            raise InputError(f"{source}: no example has a label; name the right column with --label")
        if len(labels) > _MAX_LABELS:
            raise InputError(
                f"{source}: {len(labels):,} labels, such as {display_text(labels[0])}; "
                f"at most {_MAX_LABELS:,}: name the right column with --label, or another --label-separator"
            )
        if joined := joined_label(labels):
            label, separator = joined
            progress.print_message(
                f"{source}: the label {display_text(label)} seems to be several; if a cell has "
                f"several with such a sign between them, give --label-separator {shlex.quote(separator)}"
            )
        elif all(len(example.labels or ()) == 1 for example in examples):
            progress.print_message(
                f"{source}: every example has one label; --task classify learns to choose one of them"
            )
        return replace(card, labels=labels)

    def updated_card(self, card: TaskCard) -> TaskCard:
        """Return the card with the fitted threshold."""
        return replace(card, label_threshold=self.threshold)

    @classmethod
    def example_from_row(
        cls, row: TableRow, columns: DataSettings, *, require_labels: bool
    ) -> MultiLabelExample:
        """Return the texts of a row, and its labels from a cell or from several columns of 0 and 1."""
        texts = row_texts(row, columns)
        labels = None
        if require_labels and columns.label in row.joined:
            labels = parse_label_columns(row, row.joined[columns.label])
        elif require_labels:
            labels = parse_label_set(row.cells.get(columns.label), columns.label_separator)
        return MultiLabelExample(row.location, example_id(row, columns), texts, labels=labels)

    def label_target(self, example: Any) -> tuple[float, ...] | None:
        """Return 1 for each label that the example has and 0 for the others, or None if it is unlabeled."""
        labels = getattr(example, "labels", None)
        if labels is None:
            return None
        unknown = next((label for label in labels if label not in self._label_ids), None)
        if unknown is not None:
            raise unknown_label_error(example.location, "label", unknown, self.labels)
        return tuple(float(label in labels) for label in self.labels)

    def targets(self, samples: Sequence[TaskSample]) -> Tensor:
        """Return the targets, `[samples, labels]`."""
        rows = [sample.target for sample in samples]
        return torch.tensor(rows, dtype=torch.float32).view(len(rows), len(self.labels))

    def objective_losses(
        self,
        output: PredictionOutput,
        targets: Tensor,
        strip: Strip,  # noqa: ARG002
    ) -> Sequence[ObjectiveLoss]:
        """Return the loss, and the number of samples whose labels are all correct."""
        assert output.loss is not None
        correct = ((output.logits > 0) == (targets > 0)).all(1).sum()
        return (ObjectiveLoss(output.loss, correct),)

    def sample_losses(self, output: PredictionOutput, targets: Tensor, strip: Strip) -> Sequence[Tensor]:  # noqa: ARG002
        """Return the mean binary cross-entropy over the labels of each sample, [samples]."""
        losses = functional.binary_cross_entropy_with_logits(output.logits.float(), targets, reduction="none")
        return (losses.mean(1),)

    def sample_scores(self, output: PredictionOutput, strip: Strip) -> list[SampleScores]:  # noqa: ARG002
        """Return the probabilities of the labels for each sample, each `[labels]`."""
        return list(output.logits.float().sigmoid().cpu().numpy())

    def prediction(
        self,
        example: Any,  # noqa: ARG002
        encoded: EncodedExample,  # noqa: ARG002
        scores: Sequence[SampleScores],
    ) -> Prediction:
        """Return the labels whose probability reaches the threshold."""
        probabilities = [round(float(probability), 6) for probability in scores[0]]
        pairs = list(zip(self.labels, probabilities, strict=True))
        return {
            "labels": [label for label, probability in pairs if probability >= self.threshold],
            "probabilities": dict(pairs),
        }

    def prediction_schema(self) -> Schema:
        """Return the JSON schema of a prediction."""
        probabilities = object_of(dict.fromkeys(self.labels, PROBABILITY), closed=True)
        return object_of({"labels": array_of(one_of(self.labels)), "probabilities": probabilities})

    def with_logits(self) -> "LogitMultiLabel":
        """Return this task type with the logits of the labels as scores."""
        return LogitMultiLabel(
            self._builder.tokenizer,
            self.labels,
            self._builder.max_length,
            0.0,
            self.threshold,
            self.num_texts,
        )

    def compute_metrics(
        self, examples: Sequence[MultiLabelExample], predictions: Sequence[Mapping[str, Any]]
    ) -> Metrics:
        """Return micro-averaged and macro-averaged F1, and the share of examples with the right labels."""
        truth = self._indicators(
            [require_label(example.labels, example.location, "labels") for example in examples]
        )
        predicted = self._indicators([prediction["labels"] for prediction in predictions])
        return multi_label_metrics(truth, predicted)

    def _indicators(self, label_sets: Sequence[Sequence[str]]) -> NDArray[np.bool_]:
        """Return which example has which label, `[examples, labels]`."""
        indicators = np.zeros((len(label_sets), len(self.labels)), np.bool_)
        for row, labels in zip(indicators, label_sets, strict=True):
            row[[self._label_ids[label] for label in labels]] = True
        return indicators

    def fit_threshold(
        self, examples: Sequence[MultiLabelExample], predictions: Sequence[Mapping[str, Any]]
    ) -> bool:
        """Fit the threshold of the probabilities."""
        truth = self._indicators([example.labels or () for example in examples])
        probabilities = np.array([list(prediction["probabilities"].values()) for prediction in predictions])
        self.threshold = best_label_threshold(truth, probabilities)
        return True

    @classmethod
    def baseline_predictions(
        cls,
        train: Sequence[MultiLabelExample],
        examples: Sequence[MultiLabelExample],
        *,
        balanced: bool = False,
    ) -> list[Prediction]:
        """Return the labels of each example that bags of words predict, one for each label."""
        labels, probabilities = predict_label_probabilities(train, examples, balanced=balanced)
        truth = np.zeros(probabilities.shape, np.bool_)
        for row, example in enumerate(examples):
            truth[row] = [label in (example.labels or ()) for label in labels]
        threshold = best_label_threshold(truth, probabilities)  # as that of the model, on the same examples
        return [
            {"labels": [label for label, value in zip(labels, row, strict=True) if value >= threshold]}
            for row in probabilities
        ]

    @classmethod
    def constant_predictions(
        cls, train: Sequence[MultiLabelExample], examples: Sequence[MultiLabelExample]
    ) -> tuple[str, list[Prediction]]:
        """Return the most common set of labels of train for each example."""
        labels = most_common(tuple(sorted(example.labels or ())) for example in train)
        return f"always \u201c{cut_answer(_label_text(labels))}\u201d", [{"labels": list(labels)}] * len(
            examples
        )

    def outcome(self, example: MultiLabelExample, prediction: Mapping[str, Any]) -> Outcome:
        """Return the predicted labels beside the right ones; each label is a choice of its own."""
        expected = require_label(example.labels, example.location, "labels")
        decisions, severity = [], 0.0
        for label, probability in prediction["probabilities"].items():
            has_label, is_predicted = label in expected, label in prediction["labels"]
            certainty = probability if is_predicted else 1 - probability
            is_right = has_label == is_predicted
            classes = (
                label if has_label else self.absent_class,
                label if is_predicted else self.absent_class,
            )
            decisions.append(Decision(*classes, certainty, is_right))
            severity = severity if is_right else max(severity, certainty)
        return Outcome(
            cut_answer(_label_text(sorted(expected))),
            cut_answer(_label_text(prediction["labels"])),
            shown_texts(example),
            score=float(set(expected) == set(prediction["labels"])),
            severity=severity,
            decisions=tuple(decisions),
        )

    def collapse_reason(
        self, examples: Sequence[MultiLabelExample], predictions: Sequence[Mapping[str, Any]], loss: float
    ) -> str | None:
        """Return a message if all predictions are the same, and the loss tells nothing of the texts."""
        truth = self._indicators([example.labels or () for example in examples])
        shares = np.clip(truth.mean(0), 1e-12, 1 - 1e-12)
        entropy = float(-(shares * np.log(shares) + (1 - shares) * np.log(1 - shares)).mean())
        if loss < _INFORMED_SHARE * entropy:
            return None
        return identical_predictions(
            [tuple(prediction["labels"]) for prediction in predictions],
            [tuple(sorted(example.labels or (), key=self.labels.index)) for example in examples],
            _label_text,
            math.inf,  # the loss of each label has been judged above
        )


def _label_text(labels: Sequence[str]) -> str:
    return ", ".join(labels) or "no label"


class LogitMultiLabel(MultiLabel):
    """Multi-label classification with logits as scores; only for scoring."""

    def sample_scores(self, output: PredictionOutput, strip: Strip) -> list[SampleScores]:  # noqa: ARG002
        """Return the logits of the labels for each sample, each `[labels]`."""
        return list(output.logits.float().cpu().numpy())

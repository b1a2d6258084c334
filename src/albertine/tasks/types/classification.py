"""Classification: one label for a text or a pair of texts."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from albertine import progress
from albertine.display import display_text
from albertine.errors import InputError
from albertine.model.prediction_heads import PredictionOutput
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.tasks.baseline.baseline import predict_labels
from albertine.tasks.card import USUAL_LABELS, TaskCard, has_too_many_labels, sorted_labels
from albertine.tasks.examples import TextExample
from albertine.tasks.formats.cells import example_id, joined_label, parse_label, row_texts
from albertine.tasks.formats.headers import is_number
from albertine.tasks.formats.rows import TableRow
from albertine.tasks.metrics.scores import LABEL_F1, compute_metric, f1, label_f1
from albertine.tasks.outcomes import Decision, Outcome, cut_answer
from albertine.tasks.sequences import EncodedExample, TaskSample
from albertine.tasks.settings import DataSettings
from albertine.tasks.types.json_schema import PROBABILITY, Schema, object_of, one_of
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


class Classification(TextTask):
    """The task type "classify": one label out of several."""

    name = "classify"
    title = "classification"
    head_kind = "classify"
    metric_names = ("accuracy", "macro_f1", "matthews")
    balanced_metric = "macro_f1"
    has_labels = True
    targets_are_labels = True
    similar_task = "sst-2"
    table_columns = ("label", "probability")
    prediction_description = "one of its labels"
    objectives = ("label",)

    def __init__(
        self,
        tokenizer: Tokenizer,
        labels: Sequence[str],
        max_length: int,
        metric_names: Sequence[str],
        dropout: float,
        num_texts: int | None = None,
    ):
        super().__init__(tokenizer, max_length, num_texts)
        self.labels = tuple(labels)
        self._label_ids = {label: index for index, label in enumerate(self.labels)}
        self._computed_metrics = tuple(metric_names)
        self.head_settings = HeadSettings("classify", labels=len(self.labels), dropout=dropout)

    @classmethod
    def from_card(
        cls,
        card: TaskCard,
        tokenizer: Tokenizer,
        *,
        answerable: bool,  # noqa: ARG003
        dropout: float,
    ) -> "Classification":
        """Return the task type of a model, from its task card."""
        return cls(tokenizer, card.labels, card.max_length, card.metric_names, dropout, num_texts_of(card))

    @classmethod
    def complete_card(cls, card: TaskCard, examples: Sequence[TextExample], source: str) -> TaskCard:
        """Return the card with the labels of the examples and, if there are two, the F1 of each."""
        if card.labels:
            return card
        labels = sorted_labels(example.label for example in examples)
        if has_too_many_labels(len(labels), len(examples)):
            raise InputError(
                f"{source}: {len(labels):,} labels in {len(examples):,} examples; "
                "name the right column with --label, or use --task regress for numbers"
            )
        if len(labels) < 2:
            raise InputError(f"{source}: all labels are {labels[0]}; there must be at least two")
        if len(labels) > USUAL_LABELS and all(map(is_number, labels)):
            progress.print_message(
                f"{source}: {len(labels):,} labels, all of them numbers, such as {display_text(labels[0])}; "
                "if they are quantities and not codes of classes, use --task regress"
            )
        if joined := joined_label(labels):
            progress.print_message(
                f"{source}: the label {display_text(joined[0])} seems to be several; if a cell has several, "
                f"use --task multi-label --label-separator {shlex.quote(joined[1])}"
            )
        label_metrics = map(label_f1, labels) if len(labels) == 2 else ()
        return replace(card, labels=labels, metric_names=(*card.metric_names, *label_metrics))

    @classmethod
    def selecting_metrics(cls, card: TaskCard) -> tuple[str, ...]:
        """Return the metrics of the card, those of the user's own data, and the F1 of each label."""
        names = (*card.metric_names, *cls.metric_names, *map(label_f1, card.labels))
        return tuple(dict.fromkeys(names))

    @classmethod
    def example_from_row(cls, row: TableRow, columns: DataSettings, *, require_labels: bool) -> TextExample:
        """Return the texts and the label of a row."""
        texts = row_texts(row, columns)
        label = parse_label(row.cells.get(columns.label)) if require_labels else None
        return TextExample(row.location, example_id(row, columns), texts, label=label)

    def label_target(self, example: TextExample) -> int | None:
        """Return the id of the label."""
        if example.label is None:
            return None
        label_id = self._label_ids.get(example.label)
        if label_id is None:
            raise unknown_label_error(example.location, "label", example.label, self.labels)
        return label_id

    def targets(self, samples: Sequence[TaskSample]) -> Tensor:
        """Return the ids of the labels, `[samples]`."""
        return torch.tensor([sample.target for sample in samples], dtype=torch.int64)

    def sample_scores(self, output: PredictionOutput, strip: Strip) -> list[SampleScores]:  # noqa: ARG002
        """Return the probabilities of the labels for each sample, each `[labels]`."""
        return list(output.logits.float().softmax(1).cpu().numpy())

    def prediction(
        self,
        example: TextExample,  # noqa: ARG002
        encoded: EncodedExample,  # noqa: ARG002
        scores: Sequence[SampleScores],
    ) -> Prediction:
        """Return the most probable label."""
        (probabilities,) = scores
        best = int(probabilities.argmax())
        return {
            "label": self.labels[best],
            "probability": round(float(probabilities[best]), 6),
            "probabilities": {
                label: round(float(probability), 6)
                for label, probability in zip(self.labels, probabilities, strict=True)
            },
        }

    def prediction_schema(self) -> Schema:
        """Return the JSON schema of a prediction."""
        return object_of(
            {
                "label": one_of(self.labels),
                "probability": PROBABILITY,
                "probabilities": object_of(dict.fromkeys(self.labels, PROBABILITY), closed=True),
            }
        )

    def with_logits(self) -> "LogitClassification":
        """Return this task type with the logits of the labels as scores."""
        return LogitClassification(
            self._builder.tokenizer, self.labels, self._builder.max_length, (), 0.0, self.num_texts
        )

    def compute_metrics(
        self, examples: Sequence[TextExample], predictions: Sequence[Mapping[str, Any]]
    ) -> Metrics:
        """Return the metrics of the task card."""
        label_ids = np.array(
            [self._label_ids[require_label(example.label, example.location, "label")] for example in examples]
        )
        predicted_ids = np.array([self._label_ids[prediction["label"]] for prediction in predictions])
        return {
            name: f1(label_ids, predicted_ids, self._label_ids[name.removeprefix(LABEL_F1)])
            if name.startswith(LABEL_F1)
            else compute_metric(name, label_ids, predicted_ids)
            for name in self._computed_metrics
        }

    @classmethod
    def baseline_predictions(
        cls, train: Sequence[TextExample], examples: Sequence[TextExample], *, balanced: bool = False
    ) -> list[Prediction]:
        """Return the label of each example that a bag of words predicts."""
        return [{"label": label} for label in predict_labels(train, examples, balanced=balanced)]

    @classmethod
    def constant_predictions(
        cls, train: Sequence[TextExample], examples: Sequence[TextExample]
    ) -> tuple[str, list[Prediction]]:
        """Return the most common label of train for each example."""
        label = most_common(example.label for example in train)
        return f"always \u201c{cut_answer(label)}\u201d", [{"label": label}] * len(examples)

    def outcome(self, example: TextExample, prediction: Mapping[str, Any]) -> Outcome:
        """Return the predicted label beside the right one."""
        expected = require_label(example.label, example.location, "label")
        predicted, probability = prediction["label"], prediction["probability"]
        is_right = predicted == expected
        return Outcome(
            cut_answer(expected),
            cut_answer(predicted),
            shown_texts(example),
            score=float(is_right),
            severity=0.0 if is_right else probability,
            decisions=(Decision(expected, predicted, probability, is_right),),
        )

    def collapse_reason(
        self, examples: Sequence[TextExample], predictions: Sequence[Mapping[str, Any]], loss: float
    ) -> str | None:
        """Return a message if all predicted labels are the same."""
        labels = [example.label for example in examples]
        return identical_predictions([prediction["label"] for prediction in predictions], labels, str, loss)


class LogitClassification(Classification):
    """Classification with logits as scores; only for scoring."""

    def sample_scores(self, output: PredictionOutput, strip: Strip) -> list[SampleScores]:  # noqa: ARG002
        """Return the logits of the labels for each sample, each `[labels]`."""
        return list(output.logits.float().cpu().numpy())

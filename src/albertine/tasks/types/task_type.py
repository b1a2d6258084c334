"""The interface of a task type: everything that differs between classification, tagging and so on.

A task type turns examples into samples, the output of a head into scores, scores into
predictions, and predictions into metrics. The scores of a sample are an array that can
be averaged over models.
"""

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from albertine.display import display_text
from albertine.errors import InputError
from albertine.model.losses import ObjectiveLoss
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.settings.model import HeadKind
from albertine.tasks.card import TaskCard
from albertine.tasks.examples import Example
from albertine.tasks.formats.column_request import ColumnRequest
from albertine.tasks.formats.columns import KeepRequest
from albertine.tasks.formats.rows import RowError, TableRow
from albertine.tasks.formats.tables import read_rows
from albertine.tasks.label_spelling import is_number_of_name, labels_alike
from albertine.tasks.outcomes import Outcome
from albertine.tasks.sequences import EncodedExample, TaskSample
from albertine.tasks.settings import DataSettings
from albertine.tasks.types.inputs import InputField
from albertine.tasks.types.json_schema import Schema
from albertine.text.read_errors import ReadErrors
from albertine.text.tokenizer import Tokenizer

SampleScores: TypeAlias = NDArray[np.float32]
Metrics: TypeAlias = dict[str, float]
Prediction: TypeAlias = dict[str, Any]

_TEXT_SETTINGS = ("text", "text_pair", "context", "question", "options")
_MIN_PREDICTIONS = 20  # fewer may be identical by chance
_MAJORITY_SHARE = 0.9
_INFORMED_SHARE = 0.99  # a loss that is closer to the entropy of the labels may be lower by chance


class TaskType(ABC):
    """Base class of the task types; an instance has the labels, lengths and tokenizer of one model.

    Attributes:
        name: name in settings and task cards.
        title: name for reports.
        head_kind: kind of its head.
        metric_names: metrics to compute for the user's own data; empty if the type has a fixed set.
        primary_metrics: metrics whose mean is the primary metric.
        balanced_metric: metric that selects the best model if all labels count the same; None if that is
            the primary metric.
        has_labels: whether a prediction is chosen from a fixed list of labels.
        targets_are_labels: whether each target is the id of a label, so that labels may have weights.
        targets_are_label_sets: whether each target is 0 or 1 for each label, which may have weights too.
        predicts_numbers: whether a prediction is a number, which has no probability.
        scores_per_token: whether each token has scores; members of an ensemble then need the same tokenizer.
        has_parts: whether samples have parts, which the co-matching head reads.
        finds_in_passage: whether the answer is a part of a passage, mostly near words of the question.
        similar_task: task of the paper's Table 14 whose hyperparameters are the defaults.
        table_columns: keys of a prediction that become columns of CSV and TSV files.
        list_separator: separator of the texts of a list in such a column.
        column_settings: settings about the columns of a table.
        optional_columns: settings that name the columns of a table that it may lack.
        joinable_columns: settings that name a text, which may be joined from several columns.
        prediction_description: the output of a model of this type in words, for reports.
        decision_unit: what the choices of an outcome are for, in words, for reports.
        absent_class: class of a choice for an example without the label, if each choice is of one label.
        score_title: what the mean of the scores of outcomes is, in words, for reports.
        head_settings: settings of the head of the model.
        objectives: names of the training objectives.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    head_kind: ClassVar[HeadKind]
    metric_names: ClassVar[tuple[str, ...]] = ()
    primary_metrics: ClassVar[tuple[str, ...]] = ("accuracy",)
    balanced_metric: ClassVar[str | None] = None
    has_labels: ClassVar[bool] = False
    targets_are_labels: ClassVar[bool] = False
    targets_are_label_sets: ClassVar[bool] = False
    predicts_numbers: ClassVar[bool] = False
    scores_per_token: ClassVar[bool] = False
    has_parts: ClassVar[bool] = False
    finds_in_passage: ClassVar[bool] = False
    similar_task: ClassVar[str]
    table_columns: ClassVar[tuple[str, ...]]
    list_separator: ClassVar[str] = " "
    column_settings: ClassVar[tuple[str, ...]]
    optional_columns: ClassVar[tuple[str, ...]] = ("id",)
    joinable_columns: ClassVar[tuple[str, ...]] = ()
    prediction_description: ClassVar[str]
    decision_unit: ClassVar[str] = "examples"
    absent_class: ClassVar[str | None] = None
    score_title: ClassVar[str] = "right answers"

    head_settings: HeadSettings
    objectives: tuple[str, ...]

    # Task cards.

    @classmethod
    @abstractmethod
    def from_card(
        cls, card: TaskCard, tokenizer: Tokenizer, *, answerable: bool, dropout: float
    ) -> "TaskType":
        """Return the task type of a model, from its task card; see `create_task_type`."""

    @classmethod
    def complete_card(cls, card: TaskCard, examples: Sequence[Any], source: str) -> TaskCard:  # noqa: ARG003
        """Return the card with the fields that the examples determine, such as labels.

        Args:
            card: card with the fields that the task determines.
            examples: all examples of train and dev.
            source: name of the data, for error messages.
        """
        return card

    def updated_card(self, card: TaskCard) -> TaskCard:
        """Return the card with values that were fitted during training, such as a threshold."""
        return card

    # Reading the user's own data.

    @classmethod
    def read_examples(
        cls,
        source: str,
        columns: DataSettings,
        errors: ReadErrors,
        *,
        require_labels: bool,
        require_ids: bool,
        keep: KeepRequest | None = None,
    ) -> Iterator[Example]:
        """Yield the examples of a table.

        Args:
            source: a file, or a data set of the hub.
            columns: settings that hold the names of the columns.
            errors: handles invalid rows.
            require_labels: whether every row must have a label.
            require_ids: whether the table must have a column of ids.
            keep: columns to keep in the examples.
        """
        required = cls.required_columns(columns, require_labels=require_labels)
        required |= {columns.id: "--id"} if require_ids else {}
        request = ColumnRequest(
            required,
            required,
            [getattr(columns, name) for name in cls.optional_columns],
            joinable=[getattr(columns, name) for name in cls.joinable_columns],
            label=columns.label if cls.has_labels and require_labels else None,
            texts=cls._text_columns(columns),
            target=columns.label if "label" in cls.column_settings and require_labels else None,
            # The ids of predictions matter to the user; those of labeled rows are for messages only.
            named_id=None if require_labels or columns.id == DataSettings().id else columns.id,
            keep=keep,
            header=columns.header,
        )
        for row in read_rows(source, errors, request):
            try:
                example = cls.example_from_row(row, columns, require_labels=require_labels)
                yield example if row.kept is None else replace(example, kept=row.kept)
            except RowError as error:
                errors.handle(row.location, str(error))

    @classmethod
    def _text_columns(cls, columns: DataSettings) -> dict[str, str]:
        """Return the columns of the texts, each by the option that names it."""
        names = [name for name in _TEXT_SETTINGS if name in cls.column_settings and getattr(columns, name)]
        return {f"--{name.replace('_', '-')}": getattr(columns, name) for name in names}

    @classmethod
    @abstractmethod
    def required_columns(cls, columns: DataSettings, *, require_labels: bool) -> dict[str, str]:
        """Return the columns that a table must have, each with its command-line option."""

    @classmethod
    @abstractmethod
    def example_from_row(cls, row: TableRow, columns: DataSettings, *, require_labels: bool) -> Example:
        """Return the example in a row; raise `RowError` if it is invalid."""

    @classmethod
    def consistent_examples(
        cls,
        examples: Iterable[Example],
        num_options: int | None,  # noqa: ARG003
        errors: ReadErrors,  # noqa: ARG003
    ) -> Iterator[Example]:
        """Yield the examples that fit one model; the others are errors.

        Args:
            examples: all examples.
            num_options: number of options of each question; if None, that of the first question.
            errors: handles the examples that do not fit.
        """
        yield from examples

    # Samples and training.

    @abstractmethod
    def encode(self, examples: Sequence[Any]) -> list[EncodedExample]:
        """Return examples as token ids, with targets if labels are known."""

    @abstractmethod
    def targets(self, samples: Sequence[TaskSample]) -> Any:
        """Return the targets of samples, in the form that the head expects."""

    @abstractmethod
    def target_counts(self, samples: Sequence[TaskSample]) -> Sequence[int]:
        """Return, for each objective, the number of targets over which its loss is averaged."""

    @property
    def target_transform(self) -> dict[str, float]:
        """Numbers with which training transforms targets, such as their mean; empty if it does not."""
        return {}

    def fit_target_transform(self, samples: Sequence[TaskSample], source: str) -> None:  # noqa: B027
        """Fit the transform of targets to the training samples; by default there is none.

        Args:
            samples: the training samples.
            source: name of the data, for error messages.
        """

    def weights_to_save(self, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:  # noqa: ARG002
        """Return the weights to save in place of trained ones, so that the model predicts in original units.

        Args:
            weights: all trained weights, by parameter name.
        """
        return {}

    def objective_losses(self, output: Any, targets: Any, strip: Strip) -> Sequence[ObjectiveLoss]:  # noqa: ARG002
        """Return the losses of the objectives; by default, one: the loss of the head."""
        assert output.loss is not None
        return (ObjectiveLoss(output.loss, (output.logits.argmax(1) == targets).sum()),)

    def sample_losses(self, output: Any, targets: Any, strip: Strip) -> Sequence[Tensor]:  # noqa: ARG002
        """Return the loss of each sample for each objective, a sum over its targets, [samples] each.

        By default, there is one objective, the cross-entropy of the label.
        """
        return (functional.cross_entropy(output.logits.float(), targets, reduction="none"),)

    # Predictions.

    @abstractmethod
    def sample_scores(self, output: Any, strip: Strip) -> list[SampleScores]:
        """Return the scores of each sample; they can be averaged over models."""

    @abstractmethod
    def prediction(self, example: Any, encoded: EncodedExample, scores: Sequence[SampleScores]) -> Prediction:
        """Return the prediction for an example, as JSON values, from the scores of its samples."""

    @abstractmethod
    def parse_inputs(self, inputs: Mapping[str, Any]) -> tuple[Sequence[Example], bool]:
        """Return the examples in the arguments of a pipeline, and whether a list of examples was given."""

    @abstractmethod
    def prediction_schema(self) -> Schema:
        """Return the JSON schema of a prediction, without the keys that all task types have."""

    def with_logits(self) -> "TaskType | None":
        """Return this task type with the logits of an example's labels as scores; None if there are none."""
        return None

    @abstractmethod
    def input_fields(self) -> tuple[InputField, ...]:
        """Return the fields of a request."""

    # Evaluation.

    @abstractmethod
    def compute_metrics(self, examples: Sequence[Any], predictions: Sequence[Mapping[str, Any]]) -> Metrics:
        """Return the metrics of predictions, as the task's official script computes them."""

    def evaluation_warning(self, examples: Sequence[Any]) -> str | None:  # noqa: ARG002
        """Return a message if the model cannot be right on some labeled examples, by its task, else None."""
        return None

    @classmethod
    def selecting_metrics(cls, card: TaskCard) -> tuple[str, ...]:  # noqa: ARG003
        """Return the metrics by which the best model may be selected (`--metric`)."""
        return cls.primary_metrics

    @classmethod
    def primary_metric_names(cls, metrics: Mapping[str, float]) -> tuple[str, ...]:  # noqa: ARG003
        """Return the metrics whose mean is the number by which models are compared."""
        return cls.primary_metrics

    @classmethod
    def primary_metric(cls, metrics: Mapping[str, float]) -> float:
        """Return the number by which models are compared."""
        names = cls.primary_metric_names(metrics)
        return sum(metrics[name] for name in names) / len(names)

    def fit_threshold(self, examples: Sequence[Any], predictions: Sequence[Mapping[str, Any]]) -> bool:  # noqa: ARG002
        """Fit the threshold on labeled examples, if there is one; return whether predictions may change."""
        return False

    @classmethod
    def baseline_predictions(
        cls,
        train: Sequence[Any],  # noqa: ARG003
        examples: Sequence[Any],  # noqa: ARG003
        *,
        balanced: bool = False,  # noqa: ARG003
    ) -> list[Prediction] | None:
        """Return the predictions of a bag of words for examples; None if the type has no such baseline.

        Args:
            train: the labeled examples to which it is fitted, at least one.
            examples: the examples to predict.
            balanced: weigh rare labels in its loss as much as frequent ones.
        """
        return None

    @classmethod
    def constant_predictions(
        cls,
        train: Sequence[Any],  # noqa: ARG003
        examples: Sequence[Any],  # noqa: ARG003
    ) -> tuple[str, list[Prediction]] | None:
        """Return the best predictions of a model that reads nothing, and their name; None if there are none.

        Args:
            train: the labeled examples that it knows, at least one.
            examples: the labeled examples to predict, at least one.
        """
        return None

    @abstractmethod
    def outcome(self, example: Any, prediction: Mapping[str, Any]) -> Outcome:
        """Return a prediction beside the right answer of a labeled example, for reports."""

    @abstractmethod
    def collapse_reason(
        self, examples: Sequence[Any], predictions: Sequence[Mapping[str, Any]], loss: float
    ) -> str | None:
        """Return a message if all predictions are the same although the labels differ, else None.

        Args:
            examples: labeled examples.
            predictions: the prediction of each example.
            loss: sum of the mean losses of all objectives on the examples.
        """


def column_options(columns: DataSettings, *names: str) -> dict[str, str]:
    """Return the columns that the named settings select, each with its command-line option."""
    return {getattr(columns, name): f"--{name.replace('_', '-')}" for name in names}


def require_label(value: Any, location: str, description: str) -> Any:
    """Return the label of an example; raise `InputError` if it is None."""
    if value is None:
        raise InputError(f"{location}: has no {description}, which training and evaluation need")
    return value


def unknown_label_error(location: str, kind: str, label: str, known: Sequence[str]) -> InputError:
    """Return the error for a label that a model does not have.

    Such a row is not skipped: without the rows that the model cannot get right, its score would be too high.
    """
    alike = next((group for group in labels_alike({*known, label}) if label in group), ())
    other = next((spelling for spelling in alike if spelling != label), None)
    advice = f"write {display_text(other)}" if other else "correct it, or remove such rows"
    if is_number_of_name(label, known):  # not replaced: the data may number the names in another order
        advice = (
            "the rows have numbers where the model has names; write the names, which id2label in config.json "
            "and labels in task.json number from 0, maybe not as the data do"
        )
    shown = display_text(", ".join(known))
    return InputError(
        f"{location}: {kind} {display_text(label)} is not one of the model's: {shown}; {advice}"
    )


def most_common(labels: Iterable[Any]) -> Any:
    """Return the most common label; of several, the first one."""
    return Counter(labels).most_common(1)[0][0]


def identical_predictions(
    predictions: Sequence[Any], labels: Sequence[Any], describe: Callable[[Any], str], loss: float = 0.0
) -> str | None:
    """Return a message if all predictions are the same although the labels differ, else None.

    There is no message for a few predictions. If more than nine tenths of the labels are the same, a good
    model may predict it for all examples; then there is only a message if the loss is not below the entropy
    of the labels, which is the least loss of a model that does not read the examples.

    Args:
        predictions: the predictions.
        labels: the label of each prediction.
        describe: returns the words for a prediction.
        loss: mean cross-entropy of the labels; 0 if the model has no such loss.
    """
    if len(predictions) < _MIN_PREDICTIONS or len(set(predictions)) > 1:
        return None
    shares = [count / len(labels) for count in Counter(labels).values()]
    entropy = -sum(share * math.log(share) for share in shares)
    is_mostly_right = labels.count(predictions[0]) > _MAJORITY_SHARE * len(labels)
    if len(shares) == 1 or (is_mostly_right and loss < _INFORMED_SHARE * entropy):
        return None
    return f"every prediction is {describe(predictions[0])}"

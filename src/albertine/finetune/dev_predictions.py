"""The predictions of a fine-tuned model on dev, as a file of bounded size beside the model."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from albertine.atomic import atomic_file
from albertine.checksums import file_checksum
from albertine.errors import InputError
from albertine.input_files import read_json_object
from albertine.json_input import JsonError, dataclass_from_json
from albertine.tasks.outcomes import cut_answer
from albertine.tasks.types.task_type import TaskType
from albertine.train.checkpoints import MODEL_FILE

DEV_PREDICTIONS_FILE = "dev_predictions.json"
_FORMAT = 2


@dataclass(frozen=True)
class ConstantResult:
    """The metrics of predictions that are the same for every example.

    Attributes:
        description: the predictions, such as "always positive".
        metrics: metrics on the examples of `DevPredictions`.
    """

    description: str
    metrics: dict[str, float]


@dataclass(frozen=True)
class WorstText:
    """A text of a wrong prediction, or an excerpt of it; see `ShownText`."""

    name: str
    text: str
    marks: list[list[int]]


@dataclass(frozen=True)
class WorstError:
    """A wrong prediction.

    Attributes:
        example_id: id of the example.
        expected: the right answer.
        predicted: the predicted answer.
        probability: predicted probability of the predicted answer; None if the model gives none.
        texts: what the model read.
    """

    example_id: str
    expected: str
    predicted: str
    probability: float | None
    texts: list[WorstText]


@dataclass(frozen=True)
class ExampleColumns:
    """A value of each example, [examples].

    Attributes:
        ids: ids of the examples, cut if they are long.
        lengths: characters of their texts.
        truncated_tokens: numbers of tokens that did not fit.
        scores: scores, see `TaskType.score_title`.
        expected_numbers: right numbers, for regression; else empty.
        predicted_numbers: predicted numbers, for regression; else empty.
    """

    ids: list[str]
    lengths: list[int]
    truncated_tokens: list[int]
    scores: list[float]
    expected_numbers: list[float]
    predicted_numbers: list[float]


@dataclass(frozen=True)
class DecisionColumns:
    """A value of each choice between classes, [decisions]; see `Decision`.

    Attributes:
        classes: names of the classes.
        expected: index of the right class.
        predicted: index of the predicted class.
        probabilities: predicted probability that the choice is right.
        is_right: whether it is.
    """

    classes: list[str]
    expected: list[int]
    predicted: list[int]
    probabilities: list[float]
    is_right: list[bool]


@dataclass(frozen=True)
class DevPredictions:
    """What a model predicts on dev, or on a sample of it.

    Attributes:
        task: name of the task.
        model_sha256: checksum of the weights, by which predictions of another model are recognized.
        num_dev: number of examples of dev, of which a sample may have been scored.
        num_truncated: number of scored examples that were truncated.
        unknown_share: share of unknown tokens, between 0 and 1.
        constant: metrics of predictions that are always the same; None if the task type has none.
        examples: values of the scored examples.
        decisions: values of their choices between classes.
        num_wrong: number of scored examples with a wrong prediction.
        worst: the worst wrong predictions, the worst first.
    """

    task: str
    model_sha256: str
    num_dev: int
    num_truncated: int
    unknown_share: float
    constant: ConstantResult | None
    examples: ExampleColumns
    decisions: DecisionColumns
    num_wrong: int
    worst: list[WorstError]

    @property
    def num_scored(self) -> int:
        """Number of scored examples."""
        return len(self.examples.ids)

    def only_label(self, task_type: type[TaskType]) -> str | None:
        """Return the label that is always predicted, although others are right; None if there is none."""
        if not task_type.targets_are_labels:
            return None
        predicted, expected = set(self.decisions.predicted), set(self.decisions.expected)
        if len(predicted) != 1 or len(expected) < 2:
            return None
        return self.decisions.classes[predicted.pop()]

    def write(self, folder: Path) -> None:
        """Write the file into the folder of the model."""
        content = json.dumps({"format": _FORMAT, **asdict(self)}, ensure_ascii=False)
        with atomic_file(folder / DEV_PREDICTIONS_FILE) as file:
            file.write_bytes(content.encode("utf-8", "replace") + b"\n")


def one_label_advice(label: str, *, balanced: bool) -> str:
    """Return what is wrong with a model that always predicts one label, and what may help.

    Args:
        label: the label.
        balanced: whether all labels had the same weight in training, or could not have it.
    """
    weights = "" if balanced else "--train.class-weights balanced, "
    return (
        f"on dev, the model always predicts “{cut_answer(label)}”, although "
        f"other labels are right too; try {weights}more steps, or more examples of the others"
    )


def read_dev_predictions(folder: Path) -> DevPredictions | None:
    """Return the predictions beside a model; None if there are none of this model.

    A damaged file is not an error, because the predictions can be computed again.
    """
    try:
        values = read_json_object(folder / DEV_PREDICTIONS_FILE, "")
        if values.pop("format", None) != _FORMAT:
            return None
        predictions = dataclass_from_json(DevPredictions, values)
        _check_columns(predictions)
        is_same_model = predictions.model_sha256 == file_checksum(folder / MODEL_FILE)
    except (InputError, JsonError, OSError):
        return None
    return predictions if is_same_model else None


def _check_columns(predictions: DevPredictions) -> None:
    """Raise `JsonError` if columns differ in length, or have an index out of range."""
    examples, decisions = predictions.examples, predictions.decisions
    columns = (examples.lengths, examples.truncated_tokens, examples.scores)
    numbers = (examples.expected_numbers, examples.predicted_numbers)
    choices = (decisions.predicted, decisions.probabilities, decisions.is_right)
    classes = range(len(decisions.classes))
    if (
        not examples.ids
        or any(len(column) != len(examples.ids) for column in columns)
        or any(len(column) not in (0, len(examples.ids)) for column in numbers)
        or len(numbers[0]) != len(numbers[1])
        or any(len(column) != len(decisions.expected) for column in choices)
        or any(index not in classes for index in (*decisions.expected, *decisions.predicted))
        or any(not 0 <= probability <= 1 for probability in decisions.probabilities)
        or any(
            not (len(mark) == 2 and 0 <= mark[0] <= mark[1])
            for error in predictions.worst
            for text in error.texts
            for mark in text.marks
        )
    ):
        raise JsonError("columns that do not fit each other")

"""The task card, `task.json`: what inference needs besides the weights and the tokenizer."""

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from albertine.display import display_value
from albertine.errors import InputError, check_format
from albertine.input_files import read_json_object
from albertine.interop.hub import TASK_CARD_FILE
from albertine.json_input import JsonError, dataclass_from_json
from albertine.settings import SettingsSource, build_settings
from albertine.settings.schema import SettingError
from albertine.tasks.settings import DataSettings, SequenceSettings

CARD_FORMAT = 2
ANY_OPTIONS = 1  # as number of options: each option is scored by itself, and a question has any number
# With more labels, the column is probably the wrong one if each has few examples, and one of quantities if
# all are numbers.
USUAL_LABELS = 20
_ADVICE = "copy or download it again"
COLUMN_SETTINGS = (
    *("text", "text_pair", "label", "label_separator", "question", "context", "answers", "options", "id"),
)


@dataclass(frozen=True)
class TaskCard:
    """The task that a model was fine-tuned on.

    Attributes:
        task: name of the task.
        type_name: name of its task type.
        labels: labels by id, if the task type has labels.
        metric_names: metrics to compute, for classification and regression.
        metric: metric by which models are compared; None for that of the task.
        num_options: number of options of each question, for multiple choice; `ANY_OPTIONS` if it may differ.
        allows_no_answer: whether questions may have no answer.
        no_answer_threshold: no-answer score above which the predicted answer is empty.
        max_length: maximum tokens of a sequence.
        sequence: how examples become sequences.
        label_threshold: probability from which a label is predicted, for multi-label classification.
        columns: names of the columns of the training data, and the separator of labels, by setting.
        header: whether the first line of the training data, if it is a CSV or TSV file, names its columns.
        precision: precision of the matrix products in fine-tuning; None if unknown.
        target_scale: standard deviation of the numbers to predict, for regression; None if unknown.
        always_given: settings of the optional columns that every training example had.
    """

    task: str
    type_name: str
    labels: tuple[str, ...] = ()
    metric_names: tuple[str, ...] = ()
    metric: str | None = None
    num_options: int = 4
    allows_no_answer: bool = False
    no_answer_threshold: float = 0.0
    label_threshold: float = 0.5
    max_length: int = 512
    sequence: SequenceSettings = field(default_factory=SequenceSettings)
    columns: dict[str, str | None] = field(default_factory=dict)
    header: bool = True
    precision: Literal["fp32", "bf16"] | None = None
    target_scale: float | None = None
    always_given: tuple[str, ...] = ()

    @property
    def is_official(self) -> bool:
        """Whether the task is a published one, not the user's own data."""
        return self.task != self.type_name

    def to_json(self) -> str:
        """Return the content of the card's file."""
        return json.dumps({"format": CARD_FORMAT, **asdict(self)}, indent=2, ensure_ascii=False) + "\n"

    def write(self, folder: Path) -> None:
        """Write the card into the folder of a model."""
        (folder / TASK_CARD_FILE).write_text(self.to_json(), encoding="utf-8")


def parse_card(file: Path) -> TaskCard:
    """Return the card in a file; raise `InputError` if a field is missing or invalid by itself."""
    fields = read_json_object(file, _ADVICE)
    check_format(file, fields.pop("format", None), CARD_FORMAT, "fine-tune the model again")
    missing = {"task", "type_name", "labels", "metric_names", "sequence"} - fields.keys()
    if missing:
        raise InputError(f"{file}: not a task card ({min(missing)} is missing); {_ADVICE}")
    sequence = fields.pop("sequence")
    if not isinstance(sequence, dict):
        raise InputError(f"{file}: sequence = {display_value(sequence)}: must be an object; {_ADVICE}")
    try:
        card = dataclass_from_json(TaskCard, fields)
        unknown = sorted(card.columns.keys() - set(COLUMN_SETTINGS))
        if unknown:
            raise JsonError(f"columns has the unknown key {ascii(unknown[0])[:80]}")
        DataSettings(**card.columns)  # type: ignore[arg-type]
    except JsonError as error:
        raise InputError(f"{file}: {error}; {_ADVICE}") from None
    except SettingError as error:
        raise InputError(f"{file}: columns: {error}; {_ADVICE}") from None
    return replace(card, sequence=build_settings(SequenceSettings, SettingsSource(sequence, str(file))))


def has_too_many_labels(num_labels: int, num_examples: int) -> bool:
    """Return whether a column has too many different values for labels; it then has texts or numbers."""
    return num_labels > max(USUAL_LABELS, num_examples / 2)


def sorted_labels(labels: Iterable[Any]) -> tuple[str, ...]:
    """Return the distinct labels, sorted by value if all are whole numbers, else alphabetically."""
    distinct = {str(label) for label in labels}
    try:
        return tuple(sorted(distinct, key=lambda label: (int(label), label)))
    except ValueError:
        return tuple(sorted(distinct))

"""`task.json`: what a tuned model must know to be asked, beside its weights and its tokenizer.

A checkpoint of `transformers` has none; its head and its config say the rest.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.interop.huggingface import TASK_CARD_FILE
from albertine.model.model import Model
from albertine.settings import HeadSettings, SettingsSource, build_settings
from albertine.tasks.formats.glue import GLUE
from albertine.tasks.registry import TASK_TYPE_NAMES, Task, find_task
from albertine.tasks.settings import SequenceSettings
from albertine.tasks.types.classification import Classification, Regression
from albertine.tasks.types.multiple_choice import MultipleChoice
from albertine.tasks.types.span_extraction import SpanExtraction
from albertine.tasks.types.tagging import Tagging
from albertine.tasks.types.task_type import TaskType
from albertine.text.tokenizer import Tokenizer

CARD_FORMAT = 1
COLUMN_SETTINGS = ("text", "other", "label", "question", "context", "answers", "options", "name")
_TYPE_BY_HEAD = {
    "classify": "classify",
    "regress": "regress",
    "token": "tag",
    "span": "span",
    "choice": "choice",
}


@dataclass(frozen=True)
class TaskCard:
    """A task as a model was tuned on it.

    Attributes:
        task: its name.
        type_name: what its examples are.
        labels: by number.
        metric_names: of labels and numbers.
        num_options: of each question.
        allows_no_answer: whether questions may have no answer.
        no_answer_threshold: above it, there is none.
        max_length: the longest sequence.
        sequence: how long passages are read.
        columns: of a person's own file.
    """

    task: str
    type_name: str
    labels: tuple[str, ...] = ()
    metric_names: tuple[str, ...] = ()
    num_options: int = 4
    allows_no_answer: bool = False
    no_answer_threshold: float = 0.0
    max_length: int = 512
    sequence: SequenceSettings = field(default_factory=SequenceSettings)
    columns: dict[str, str | None] = field(default_factory=dict)

    @property
    def num_texts(self) -> int | None:
        """How many texts it judges at a time; None where nothing says."""
        if self.task in GLUE:
            return len(GLUE[self.task].text_columns)
        return (2 if self.columns.get("other") else 1) if self.columns else None

    def create_task_type(
        self, tokenizer: Tokenizer, *, answerable: bool = False, dropout: float = 0.0
    ) -> TaskType:
        """Return what encodes examples and reads scores."""
        match self.type_name:
            case "classify":
                return Classification(tokenizer, self.labels, self.max_length, self.metric_names, dropout)
            case "regress":
                return Regression(tokenizer, self.max_length, self.metric_names, dropout)
            case "tag":
                return Tagging(tokenizer, self.labels, self.max_length, dropout)
            case "choice":
                return MultipleChoice(tokenizer, self.num_options, self.max_length, dropout)
        span_extraction = SpanExtraction(
            tokenizer,
            self.sequence,
            self.max_length,
            dropout,
            allows_no_answer=self.allows_no_answer,
            answerable=answerable,
        )
        span_extraction.no_answer_threshold = self.no_answer_threshold
        return span_extraction

    def write(self, folder: Path) -> None:
        """Write it beside a model."""
        text = json.dumps({"format": CARD_FORMAT, **asdict(self)}, indent=2, ensure_ascii=False)
        (folder / TASK_CARD_FILE).write_text(text + "\n", encoding="utf-8")


def read_card(folder: Path, model: Model) -> TaskCard:
    """Return the card of a checkpoint; one of another library gets what its head says."""
    file = folder / TASK_CARD_FILE
    if not file.exists():
        return _card_from_head(folder, model)
    try:
        fields = json.loads(file.read_text(encoding="utf-8"))
        if fields.pop("format") != CARD_FORMAT:
            raise InputError(f"{file}: of another version of Albertine; tune the model again")
        reading = build_settings(SequenceSettings, SettingsSource(fields.pop("reading"), str(file)))
        fields |= {key: tuple(map(str, fields[key])) for key in ("labels", "scores")}
        card = TaskCard(sequence=reading, **fields)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file}: not a card of a task ({error}); get the file again") from None
    _check_head(card, model.head_settings, file)
    return card


def _check_head(card: TaskCard, head: HeadSettings, file: Path) -> None:
    if _TYPE_BY_HEAD.get(head.kind) != card.type_name:
        raise InputError(
            f"{file}: says {card.type_name}, the model's head is {head.kind}; get the files again"
        )
    if card.labels and len(card.labels) != head.labels:
        raise InputError(f"{file}: has {len(card.labels)} labels, the model's head {head.labels}")


def _card_from_head(folder: Path, model: Model) -> TaskCard:
    head = model.head_settings
    if head.kind not in _TYPE_BY_HEAD:
        raise InputError(
            f"{folder}: its head is {head.kind}, of no task; tune it first, with albertine finetune {folder}"
        )
    type_name = _TYPE_BY_HEAD[head.kind]
    labels = model.label_names or tuple(f"LABEL_{number}" for number in range(head.labels))
    task = find_task(type_name)
    return TaskCard(
        task=task.name,
        type_name=type_name,
        labels=labels if type_name in ("classify", "tag") else (),
        metric_names=task.metric_names,
        num_options=head.options,
        max_length=min(512, model.settings.max_length),
    )


def card_for_task(card: TaskCard, task: Task, source: str) -> TaskCard:
    """Return a card to answer another task's examples by; its labels must be the same, in whatever order."""
    if task.type_name != card.type_name:
        raise InputError(f"{source}: answers {card.type_name}, and --task {task.name} is {task.type_name}")
    if task.labels and card.task != task.name and set(task.labels) != set(card.labels):
        if len(task.labels) != len(card.labels) or not all(one.startswith("LABEL_") for one in card.labels):
            known, wanted = ", ".join(card.labels), ", ".join(task.labels)
            raise InputError(f"{source}: its labels are {known}; those of {task.name} are {wanted}")
        card = replace(card, labels=task.labels)  # numbers alone: taken to be in the task's order
    scores = (
        task.metric_names if task.name not in TASK_TYPE_NAMES or not card.metric_names else card.metric_names
    )
    return replace(
        card,
        task=task.name,
        metric_names=scores,
        allows_no_answer=card.allows_no_answer or task.allows_no_answer,
    )


def sorted_labels(labels: Sequence[Any]) -> tuple[str, ...]:
    """Return labels in order: numbers by size, names by letter."""
    distinct = {str(one) for one in labels}
    try:
        return tuple(sorted(distinct, key=int))
    except ValueError:
        return tuple(sorted(distinct))

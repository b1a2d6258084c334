"""`task.json`: what a tuned model must know to be asked, beside its weights and its tokenizer.

A checkpoint of `transformers` has none; its head and its config say the rest.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.interop.huggingface import CARD
from albertine.model.network import Model
from albertine.settings import HeadSettings, Layer, read
from albertine.tasks.formats.glue import GLUE
from albertine.tasks.kinds.choices import Choices
from albertine.tasks.kinds.kind import Kind
from albertine.tasks.kinds.labels import Labels, Numbers
from albertine.tasks.kinds.spans import Spans
from albertine.tasks.kinds.tags import Tags
from albertine.tasks.settings import ReadingTask
from albertine.tasks.task import OWN, Task, find
from albertine.text.tokenizer import Tokenizer

FORMAT = 1
COLUMNS = ("text", "other", "label", "question", "context", "answers", "options", "name")
_KINDS = {"classify": "classify", "regress": "regress", "token": "tag", "span": "span", "choice": "choice"}


@dataclass(frozen=True)
class Card:
    """A task as a model was tuned on it.

    Attributes:
        task: its name.
        kind: what its examples are.
        labels: by number.
        scores: of labels and numbers.
        options: of each question.
        maybe_none: whether questions may have no answer.
        threshold: above it, there is none.
        max_length: the longest sequence.
        reading: how long passages are read.
        columns: of a person's own file.
    """

    task: str
    kind: str
    labels: tuple[str, ...] = ()
    scores: tuple[str, ...] = ()
    options: int = 4
    maybe_none: bool = False
    threshold: float = 0.0
    max_length: int = 512
    reading: ReadingTask = field(default_factory=ReadingTask)
    columns: dict[str, str | None] = field(default_factory=dict)

    @property
    def texts(self) -> int | None:
        """How many texts it judges at a time; None where nothing says."""
        if self.task in GLUE:
            return len(GLUE[self.task].texts)
        return (2 if self.columns.get("other") else 1) if self.columns else None

    def reader(self, tokenizer: Tokenizer, *, answerable: bool = False, dropout: float = 0.0) -> Kind:
        """Return what encodes examples and reads scores."""
        match self.kind:
            case "classify":
                return Labels(tokenizer, self.labels, self.max_length, self.scores, dropout)
            case "regress":
                return Numbers(tokenizer, self.max_length, self.scores, dropout)
            case "tag":
                return Tags(tokenizer, self.labels, self.max_length, dropout)
            case "choice":
                return Choices(tokenizer, self.options, self.max_length, dropout)
        spans = Spans(
            tokenizer,
            self.reading,
            self.max_length,
            dropout,
            maybe_none=self.maybe_none,
            answerable=answerable,
        )
        spans.threshold = self.threshold
        return spans

    def write(self, folder: Path) -> None:
        """Write it beside a model."""
        text = json.dumps({"format": FORMAT, **asdict(self)}, indent=2, ensure_ascii=False)
        (folder / CARD).write_text(text + "\n", encoding="utf-8")


def card_in(folder: Path, model: Model) -> Card:
    """Return the card of a checkpoint; one of another library gets what its head says."""
    file = folder / CARD
    if not file.exists():
        return _from_head(folder, model)
    try:
        told = json.loads(file.read_text(encoding="utf-8"))
        if told.pop("format") != FORMAT:
            raise InputError(f"{file}: of another version of Albertine; tune the model again")
        reading = read(ReadingTask, Layer(told.pop("reading"), str(file)))
        told |= {key: tuple(map(str, told[key])) for key in ("labels", "scores")}
        card = Card(reading=reading, **told)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file}: not a card of a task ({error}); get the file again") from None
    _refuse_misfit(card, model.head_settings, file)
    return card


def _refuse_misfit(card: Card, head: HeadSettings, file: Path) -> None:
    if _KINDS.get(head.kind) != card.kind:
        raise InputError(f"{file}: says {card.kind}, the model's head is {head.kind}; get the files again")
    if card.labels and len(card.labels) != head.labels:
        raise InputError(f"{file}: has {len(card.labels)} labels, the model's head {head.labels}")


def _from_head(folder: Path, model: Model) -> Card:
    head = model.head_settings
    if head.kind not in _KINDS:
        raise InputError(
            f"{folder}: its head is {head.kind}, of no task; tune it first, with albertine finetune {folder}"
        )
    kind = _KINDS[head.kind]
    labels = model.labels or tuple(f"LABEL_{number}" for number in range(head.labels))
    task = find(kind)
    return Card(
        task=task.name,
        kind=kind,
        labels=labels if kind in ("classify", "tag") else (),
        scores=task.scores,
        options=head.options,
        max_length=min(512, model.model.max_length),
    )


def for_task(card: Card, task: Task, source: str) -> Card:
    """Return a card to answer another task's examples by; its labels must be the same, in whatever order."""
    if task.kind != card.kind:
        raise InputError(f"{source}: answers {card.kind}, and --task {task.name} is {task.kind}")
    if task.labels and card.task != task.name and set(task.labels) != set(card.labels):
        if len(task.labels) != len(card.labels) or not all(one.startswith("LABEL_") for one in card.labels):
            known, wanted = ", ".join(card.labels), ", ".join(task.labels)
            raise InputError(f"{source}: its labels are {known}; those of {task.name} are {wanted}")
        card = replace(card, labels=task.labels)  # numbers alone: taken to be in the task's order
    scores = task.scores if task.name not in OWN or not card.scores else card.scores
    return replace(card, task=task.name, scores=scores, maybe_none=card.maybe_none or task.maybe_none)


def labels_among(found: Sequence[Any]) -> tuple[str, ...]:
    """Return labels in order: numbers by size, names by letter."""
    every = {str(one) for one in found}
    try:
        return tuple(sorted(every, key=int))
    except ValueError:
        return tuple(sorted(every))

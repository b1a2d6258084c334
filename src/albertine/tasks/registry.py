"""The task types and the tasks. A new task type is one file in `types/` and one entry here."""

from collections.abc import Mapping
from functools import partial

from albertine.errors import InputError, did_you_mean
from albertine.settings.model import HeadKind
from albertine.tasks.card import TaskCard
from albertine.tasks.formats import glue, race, squad
from albertine.tasks.task import Task
from albertine.tasks.types.classification import Classification
from albertine.tasks.types.multiple_choice import MultipleChoice
from albertine.tasks.types.regression import Regression
from albertine.tasks.types.span_extraction import SpanExtraction
from albertine.tasks.types.tagging import Tagging
from albertine.tasks.types.task_type import TaskType
from albertine.text.tokenizer import Tokenizer

TASK_TYPES: Mapping[str, type[TaskType]] = {
    one.name: one for one in (Classification, Regression, Tagging, SpanExtraction, MultipleChoice)
}


def _glue_task(name: str, layout: glue.GlueTask) -> Task:
    return Task(
        name,
        Classification if layout.labels else Regression,
        labels=layout.labels,
        metric_names=layout.metric_names,
        primary_metrics=layout.primary_metrics,
        aliases=layout.aliases,
        reader=partial(glue.read_examples, name),
        reads_files=False,
        splits=partial(glue.split_names, name),
        write_submission=partial(glue.write_submission, name),
    )


_OFFICIAL_TASKS = (
    *(_glue_task(name, layout) for name, layout in glue.GLUE.items()),
    Task(
        "squad-1.1",
        SpanExtraction,
        aliases=("squad", "squad1.1", "squad-v1.1"),
        reader=partial(squad.read_examples, "squad-1.1"),
        write_submission=squad.write_predictions,
    ),
    Task(
        "squad-2.0",
        SpanExtraction,
        allows_no_answer=True,
        aliases=("squad2", "squad2.0", "squad-v2.0"),
        reader=partial(squad.read_examples, "squad-2.0"),
        write_submission=squad.write_predictions,
    ),
    Task("race", MultipleChoice, reader=race.read_race),
    Task("dream", MultipleChoice, similar_task="race", reader=race.read_dream),
)
# The user's own data: one task for each type.
_OWN_TASKS = tuple(Task(one.name, one, metric_names=one.metric_names) for one in TASK_TYPES.values())

TASKS: Mapping[str, Task] = {one.name: one for one in (*_OFFICIAL_TASKS, *_OWN_TASKS)}
TASK_NAMES = tuple(TASKS)
_NAMES_BY_ALIAS = {alias: one.name for one in TASKS.values() for alias in one.aliases}


def find_task(name: str | None) -> Task:
    """Return the task of a name or an alias."""
    if name is None:
        raise InputError(f"--task is missing: {', '.join(TASK_NAMES)}")
    normalized = name.lower().replace("_", "-")
    wanted = _NAMES_BY_ALIAS.get(normalized, normalized)
    if wanted not in TASKS:
        raise InputError(
            f"--task {name}: unknown{did_you_mean(wanted, TASK_NAMES)}; known: {', '.join(TASK_NAMES)}"
        )
    return TASKS[wanted]


def primary_metric(task: str, metrics: Mapping[str, float]) -> float:
    """Return the one number of a task: the mean of the metrics that its benchmark averages."""
    return find_task(task).primary_metric(metrics)


def task_type_of_head(head_kind: HeadKind) -> type[TaskType] | None:
    """Return the task type of a kind of head; None for the heads of pre-training."""
    return next((one for one in TASK_TYPES.values() if one.head_kind == head_kind), None)


def create_task_type(
    card: TaskCard, tokenizer: Tokenizer, *, answerable: bool = False, dropout: float = 0.0
) -> TaskType:
    """Return the task type of a card.

    Args:
        card: the card of a model.
        tokenizer: its tokenizer.
        answerable: whether the head predicts if a question has an answer.
        dropout: dropout before the last layer.
    """
    return TASK_TYPES[card.type_name].from_card(card, tokenizer, answerable=answerable, dropout=dropout)

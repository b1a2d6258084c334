"""The task types and the tasks. A new task type is one file in `types/` and one entry here."""

from collections.abc import Mapping
from functools import partial

from albertine.errors import InputError, did_you_mean
from albertine.settings.model import HeadKind
from albertine.tasks.card import TaskCard
from albertine.tasks.formats import glue, race, squad
from albertine.tasks.task import SubmissionFormat, Task
from albertine.tasks.types.classification import Classification
from albertine.tasks.types.multi_label import MultiLabel
from albertine.tasks.types.multiple_choice import MultipleChoice
from albertine.tasks.types.regression import Regression
from albertine.tasks.types.span_extraction import SpanExtraction
from albertine.tasks.types.tagging import Tagging
from albertine.tasks.types.task_type import TaskType
from albertine.text.tokenizer import Tokenizer

TASK_TYPES: Mapping[str, type[TaskType]] = {
    task_type.name: task_type
    for task_type in (Classification, MultiLabel, Regression, Tagging, SpanExtraction, MultipleChoice)
}

_SQUAD_SUBMISSION = SubmissionFormat(
    suffix=".json", file=lambda _part, out: out, write=squad.write_predictions
)


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
        official_split_names=partial(glue.split_names, name),
        submission=SubmissionFormat(
            suffix="", file=partial(glue.submission_file, name), write=partial(glue.write_submission, name)
        ),
    )


_OFFICIAL_TASKS = (
    *(_glue_task(name, layout) for name, layout in glue.GLUE.items()),
    Task(
        "squad-1.1",
        SpanExtraction,
        aliases=("squad", "squad1.1", "squad-v1.1"),
        reader=partial(squad.read_examples, "squad-1.1"),
        has_split=partial(squad.has_split, "squad-1.1"),
        submission=_SQUAD_SUBMISSION,
    ),
    Task(
        "squad-2.0",
        SpanExtraction,
        allows_no_answer=True,
        aliases=("squad2", "squad2.0", "squad-v2.0"),
        reader=partial(squad.read_examples, "squad-2.0"),
        has_split=partial(squad.has_split, "squad-2.0"),
        submission=_SQUAD_SUBMISSION,
    ),
    Task("race", MultipleChoice, reader=race.read_race),
    Task("dream", MultipleChoice, similar_task="race", reader=race.read_dream),
)
# For the user's own data: one task for each type.
_CUSTOM_TASKS = tuple(
    Task(task_type.name, task_type, metric_names=task_type.metric_names) for task_type in TASK_TYPES.values()
)

TASKS: Mapping[str, Task] = {task.name: task for task in (*_OFFICIAL_TASKS, *_CUSTOM_TASKS)}
TASK_NAMES = tuple(TASKS)
_NAMES_BY_ALIAS = {alias: task.name for task in TASKS.values() for alias in task.aliases}


# Evaluations of pre-trained models on minimal pairs, which have no training data.
MINIMAL_PAIR_TASKS = ("blimp",)


def is_minimal_pair_task(name: str | None) -> bool:
    """Return whether a task is an evaluation of pre-trained models on minimal pairs."""
    return name is not None and name.lower() in MINIMAL_PAIR_TASKS


def find_task(name: str | None) -> Task:
    """Return the task with a name or alias; raise `InputError` if there is none."""
    if name is None:
        raise InputError(f"--task is missing: {', '.join(TASK_NAMES)}")
    if is_minimal_pair_task(name):
        raise InputError(
            f"--task {name}: an evaluation of pre-trained models, for albertine evaluate only "
            "(in Python, albertine.evaluate_minimal_pairs)"
        )
    normalized = name.lower().replace("_", "-")
    task_name = _NAMES_BY_ALIAS.get(normalized, normalized)
    if task_name not in TASKS:
        raise InputError(
            f"--task {name}: unknown{did_you_mean(task_name, TASK_NAMES)}; known: {', '.join(TASK_NAMES)}"
        )
    return TASKS[task_name]


def task_of_card(card: TaskCard) -> Task:
    """Return the task of a model, with the metric by which its card compares models."""
    return find_task(card.task).compared_by(card.metric)


def primary_metric(task: str, metrics: Mapping[str, float]) -> float:
    """Return the number by which models for a task are compared; see `Task.primary_metric`."""
    return find_task(task).primary_metric(metrics)


def task_type_of_head(head_kind: HeadKind) -> type[TaskType] | None:
    """Return the task type that uses a kind of head; None for the heads of pre-training."""
    return next((task_type for task_type in TASK_TYPES.values() if task_type.head_kind == head_kind), None)


def create_task_type(
    card: TaskCard, tokenizer: Tokenizer, *, answerable: bool = False, dropout: float = 0.0
) -> TaskType:
    """Return the task type of one model.

    Args:
        card: task card of the model.
        tokenizer: tokenizer of the model.
        answerable: whether the head predicts if a question has an answer.
        dropout: dropout probability before the last layer.
    """
    return TASK_TYPES[card.type_name].from_card(card, tokenizer, answerable=answerable, dropout=dropout)

"""Reads the task card of a checkpoint or derives it from the head; adapts a card to another task."""

import math
from dataclasses import replace
from pathlib import Path

from albertine.display import display_text
from albertine.errors import InputError, did_you_mean
from albertine.interop.hub import TASK_CARD_FILE
from albertine.settings import HeadSettings, ModelSettings
from albertine.tasks.card import TaskCard, parse_card
from albertine.tasks.metrics.scores import METRIC_NAMES, label_f1
from albertine.tasks.registry import TASK_TYPES, TASKS, task_type_of_head
from albertine.tasks.task import Task

_FINETUNING_RESULTS = "results.json"  # in the folder of a fine-tuning run, which always has a task card
_MIN_LENGTH = 4  # three special tokens and one of the text


def read_card(
    folder: Path, model: ModelSettings, head: HeadSettings, label_names: tuple[str, ...] = ()
) -> TaskCard:
    """Return the task card of a checkpoint; without one, a card derived from the head, if it is no run.

    Args:
        folder: folder of the checkpoint.
        model: settings of its model.
        head: settings of its head.
        label_names: names of its labels, if known.
    """
    file = folder / TASK_CARD_FILE
    if not file.exists():
        if (folder / _FINETUNING_RESULTS).exists():
            raise InputError(f"{file}: missing; copy it from a folder in {folder / 'checkpoints'}")
        return _card_from_head(folder, model, head, label_names)
    card = read_card_file(file)
    check_card(card, model, head, file)
    return card


def read_card_file(file: Path) -> TaskCard:
    """Return the card in a file; raise `InputError` if it is invalid or its task is unknown."""
    card = parse_card(file)
    for name, known, description in ((card.type_name, TASK_TYPES, "task type"), (card.task, TASKS, "task")):
        if name not in known:
            raise InputError(
                f"{file}: unknown {description} {display_text(name)}{did_you_mean(name, known)}; "
                f"known: {', '.join(known)}"
            )
    return card


def check_card(card: TaskCard, model: ModelSettings, head: HeadSettings, file: Path) -> None:
    """Raise `InputError` if a task card contradicts itself or the model; its task is known.

    Args:
        card: the card.
        model: settings of the model.
        head: settings of its head.
        file: file of the card, for the error message.
    """
    problem = _contradiction(card, model, head)
    if problem:
        raise InputError(f"{file}: {problem}; copy or download the files again")


def _contradiction(card: TaskCard, model: ModelSettings, head: HeadSettings) -> str | None:
    """Return the problem of a task card that contradicts the model; None if there is none."""
    task, task_type = TASKS[card.task], TASK_TYPES[card.type_name]
    if task.type_name != card.type_name:
        return f"the task type is {card.type_name}, but that of {card.task} is {task.type_name}"
    if task_type.head_kind != head.kind:
        return f"the task type is {card.type_name}, but the head of the model is {head.kind}"
    if (task_type.has_labels or card.labels) and len(card.labels) != head.labels:
        return f"{len(card.labels)} labels, but the head of the model has {head.labels}"
    if len(set(card.labels)) != len(card.labels):
        return "two labels are the same"
    if not _MIN_LENGTH <= card.max_length <= model.max_length:
        return f"max_length = {card.max_length}: must be between {_MIN_LENGTH} and {model.max_length}"
    if card.num_options != head.options:
        return f"num_options = {card.num_options}, but the head of the model has {head.options}"
    if card.target_scale is not None and not 0 < card.target_scale < math.inf:
        return f"target_scale = {card.target_scale:g}: must be a finite number above 0"
    if not 0 <= card.label_threshold <= 1:
        return f"label_threshold = {card.label_threshold:g}: must be a probability"
    if task_type.metric_names:
        known = {*METRIC_NAMES, *map(label_f1, card.labels)}
        unknown = next((name for name in card.metric_names if name not in known), None)
        if unknown is not None:
            return f"unknown metric {display_text(unknown)}; known: {', '.join(METRIC_NAMES)}"
    return None


def _card_from_head(
    folder: Path, model: ModelSettings, head: HeadSettings, label_names: tuple[str, ...]
) -> TaskCard:
    task_type = task_type_of_head(head.kind)
    if task_type is None:
        raise InputError(
            f"{folder}: its head is {head.kind}, which is not for a task; "
            f"fine-tune it first, with albertine finetune {folder}; in Python, as it is, "
            'albertine.fill_mask_pipeline fills masks and albertine.pipeline with task="embed" embeds texts'
        )
    labels = label_names or tuple(f"LABEL_{number}" for number in range(head.labels))
    return TaskCard(
        task=task_type.name,
        type_name=task_type.name,
        labels=labels if task_type.has_labels else (),
        metric_names=TASKS[task_type.name].metric_names,
        num_options=head.options,
        max_length=min(512, model.max_length),
    )


def card_for_task(card: TaskCard, task: Task, source: str) -> TaskCard:
    """Return the card of a model, adapted to a task of the same type and with the same labels.

    Args:
        card: card of the model.
        task: the task, which may be another one than the model was fine-tuned on.
        source: name of the model, for error messages.
    """
    if task.type_name != card.type_name:
        raise InputError(
            f"{source}: its task type is {card.type_name}, but --task {task.name} is of type {task.type_name}"
        )
    if task.labels and card.task != task.name and set(task.labels) != set(card.labels):
        is_unnamed = all(label.startswith("LABEL_") for label in card.labels)
        if len(task.labels) != len(card.labels) or not is_unnamed:
            model_labels, task_labels = ", ".join(card.labels), ", ".join(task.labels)
            raise InputError(
                f"{source}: its labels are {model_labels}; those of {task.name} are {task_labels}"
            )
        card = replace(card, labels=task.labels)  # unnamed labels are assumed to be in the order of the task
    keeps_metrics = task.name == card.task or not task.is_official
    metric_names = card.metric_names if card.metric_names and keeps_metrics else task.metric_names
    return replace(
        card,
        task=task.name,
        metric_names=metric_names,
        metric=card.metric if keeps_metrics else None,
        allows_no_answer=card.allows_no_answer or task.allows_no_answer,
    )

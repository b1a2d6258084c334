"""Checks the options of fine-tuning about two texts in a sequence: heads that compare them, and marks.

`--matching` compares the two texts of a pair, `--co-matching` passage, question and option, and
`--mark-matches` marks the tokens that both texts have.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from albertine import progress
from albertine.errors import InputError
from albertine.finetune.paper_defaults import (
    PAPER_MIN_WIDTH,
)
from albertine.finetune.settings import FinetuneSettings
from albertine.settings import ModelSettings
from albertine.settings.model import KINDS_OF_SETTINGS
from albertine.tasks.examples import Example, MultipleChoiceExample, TextExample
from albertine.tasks.registry import TASKS
from albertine.tasks.sequences import EncodedExample
from albertine.tasks.task import Task


def check_head(task: Task, settings: FinetuneSettings) -> None:
    """Raise `InputError` if the head that the settings select is not for the task."""
    if settings.co_matching and not task.task_type.has_parts:
        names = ", ".join(task.name for task in TASKS.values() if task.task_type.has_parts)
        raise InputError(
            f"--co-matching: --task {task.name} is {task.task_type.title}, which has no options to match; "
            f"use one of: {names}"
        )
    if settings.matching and task.task_type.head_kind not in KINDS_OF_SETTINGS["matching"]:
        hint = "; --co-matching is for multiple choice" if task.task_type.has_parts else ""
        raise InputError(
            f"--matching: --task {task.name} is {task.task_type.title}; it compares the two texts of a "
            f"classification or of a regression{hint}"
        )


def check_parts(examples: list[Example], settings: FinetuneSettings) -> None:
    """Raise `InputError` if co-matching has nothing to match, and would learn nothing."""
    if any(
        isinstance(example, MultipleChoiceExample) and (example.context or example.question)
        for example in examples
    ):
        return
    raise InputError(
        f"--co-matching: {settings.data} has options only, and no passage or question to match them with; "
        "name their columns with --context and --question, or leave --co-matching out"
    )


def check_pairs(examples: list[Example], settings: FinetuneSettings, model: ModelSettings) -> None:
    """Raise `InputError` if there are no second texts, so that matching would learn nothing."""
    if model.segments < 2:
        raise InputError("--matching: the model has one segment, so that it cannot tell two texts apart")
    if has_text_pairs(examples):
        return
    raise InputError(
        f"--matching: {settings.data} has only one text per example, so there is nothing to compare; leave "
        "out --matching, or give the column of the second text with --text-pair"
    )


def has_text_pairs(examples: Sequence[Example]) -> bool:
    """Return whether there are examples with a second text."""
    return any(
        isinstance(example, TextExample) and any(map(str.strip, example.texts[1:])) for example in examples
    )


def with_marks(model: ModelSettings, settings: FinetuneSettings, *, has_two_texts: bool) -> ModelSettings:
    """Return the settings of the model that a run trains, which may mark the tokens of both texts.

    Args:
        model: settings of the model to start from.
        settings: settings of the run.
        has_two_texts: whether examples are pairs of texts, or questions about a passage.
    """
    if settings.mark_matches and model.segments < 2:
        raise InputError(
            "--mark-matches: the model has one segment, so that it cannot tell two texts apart; leave it out"
        )
    if model.mark_matches and settings.mark_matches is False:
        progress.print_message("--no-mark-matches has no effect: the model to start from marks matches")
    marks = settings.mark_matches
    if marks is None and has_two_texts and model.segments > 1:
        marks = not model.is_published_architecture  # a model that transformers has stays one
        if not marks and model.hidden_size < PAPER_MIN_WIDTH:
            progress.print_message(
                "--mark-matches would mark the tokens that both texts have in common, which helps a small "
                "model; it is off because transformers opens this model without a modelling file"
            )
    return replace(model, mark_matches=model.mark_matches or bool(marks))


def check_has_second_texts(encoded: Sequence[EncodedExample], settings: FinetuneSettings) -> None:
    """Raise `InputError` if no sequence has two texts, so that no token would be marked."""
    if any(any(segments) for one in encoded for sample in one.samples for segments in sample.segments):
        return
    raise InputError(
        f"--mark-matches: {settings.data} has only one text per example, so no token is in both; leave "
        "--mark-matches out"
    )


def check_segments(encoded: list[EncodedExample], folder: Path, model: ModelSettings) -> None:
    """Raise `InputError` if there are two texts in a sequence, and the model has one segment."""
    samples = () if model.segments > 1 else (sample for one in encoded for sample in one.samples)
    if any(any(segments) for sample in samples for segments in sample.segments):
        raise InputError(
            f"{folder}: the model has one segment, and the task has two texts in a sequence; fine-tune a "
            "model with two segments"
        )

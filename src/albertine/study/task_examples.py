"""Where the examples of a study's tasks are: in little worlds, or in copies of the user's data.

STORE/data/tasks/TASK-HASH/train.jsonl      for training
STORE/data/tasks/TASK-HASH/choices.jsonl    a tenth of the training part, to choose rates and ensembles
STORE/data/tasks/TASK-HASH/dev.jsonl        for the score: the dev part of the task

The hash covers the content of the user's files and the numbers of examples, so that studies share copies
and scores.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from albertine.atomic import atomic_folder
from albertine.checksums import json_checksum
from albertine.errors import InputError
from albertine.finetune.held_out_examples import hold_out
from albertine.inference.settings import EnsembleSettings, EvaluateSettings
from albertine.tasks.examples import Example, TextExample
from albertine.tasks.formats.glue import GLUE
from albertine.tasks.task_sources import (
    TaskSource,
    expected_files,
    find_task_source,
    folders_to_search,
    read_examples,
    write_examples,
)
from albertine.world.stories import WORLD_VERSION

_COPIES_FOLDER = "tasks"
_CHOICES = 0.1  # share of the training part
_TRAIN_FILE, _CHOICES_FILE, _DEV_FILE = "train.jsonl", "choices.jsonl", "dev.jsonl"
# Raise it if the same files give other copies, such as after a change of what is sampled or held out.
_COPIES_VERSION = 1


@dataclass(frozen=True)
class ExampleSettings:
    """The settings that name the examples of a task.

    Attributes:
        training: for `albertine finetune`.
        choice: for the choice between fine-tuned models.
        score: for the score of the chosen models.
        max_examples: maximum number of training examples of a real task; None in a little world.
    """

    training: dict[str, str]
    choice: EnsembleSettings
    score: EvaluateSettings
    max_examples: int | None = None


class TaskExamples(Protocol):
    """The examples of all tasks of a study."""

    def key(self, tasks: Sequence[str]) -> str:
        """Return what changes if examples of some tasks do, for names; empty if the corpus says it."""

    def settings(self, task: str, *, with_choice: bool) -> ExampleSettings:
        """Return the settings for a task; examples that choose a model never score it."""


@dataclass(frozen=True)
class WorldExamples:
    """Examples of little worlds: one for training and choices, and one with other stories for scores."""

    world: Path
    test_world: Path

    def key(self, tasks: Sequence[str]) -> str:  # noqa: ARG002 - one world has all
        """Return the version of the little world if its tasks may have changed since version 2."""
        return "" if WORLD_VERSION == 2 else f"world-{WORLD_VERSION}"

    def settings(self, task: str, *, with_choice: bool) -> ExampleSettings:  # noqa: ARG002 - one folder has all
        """Return the settings for a task; without a choice, dev of the first world gives the score."""
        world = str(self.world)
        scored = str(self.test_world) if with_choice else world
        return ExampleSettings({"data": world}, EnsembleSettings(data=world), EvaluateSettings(data=scored))


@dataclass(frozen=True)
class CopiedExamples:
    """Copies of the user's data.

    Attributes:
        data: the user's folder.
        folders: the folder of the copy of each task.
        sources: where the data of each task is.
        counts: maximum number of examples for training and choices, and for the score.
    """

    data: Path
    folders: Mapping[str, Path]
    sources: Mapping[str, TaskSource]
    counts: tuple[int, int]

    def key(self, tasks: Sequence[str]) -> str:
        """Return a checksum of what the examples of some tasks are copied from."""
        return json_checksum([self.folders[task].name for task in tasks])[:16]

    def settings(self, task: str, *, with_choice: bool) -> ExampleSettings:
        """Return the settings for a task."""
        is_pair = task in GLUE and len(GLUE[task].text_columns) > 1
        text_pair = "text_pair" if is_pair else None
        columns = {"text_pair": text_pair} if text_pair else {}
        train, choices, dev = (
            str(self.folders[task] / name) for name in (_TRAIN_FILE, _CHOICES_FILE, _DEV_FILE)
        )
        return ExampleSettings(
            {"data": train, "dev": choices if with_choice else dev, **columns},
            EnsembleSettings(data=choices, text_pair=text_pair),
            EvaluateSettings(data=dev, text_pair=text_pair),
            max_examples=self.counts[0],
        )

    def write(self) -> None:
        """Copy the tasks that are missing."""
        for task, folder in self.folders.items():
            if folder.exists():
                continue
            train, choices, dev = self._parts(task)
            with atomic_folder(folder) as partial:
                for name, part in ((_TRAIN_FILE, train), (_CHOICES_FILE, choices), (_DEV_FILE, dev)):
                    write_examples(partial / name, part)

    def _parts(self, task: str) -> tuple[Sequence[Example], Sequence[Example], Sequence[Example]]:
        try:
            examples, dev = read_examples(self.sources[task], *self.counts)
            train, choices = hold_out(examples, _CHOICES, 0, str(self.sources[task].train))
        except InputError as error:
            # The advice behind the semicolon is about options that a study does not have.
            problem = str(error).partition(";")[0]
            raise InputError(f"--data {self.data}: {task}: {problem}; get the task's files again") from None
        answers = {
            one.value if one.label is None else one.label for one in train if isinstance(one, TextExample)
        }
        if len(answers) == 1:
            raise InputError(f"--data {self.data}: {task}: all training examples have the same label")
        return train, choices, dev

    @property
    def text(self) -> str:
        """How many examples each task has, in words."""
        sizes = []
        for task, folder in self.folders.items():
            train, choices, dev = (
                _count_lines(folder / name) for name in (_TRAIN_FILE, _CHOICES_FILE, _DEV_FILE)
            )
            sizes.append(f"{task} {train:,}, {choices:,} and {dev:,}")
        return (
            f"Tasks from {self.data}, with examples for training, for choices between models, and for the "
            f"score: {'; '.join(sizes)}."
        )


def find_copies(store: Path, data: Path, tasks: Sequence[str], counts: tuple[int, int]) -> CopiedExamples:
    """Return the copies of some tasks; raise `InputError` if the user's folder lacks one. Nothing is written.

    Args:
        store: folder of the data of all studies.
        data: the user's folder.
        tasks: names of the tasks.
        counts: maximum number of examples for training and choices, and for the score.
    """
    sources = _find_sources(data, tasks)
    if missing := [task for task in tasks if task not in sources]:
        raise InputError(f"--data {data}: has no {layouts_text(missing)}; put it there")
    copies = {}
    for task, source in sources.items():
        key = json_checksum([_COPIES_VERSION, source.checksums(), counts])[:16]
        copies[task] = store / _COPIES_FOLDER / f"{task}-{key}"
    return CopiedExamples(data, copies, sources, counts)


def missing_tasks(data: Path, tasks: Sequence[str]) -> list[str]:
    """Return the tasks that a user's folder lacks; raise `InputError` if it is none."""
    sources = _find_sources(data, tasks)
    return [task for task in tasks if task not in sources]


def _find_sources(data: Path, tasks: Sequence[str]) -> dict[str, TaskSource]:
    if not data.is_dir():
        raise InputError(f"--data {data}: no such folder; a study needs a folder of this machine")
    folders = folders_to_search(data)
    found = {task: find_task_source(task, folders) for task in tasks}
    return {task: source for task, source in found.items() if source is not None}


def layouts_text(tasks: Sequence[str]) -> str:
    """Return tasks with the files in which they are expected."""
    return ", ".join(f"{task} ({expected_files(task)})" for task in tasks)


def _count_lines(file: Path) -> int:
    with file.open("rb") as lines:
        return sum(1 for _ in lines)

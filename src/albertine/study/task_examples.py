"""Where the examples of a study's tasks are: in little worlds, or in copies of the user's data.

STORE/data/tasks-HASH/TASK/train.jsonl      for training
STORE/data/tasks-HASH/TASK/choices.jsonl    a tenth of the training part, to choose rates and ensembles
STORE/data/tasks-HASH/TASK/dev.jsonl        for the score: the dev part of the task
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
from albertine.tasks.formats.glue import GLUE
from albertine.tasks.task_sources import (
    TaskSource,
    expected_files,
    find_task_source,
    folders_to_search,
    read_examples,
    write_examples,
)

_CHOICES = 0.1  # share of the training part
_TRAIN_FILE, _CHOICES_FILE, _DEV_FILE = "train.jsonl", "choices.jsonl", "dev.jsonl"


@dataclass(frozen=True)
class ExampleSettings:
    """The settings that name the examples of a task.

    Attributes:
        training: for `albertine finetune`.
        choice: for the choice between fine-tuned models.
        score: for the score of the chosen models.
        are_real: whether they are not of a little world.
    """

    training: dict[str, str]
    choice: EnsembleSettings
    score: EvaluateSettings
    are_real: bool = False


class TaskExamples(Protocol):
    """The examples of all tasks of a study."""

    @property
    def key(self) -> str:
        """What changes if examples do, for the names of results; empty if the corpus says it."""

    def settings(self, task: str, *, with_choice: bool) -> ExampleSettings:
        """Return the settings for a task; examples that choose a model never score it."""


@dataclass(frozen=True)
class WorldExamples:
    """Examples of little worlds: one for training and choices, and one with other stories for scores."""

    world: Path
    test_world: Path
    key: str = ""

    def settings(self, task: str, *, with_choice: bool) -> ExampleSettings:  # noqa: ARG002 - alike for all
        """Return the settings for a task; without a choice, dev of the first world gives the score."""
        world = str(self.world)
        scored = str(self.test_world) if with_choice else world
        return ExampleSettings({"data": world}, EnsembleSettings(data=world), EvaluateSettings(data=scored))


@dataclass(frozen=True)
class CopiedExamples:
    """Copies of the user's data.

    Attributes:
        folder: the folder of the copies.
        sources: where the data of each task is.
        train_count: maximum number of examples for training and choices.
        dev_count: maximum number of examples for the score.
    """

    folder: Path
    sources: Mapping[str, TaskSource]
    train_count: int
    dev_count: int

    @property
    def key(self) -> str:
        """The hash in the name of the folder."""
        return self.folder.name.removeprefix("tasks-")

    def settings(self, task: str, *, with_choice: bool) -> ExampleSettings:
        """Return the settings for a task."""
        is_pair = task in GLUE and len(GLUE[task].text_columns) > 1
        text_pair = "text_pair" if is_pair else None
        columns = {"text_pair": text_pair} if text_pair else {}
        train, choices, dev = (
            str(self.folder / task / name) for name in (_TRAIN_FILE, _CHOICES_FILE, _DEV_FILE)
        )
        return ExampleSettings(
            {"data": train, "dev": choices if with_choice else dev, **columns},
            EnsembleSettings(data=choices, text_pair=text_pair),
            EvaluateSettings(data=dev, text_pair=text_pair),
            are_real=True,
        )

    def write(self) -> None:
        """Copy the tasks that are missing."""
        for task, source in self.sources.items():
            if (self.folder / task).exists():
                continue
            examples, dev = read_examples(source, self.train_count, self.dev_count)
            train, choices = hold_out(examples, _CHOICES, 0, str(source.train))
            with atomic_folder(self.folder / task) as partial:
                for name, part in ((_TRAIN_FILE, train), (_CHOICES_FILE, choices), (_DEV_FILE, dev)):
                    write_examples(partial / name, part)


def find_copies(store: Path, data: Path, tasks: Sequence[str], counts: tuple[int, int]) -> CopiedExamples:
    """Return the copies of some tasks; raise `InputError` if the user's folder lacks one. Nothing is written.

    Args:
        store: folder of the data of all studies.
        data: the user's folder.
        tasks: names of the tasks.
        counts: maximum number of training examples and of examples for the score.
    """
    if not data.is_dir():
        raise InputError(f"--data {data}: no such folder")
    folders = folders_to_search(data)
    found = {task: find_task_source(task, folders) for task in tasks}
    missing = [f"{task} ({expected_files(task)})" for task, source in found.items() if source is None]
    if missing:
        raise InputError(f"--data {data}: has no {', no '.join(missing)}; put it there")
    sources = {task: source for task, source in found.items() if source is not None}
    states = {task: [_state(path) for path in _files(source)] for task, source in sources.items()}
    key = json_checksum({"tasks": states, "counts": counts})[:16]
    return CopiedExamples(store / f"tasks-{key}", sources, *counts)


def _files(source: TaskSource) -> list[Path]:
    """Return the files of a task, of which one may be all."""
    paths = [source.train] if source.dev is None else [source.train, source.dev]
    files = [sorted(path.glob("*.tsv")) if path.is_dir() else [path] for path in paths]
    return list(dict.fromkeys(file for group in files for file in group))


def _state(file: Path) -> tuple[str, int, int]:
    """Return what changes if a file does."""
    status = file.stat()
    return str(file.resolve()), status.st_size, status.st_mtime_ns

"""Finds the data of the tasks in a folder, in the layouts in which people download it, and copies a part.

| task | in the folder, or in a folder inside it |
|---|---|
| SST-2, CoLA, MNLI, QQP | the task's folder of GLUE, or NAME.train.jsonl and NAME.valid.jsonl |
| XQuAD | xquad.en.json |
| BLiMP | a folder whose name begins with blimp, with its .jsonl files, also in a folder `data` |

The copy has one layout for all tasks, `train.jsonl` and `dev.jsonl`, and at most as many examples as the
recipe takes. All runs of a report card read it, so its scores are of the same examples even if the data
changes before the last run.
"""

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from albertine.atomic import atomic_folder
from albertine.errors import InputError
from albertine.input_files import check_regular_file
from albertine.randomness import Stream, random_bits
from albertine.report_card.recipe import (
    MAX_DEV_EXAMPLES,
    MAX_TRAIN_EXAMPLES,
    TASK_RECIPES,
    TEST_PASSAGES,
    TaskRecipe,
)
from albertine.report_card.results import CopiedData
from albertine.settings.schema import display_text
from albertine.tasks.examples import E, Example, QuestionExample, TextExample, example_chunks
from albertine.tasks.formats.glue import GLUE
from albertine.tasks.reading import labeled_examples, report_skipped
from albertine.tasks.registry import find_task
from albertine.tasks.settings import DataSettings
from albertine.text.documents import ReadErrors

_XQUAD_FILE = "xquad.en.json"
_DEV_NAMES = ("valid", "validation", "dev")
_CHUNK = 4096  # examples


@dataclass(frozen=True)
class TaskSource:
    """Where the data of a task is.

    Attributes:
        recipe: the recipe of the task.
        train: folder or file of the training examples.
        dev: folder or file of the dev examples; None if they are a part of those of `train`.
        columns: names of the columns of a table.
    """

    recipe: TaskRecipe
    train: Path
    dev: Path | None
    columns: DataSettings


@dataclass(frozen=True)
class DataSources:
    """What a folder has, and what it lacks.

    Attributes:
        tasks: the sources of the tasks, by name, in the order of the recipes.
        blimp: the folder of minimal pairs; None if there is none.
        missing: for each part that the folder lacks, its title and the names that were not found.
    """

    tasks: dict[str, TaskSource]
    blimp: Path | None
    missing: dict[str, str]


def find_sources(folder: Path) -> DataSources:
    """Return what a folder has of BLiMP and the tasks."""
    readable = (path for path in folder.iterdir() if path.is_dir() and os.access(path, os.R_OK | os.X_OK))
    folders = [folder, *sorted(readable)]
    tasks: dict[str, TaskSource] = {}
    missing: dict[str, str] = {}
    blimp = next(filter(None, map(_find_pairs, folders)), None)
    if blimp is None:
        missing["BLiMP"] = "folder blimp with .jsonl files"
    for name, recipe in TASK_RECIPES.items():
        find = _find_glue if name in GLUE else _find_xquad
        source = next(filter(None, (find(recipe, candidate) for candidate in folders)), None)
        if source is not None:
            tasks[name] = source
        elif name in GLUE:
            missing[recipe.title] = f"{GLUE[name].folder}/train.tsv or {_stems(name)[-1]}.train.jsonl"
        else:
            missing[recipe.title] = _XQUAD_FILE
    return DataSources(tasks, blimp, missing)


def _find_pairs(folder: Path) -> Path | None:
    """Return the folder of minimal pairs inside a folder."""
    named = (path for path in sorted(folder.iterdir()) if path.name.lower().startswith("blimp"))
    candidates = (candidate for path in named for candidate in (path, path / "data"))
    return next((path for path in candidates if path.is_dir() and any(path.glob("*.jsonl"))), None)


def _find_glue(recipe: TaskRecipe, folder: Path) -> TaskSource | None:
    """Return a task of GLUE in a folder: in its official layout, or as two files of JSON lines."""
    layout = GLUE[recipe.task]
    official = folder / layout.folder
    if _has_file(official / "train.tsv"):
        return TaskSource(recipe, official, official, DataSettings())
    for stem in _stems(recipe.task):
        train = folder / f"{stem}.train.jsonl"
        for name in _DEV_NAMES:
            dev = folder / f"{stem}.{name}.jsonl"
            if _has_file(train) and _has_file(dev):
                text, pair = (*layout.hub_text_columns, None)[:2]
                return TaskSource(recipe, train, dev, DataSettings(text=str(text), text_pair=pair))
    return None


def _stems(task: str) -> list[str]:
    return list(dict.fromkeys([task, task.replace("-", "")]))


def _find_xquad(recipe: TaskRecipe, folder: Path) -> TaskSource | None:
    file = folder / _XQUAD_FILE
    return TaskSource(recipe, file, None, DataSettings()) if _has_file(file) else None


def _has_file(path: Path) -> bool:
    """Return whether a path is a file; raise `InputError` if it is a device or a pipe."""
    if path.exists():
        check_regular_file(path)
    return path.is_file()


def copy_examples(source: TaskSource, out: Path) -> CopiedData:
    """Write `train.jsonl` and `dev.jsonl` into a folder; return their numbers of examples.

    The folder is replaced if it exists: a killed process may have left one that nobody has counted.
    """
    shutil.rmtree(out, ignore_errors=True)
    errors = ReadErrors(skip=True)  # GLUE's own files have a few rows with missing cells
    train: Sequence[Example]
    dev: Sequence[Example]
    if source.dev is None:
        train, dev = split_by_passage(list(_read(source, source.train, "train", errors)))
    else:
        task = find_task(source.recipe.task)
        dev_split = task.split_names("dev", str(source.dev))[0]
        train = sample_examples(_read(source, source.train, "train", errors), MAX_TRAIN_EXAMPLES)
        dev = sample_examples(_read(source, source.dev, dev_split, errors), MAX_DEV_EXAMPLES)
    report_skipped(errors)
    for path, examples in ((source.train, train), (source.dev or source.train, dev)):
        if not examples:
            raise InputError(f"{path}: no labeled examples of {source.recipe.title}; get the data again")
    with atomic_folder(out) as folder:
        for name, examples in (("train", train), ("dev", dev)):
            with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
                file.writelines(json.dumps(_row(example), ensure_ascii=False) + "\n" for example in examples)
    return CopiedData(str(source.train), len(train), len(dev))


def _read(source: TaskSource, data: Path, split_name: str, errors: ReadErrors) -> Iterator[Example]:
    """Yield the labeled examples of a split."""
    task = find_task(source.recipe.task)
    examples = task.read_examples(str(data), split_name, source.columns, errors, require_labels=True)
    for example in labeled_examples(examples, errors, f"{data}: {split_name} has no labels; get it again"):
        try:
            yield with_label_name(example, task.labels)
        except ValueError as error:
            errors.handle(example.location, str(error))


def with_label_name(example: Example, labels: tuple[str, ...]) -> Example:
    """Return an example whose label is one of the task's; a number counts the task's labels from 0."""
    if not isinstance(example, TextExample) or example.label in labels:
        return example
    numbers = {str(number): label for number, label in enumerate(labels)}
    if example.label not in numbers:
        raise ValueError(f"label {display_text(str(example.label))}, expected one of {', '.join(labels)}")
    return replace(example, label=numbers[example.label])


def sample_examples(examples: Iterable[E], count: int) -> list[E]:
    """Return a random part of the examples, at most `count`, in their order; memory is for `count` only."""
    kept: list[tuple[int, int, E]] = []  # random bits, index, example
    index = 0
    for chunk in example_chunks(examples, _CHUNK):
        indices = range(index, index + len(chunk))
        index += len(chunk)
        bits = random_bits(0, Stream.REPORT_CARD_EXAMPLES, np.array(indices)).tolist()
        kept += zip(bits, indices, chunk, strict=True)
        if len(kept) > count:
            kept.sort(key=lambda one: one[:2])
            del kept[count:]
    return [example for _, _, example in sorted(kept, key=lambda one: one[1])]


def split_by_passage(questions: list[Any]) -> tuple[list[QuestionExample], list[QuestionExample]]:
    """Return the questions on the first passages and those on the last ones, which are for evaluation.

    XQuAD has five passages of each of 48 articles, so its evaluation part is the last 12 articles.
    """
    passages = list(dict.fromkeys(question.context for question in questions))
    first_dev = len(passages) - round(TEST_PASSAGES * len(passages))
    dev_passages = set(passages[first_dev:])
    return (
        [question for question in questions if question.context not in dev_passages],
        [question for question in questions if question.context in dev_passages],
    )


def _row(example: Example) -> dict[str, Any]:
    """Return an example as a row, with the default names of the columns."""
    if isinstance(example, QuestionExample):
        answers = example.answers or ()
        return {
            "id": example.example_id,
            "question": example.question,
            "context": example.context,
            "answers": {
                "text": [answer.text for answer in answers],
                "answer_start": [answer.start for answer in answers],
            },
        }
    assert isinstance(example, TextExample)
    names = ("text", "text_pair")[: len(example.texts)]
    return {"id": example.example_id, **dict(zip(names, example.texts, strict=True)), "label": example.label}

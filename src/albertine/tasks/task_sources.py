"""Finds the data of tasks in a folder, in the layouts in which people download it, and copies a part.

| task | in the folder, or in a folder inside it |
|---|---|
| a task of GLUE | the task's folder of GLUE, or NAME.train.jsonl and NAME.valid.jsonl |
| SQuAD | xquad.en.json, whose last passages are the dev part |
| RACE | train/middle/*.txt and so on |
| DREAM | train.json and dev.json |

A copy has one layout for all tasks, so that its scores are of the same examples even if the data changes.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from albertine.checksums import file_checksum
from albertine.display import display_text
from albertine.errors import InputError
from albertine.input_files import check_regular_file
from albertine.randomness import Stream, random_bits
from albertine.tasks.examples import (
    E,
    Example,
    MultipleChoiceExample,
    QuestionExample,
    TextExample,
    example_chunks,
)
from albertine.tasks.formats.glue import GLUE, split_names
from albertine.tasks.formats.race import race_files
from albertine.tasks.reading import labeled_examples, report_skipped
from albertine.tasks.registry import find_task
from albertine.tasks.settings import DataSettings
from albertine.text.read_errors import ReadErrors

_XQUAD_FILE = "xquad.en.json"
# Share of the passages of XQuAD that are its dev part; a change makes new report cards and studies
# incomparable with older ones, so raise their versions too.
_DEV_PASSAGES = 0.25
_DEV_NAMES = ("valid", "validation", "dev")
_CHUNK = 4096  # examples


@dataclass(frozen=True)
class TaskSource:
    """Where the data of a task is.

    Attributes:
        task: name of the task.
        train: folder or file of the training examples.
        dev: folder or file of the dev examples; None if they are a part of those of `train`.
        files: all files of the training and the dev examples, by name.
        columns: names of the columns of a table.
    """

    task: str
    train: Path
    dev: Path | None
    files: Mapping[str, Path]
    columns: DataSettings = field(default_factory=DataSettings)

    def checksums(self) -> dict[str, str]:
        """Return a checksum of each file, by its name."""
        return {name: file_checksum(file) for name, file in self.files.items()}


def folders_to_search(folder: Path) -> list[Path]:
    """Return a folder and the readable folders in it."""
    readable = (path for path in folder.iterdir() if path.is_dir() and os.access(path, os.R_OK | os.X_OK))
    return [folder, *sorted(readable)]


def find_task_source(task: str, folders: Iterable[Path]) -> TaskSource | None:
    """Return the data of a task that is directly in one of some folders; None if there is none."""
    find = _FINDERS[task]
    return next(filter(None, (find(task, folder) for folder in folders)), None)


def expected_files(task: str) -> str:
    """Return the names of the files of a task, for messages."""
    if task in GLUE:
        stem = _stems(task)[-1]
        official = f"{GLUE[task].folder}/train.tsv and {_dev_file(task)}"
        return f"{official}, or {stem}.train.jsonl and {stem}.valid.jsonl"
    return _EXPECTED_FILES[task]


def _find_glue(task: str, folder: Path) -> TaskSource | None:
    """Return a task of GLUE in a folder: in its official layout, or as two files of JSON lines."""
    layout = GLUE[task]
    official = folder / layout.folder
    if _has_file(official / "train.tsv") and _has_file(official / _dev_file(task)):
        files = {name: official / name for name in ("train.tsv", _dev_file(task))}
        return TaskSource(task, official, official, files)
    for stem in _stems(task):
        train = folder / f"{stem}.train.jsonl"
        for name in _DEV_NAMES:
            dev = folder / f"{stem}.{name}.jsonl"
            if _has_file(train) and _has_file(dev):
                text, pair = (*layout.hub_text_columns, None)[:2]
                columns = DataSettings(text=str(text), text_pair=pair)
                return TaskSource(task, train, dev, _by_name(train, dev), columns)
    return None


def _dev_file(task: str) -> str:
    return f"{split_names(task, 'dev', '')[0]}.tsv"


def _stems(task: str) -> list[str]:
    return list(dict.fromkeys([task, task.replace("-", "")]))


def _find_xquad(task: str, folder: Path) -> TaskSource | None:
    file = folder / _XQUAD_FILE
    return TaskSource(task, file, None, _by_name(file)) if _has_file(file) else None


def _find_race(task: str, folder: Path) -> TaskSource | None:
    parts = [race_files(folder, part) for part in ("train", "dev")]
    if not all(parts):
        return None
    files = {str(file.relative_to(folder)): file for part in parts for _, file in part}
    return TaskSource(task, folder, folder, files)


def _find_dream(task: str, folder: Path) -> TaskSource | None:
    train, dev = folder / "train.json", folder / "dev.json"
    found = _has_file(train) and _has_file(dev)
    return TaskSource(task, folder, folder, _by_name(train, dev)) if found else None


_FINDERS: Mapping[str, Callable[[str, Path], TaskSource | None]] = {
    **dict.fromkeys(GLUE, _find_glue),
    "squad-1.1": _find_xquad,
    "race": _find_race,
    "dream": _find_dream,
}
_EXPECTED_FILES = {
    "squad-1.1": _XQUAD_FILE,
    "race": "train/middle/*.txt, train/high/*.txt, and the same in dev",
    "dream": "train.json and dev.json",
}


def _by_name(*files: Path) -> dict[str, Path]:
    return {file.name: file for file in files}


def _has_file(path: Path) -> bool:
    """Return whether a path is a file; raise `InputError` if it is a device or a pipe."""
    if path.exists():
        check_regular_file(path)
    return path.is_file()


def read_examples(
    source: TaskSource, max_train: int, max_dev: int
) -> tuple[Sequence[Example], Sequence[Example]]:
    """Return a random part of the training and of the dev examples; raise `InputError` if one is empty."""
    errors = ReadErrors(skip=True)  # GLUE's own files have a few rows with missing cells
    train: Iterable[Example] = _read(source, source.train, "train", errors)
    dev: Iterable[Example]
    if source.dev is None:
        train, dev = split_by_passage(list(train))
    else:
        dev = _read(source, source.dev, "dev", errors)
    parts = sample_examples(train, max_train), sample_examples(dev, max_dev)
    report_skipped(errors)
    for path, examples in zip((source.train, source.dev or source.train), parts, strict=True):
        if not examples:
            raise InputError(f"{path}: too few labeled examples of {source.task}; get the data again")
    return parts


def _read(source: TaskSource, data: Path, split: str, errors: ReadErrors) -> Iterator[Example]:
    """Yield the labeled examples of "train", or of the first part of "dev"."""
    task = find_task(source.task)
    name = task.split_names(split, str(data))[0]
    examples = task.read_examples(str(data), name, source.columns, errors, require_labels=True)
    for example in labeled_examples(examples, errors, f"{data}: {name} has no labels; get it again"):
        try:
            yield _with_label_name(example, task.labels)
        except ValueError as error:
            errors.handle(example.location, str(error))


def _with_label_name(example: Example, labels: tuple[str, ...]) -> Example:
    """Return an example whose label is one of the task's; a number counts the task's labels from 0."""
    if not labels or not isinstance(example, TextExample) or example.label in labels:
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
        bits = random_bits(0, Stream.SAMPLED_EXAMPLES, np.array(indices)).tolist()
        kept += zip(bits, indices, chunk, strict=True)
        if len(kept) > count:
            kept.sort(key=lambda one: one[:2])
            del kept[count:]
    return [example for _, _, example in sorted(kept, key=lambda one: one[1])]


def split_by_passage(questions: Sequence[Any]) -> tuple[list[Example], list[Example]]:
    """Return the questions on the first passages and those on the last ones, which are for evaluation.

    XQuAD has five passages of each of 48 articles, so its evaluation part is the last 12 articles.
    """
    passages = list(dict.fromkeys(question.context for question in questions))
    first_dev = len(passages) - round(_DEV_PASSAGES * len(passages))
    dev_passages = set(passages[first_dev:])
    return (
        [question for question in questions if question.context not in dev_passages],
        [question for question in questions if question.context in dev_passages],
    )


def write_examples(file: Path, examples: Iterable[Example]) -> None:
    """Write examples as JSON lines, with the default names of the columns."""
    with file.open("w", encoding="utf-8") as stream:
        stream.writelines(json.dumps(_row(example), ensure_ascii=False) + "\n" for example in examples)


def _row(example: Example) -> dict[str, Any]:
    """Return an example as a row, with the default names of the columns."""
    match example:
        case QuestionExample():
            answers = example.answers or ()
            cells: dict[str, Any] = {
                "question": example.question,
                "context": example.context,
                "answers": {
                    "text": [answer.text for answer in answers],
                    "answer_start": [answer.start for answer in answers],
                },
            }
        case MultipleChoiceExample():
            cells = {
                "context": example.context,
                "question": example.question,
                "options": example.options,
                "label": example.correct_option,
            }
        case TextExample():
            label = example.value if example.label is None else example.label
            cells = {**dict(zip(("text", "text_pair"), example.texts, strict=False)), "label": label}
        case _:
            raise TypeError(type(example))
    return {"id": example.example_id, **cells}

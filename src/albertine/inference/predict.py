"""Writes predictions for a file or a split while they are computed, so that memory is bounded.

The output has a row for each example, as JSON lines, CSV or TSV, or it is in the format of the
task's submission server or official script: a folder for GLUE, a .json file for SQuAD.
"""

import csv
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

from albertine import progress
from albertine.atomic import atomic_file, refuse_existing_file
from albertine.errors import InputError
from albertine.inference.ensemble_model import load_task_model
from albertine.inference.evaluate import read_split
from albertine.inference.settings import PredictSettings
from albertine.tasks.encoding_counts import EncodingCounts
from albertine.tasks.examples import Example
from albertine.tasks.settings import Split
from albertine.tasks.task import SubmissionFormat, Task, is_folder
from albertine.tasks.types.task_type import Prediction

Predictions = Iterator[tuple[Example, Prediction]]


def predict(model: str | Path, settings: PredictSettings, out: str | Path | None = None) -> int:
    """Write predictions for a file or a split; return their number.

    Args:
        model: a fine-tuned run, the folder of a checkpoint or of an ensemble, or a hub name.
        settings: the data, and its columns where they differ from those of the training data.
        out: a file of JSON lines, CSV or TSV; a folder for GLUE, a .json for SQuAD. Without it, JSON lines
            are written to standard output.
    """
    if settings.data is None:
        raise InputError("--data is missing: a file, the task's folder, or hub:OWNER/NAME")
    finetuned = load_task_model(model, settings.device, settings.precision, task=settings.task)
    split_names = split_names_to_predict(finetuned.task, settings.data, settings.split)
    write = prediction_writer(finetuned.task, settings.data, split_names, None if out is None else Path(out))
    is_official = is_folder(settings.data)
    for name in split_names if is_official else ():  # an unreadable split must fail before any is predicted
        next(read_split(finetuned, name, settings, require_labels=False))
    count = 0
    for name in split_names:
        examples = read_split(finetuned, name, settings, require_labels=False)
        description = f"Predicting {name}" if is_official else "Predicting"
        tracked_examples = progress.track(examples, description, unit="examples")
        counts = EncodingCounts(finetuned.tokenizer.special_ids)
        count += write(name, finetuned.create_scorer().predict(tracked_examples, counts))
        counts.print_warnings(f"{settings.data}, {name}" if is_official else settings.data)
    return count


def split_names_to_predict(task: Task, data: str, split: Split | None = None) -> tuple[str, ...]:
    """Return the names of the parts of a split; without a split, of the one to predict by default."""
    if split is None:
        split = task.split_to_predict(data)
        if split != "test":
            progress.print_message(f"{data}: no test split of {task.name}; predicting {split}")
    return task.split_names(split, data)


def prediction_writer(
    task: Task, data: str, split_names: Sequence[str], out: Path | None
) -> Callable[[str, Predictions], int]:
    """Return the function that writes the predictions for a part of a split and returns their number.

    Raises `InputError` if the output cannot be written, before any prediction is computed.
    """
    submission = task.submission
    if submission and _is_submission(submission, task, data, out):
        assert out is not None
        files = {name: submission.file(name, out) for name in split_names}
        # Some of several files may be from an interrupted call: `write_one_of_several_files`.
        if all(file.is_file() for file in files.values()):
            refuse_existing_file(next(iter(files.values())))
        return lambda name, predictions: submission.write(predictions, files[name])
    if out is not None:
        suffixes = [*([submission.suffix] if submission and submission.suffix else []), *_WRITERS]
        if out.suffix.lower() not in _WRITERS:
            raise InputError(f"{out}: unknown format; name a file that ends in {', '.join(suffixes)}")
        if out.is_dir():
            raise InputError(f"{out}: a folder; name a file")
        refuse_existing_file(out)
    return lambda _, predictions: _write_table(predictions, out, task.task_type.table_columns)


def _is_submission(submission: SubmissionFormat, task: Task, data: str, out: Path | None) -> bool:
    """Return whether to write the official format: a file by its suffix, a folder for an official layout."""
    if submission.suffix:
        return out is not None and out.suffix.lower() == submission.suffix
    if is_folder(data) and (out is None or out.suffix):
        raise InputError(
            f"{out or '--out'}: predictions for the folder of {task.name} are files for its server; "
            "name a folder for them"
        )
    return is_folder(data)


def _write_table(predictions: Predictions, out: Path | None, columns: tuple[str, ...]) -> int:
    """Write a row for each prediction, as JSON lines to standard output or to a file in its format."""
    if out is None:
        return _WRITERS[".jsonl"](predictions, sys.stdout, columns)
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(out) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        count = _WRITERS[out.suffix.lower()](predictions, stream, columns)
    progress.print_message(f"{out}: {count:,} predictions")
    return count


def _write_jsonl(predictions: Predictions, stream: TextIO, columns: tuple[str, ...]) -> int:  # noqa: ARG001
    count = 0
    for example, prediction in predictions:
        stream.write(progress.json_text({"id": example.example_id, **prediction}) + "\n")
        count += 1
    return count


def _write_csv(predictions: Predictions, stream: TextIO, columns: tuple[str, ...]) -> int:
    return _write_rows(predictions, csv.writer(stream).writerow, columns)


def _write_tsv(predictions: Predictions, stream: TextIO, columns: tuple[str, ...]) -> int:
    def write_row(cells: list[Any]) -> None:
        stream.write("\t".join(" ".join(str(cell).split()) for cell in cells) + "\n")

    return _write_rows(predictions, write_row, columns)


def _write_rows(
    predictions: Predictions, write_row: Callable[[list[Any]], Any], columns: tuple[str, ...]
) -> int:
    write_row(["id", *columns])
    count = 0
    for example, prediction in predictions:
        count += 1
        values = [prediction.get(column, "") for column in columns]
        cells = [" ".join(value) if isinstance(value, list) else value for value in values]
        write_row([example.example_id, *cells])
    return count


_WRITERS = {".jsonl": _write_jsonl, ".csv": _write_csv, ".tsv": _write_tsv}

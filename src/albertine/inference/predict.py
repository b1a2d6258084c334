"""Writes predictions for a file or a split while they are computed, so that memory is bounded.

For a file, the output has a row for each of its rows, as JSON lines, CSV or TSV. For the folder
of an official task, it is in the format of the task's submission server or official script.
"""

import csv
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from albertine import progress
from albertine.atomic import atomic_file, refuse_existing_file
from albertine.errors import InputError
from albertine.inference.evaluate import read_split
from albertine.inference.finetuned_model import load_finetuned
from albertine.inference.settings import PredictSettings
from albertine.tasks.encoding_report import EncodingReport
from albertine.tasks.examples import Example
from albertine.tasks.task import Task, is_folder
from albertine.tasks.types.task_type import Prediction

Predictions = Iterator[tuple[Example, Prediction]]


def predict(model: str | Path, settings: PredictSettings, out: str | Path | None = None) -> int:
    """Write predictions for a file or a split; return their number.

    Args:
        model: a fine-tuned run, the folder of a checkpoint, or a hub name.
        settings: the data, and its columns where they differ from those of the training data.
        out: a file of JSON lines, CSV or TSV; a folder for GLUE, a .json for SQuAD. Without it, JSON lines
            are written to standard output.
    """
    if settings.data is None:
        raise InputError("--data is missing: a file, the task's folder, or hub:OWNER/NAME")
    out = None if out is None else Path(out)
    finetuned = load_finetuned(model, settings.device, settings.precision, task=settings.task)
    official = is_folder(settings.data)
    split_names = finetuned.task.split_names(settings.split, settings.data)
    for name in split_names if official else ():  # an unreadable split must fail before any is predicted
        next(read_split(finetuned, name, settings, require_labels=False))
    count = 0
    for name in split_names:
        examples = read_split(finetuned, name, settings, require_labels=False)
        description = f"Predicting {name}" if official else "Predicting"
        tracked_examples = progress.track(examples, description, unit="examples")
        report = EncodingReport(finetuned.tokenizer.special_ids)
        predictions = finetuned.create_scorer().predict(tracked_examples, report)
        count += write_predictions(finetuned.task, name, predictions, out, official=official)
        report.print_losses(f"{settings.data}, {name}" if official else settings.data)
    return count


def write_predictions(
    task: Task, split_name: str, predictions: Predictions, out: Path | None, *, official: bool
) -> int:
    """Write predictions in the format of their destination; return their number."""
    if official and task.write_submission:
        return task.write_submission(split_name, predictions, out)
    with _open_output(out) as (stream, suffix):
        count = _WRITERS[suffix](predictions, stream, task.task_type.table_columns)
    if out is not None:
        progress.print_message(f"{out}: {count:,} predictions")
    return count


@contextmanager
def _open_output(out: Path | None) -> Iterator[tuple[TextIO, str]]:
    """Yield standard output, or a file that is written atomically, each with the suffix of its format."""
    if out is None:
        yield sys.stdout, ".jsonl"
        return
    suffix = out.suffix.lower()
    if suffix not in _WRITERS:
        raise InputError(f"{out}: unknown format; name a file that ends in {', '.join(_WRITERS)}")
    if out.is_dir():
        raise InputError(f"{out}: a folder; name a file")
    refuse_existing_file(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(out) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        yield stream, suffix


def _write_jsonl(predictions: Predictions, stream: TextIO, columns: tuple[str, ...]) -> int:  # noqa: ARG001
    count = 0
    for example, prediction in predictions:
        stream.write(json.dumps({"id": example.example_id, **prediction}, ensure_ascii=False) + "\n")
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

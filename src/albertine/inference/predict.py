"""Answers for a file, written as they come: any size in bounded memory, in the order of the rows.

A file gives a file: a row of answers for each row, as JSON lines, CSV or TSV. The folder of
an official task gives what its server or script takes: GLUE's files of predictions,
SQuAD's JSON of answers by question.
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
from albertine.tasks.examples import Example
from albertine.tasks.formats import glue
from albertine.tasks.settings import PredictSettings
from albertine.text.hub_datasets import HUB_PREFIX

Predictions = Iterator[tuple[Example, dict[str, Any]]]
_TABLE_COLUMNS = {
    "classify": ("label", "probability"),
    "regress": ("value",),
    "tag": ("tags",),
    "span": ("answer", "no_answer"),
    "choice": ("option", "text", "probability"),
}


def predict(source: str, out: Path | None, settings: PredictSettings, explicit: frozenset[str]) -> int:
    """Answer a file or a part of a task; return how many answers there are."""
    if settings.data is None:
        raise InputError("--data is missing: a file, the task's folder, or hub:OWNER/NAME")
    model = load_finetuned(source, settings.device, settings.precision, task=settings.task)
    official = Path(settings.data).is_dir() or settings.data.startswith(HUB_PREFIX)
    written = 0
    parts = model.task.split_names(settings.split, settings.data)
    for part in parts if official else ():  # one that cannot be answered is told before any is
        next(read_split(model, part, settings, explicit, require_labels=False))
    for part in parts:
        examples = read_split(model, part, settings, explicit, require_labels=False)
        counted = progress.track(examples, f"Answering {part if official else ''}".rstrip(), unit="examples")
        predictions = model.create_scorer().predict(counted)
        written += write_predictions(
            model.task.name, model.card.type_name, part, predictions, out, official=official
        )
    return written


def write_predictions(
    task: str, type_name: str, split_name: str, predictions: Predictions, out: Path | None, *, official: bool
) -> int:
    """Write answers as their destination takes them; return how many."""
    if official and task in glue.GLUE:
        return _write_glue_submission(task, split_name, predictions, out)
    if official and task.startswith("squad"):
        return _write_squad_predictions(predictions, out)
    with _open_output(out) as (stream, form):
        count = _WRITERS[form](predictions, stream, type_name)
    if out is not None:
        progress.print_message(f"{out}: {count:,} answers")
    return count


@contextmanager
def _open_output(out: Path | None) -> Iterator[tuple[TextIO, str]]:
    """Open what is written to: standard output, or a file that appears when all is there."""
    if out is None:
        yield sys.stdout, ".jsonl"
        return
    suffix = out.suffix.lower()
    if suffix not in _WRITERS:
        raise InputError(f"{out}: written are {', '.join(_WRITERS)}; name a file of one of them")
    if out.is_dir():
        raise InputError(f"{out}: a folder; name a file")
    refuse_existing_file(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with atomic_file(out) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        yield stream, suffix


def _write_jsonl(answered: Predictions, stream: TextIO, kind: str) -> int:  # noqa: ARG001  # all forms are asked alike
    count = 0
    for example, answer in answered:
        stream.write(json.dumps({"id": example.example_id, **answer}, ensure_ascii=False) + "\n")
        count += 1
    return count


def _write_csv(answered: Predictions, stream: TextIO, kind: str) -> int:
    return _write_rows(answered, csv.writer(stream).writerow, kind)


def _write_tsv(answered: Predictions, stream: TextIO, kind: str) -> int:
    def row(cells: list[Any]) -> None:
        stream.write("\t".join(" ".join(str(cell).split()) for cell in cells) + "\n")

    return _write_rows(answered, row, kind)


def _write_rows(answered: Predictions, write_row: Callable[[list[Any]], Any], kind: str) -> int:
    columns = _TABLE_COLUMNS[kind]
    write_row(["id", *columns])
    count = 0
    for example, answer in answered:
        count += 1
        cells = [answer.get(column, "") for column in columns]
        write_row(
            [example.example_id, *(" ".join(cell) if isinstance(cell, list) else cell for cell in cells)]
        )
    return count


_WRITERS = {".jsonl": _write_jsonl, ".csv": _write_csv, ".tsv": _write_tsv}


def _write_glue_submission(task: str, split_name: str, answered: Predictions, out: Path | None) -> int:
    if out is None or out.suffix:
        raise InputError(f"{out or '--out'}: GLUE's server takes files named by task; name a folder for them")
    refuse_existing_file(glue.submission_file(task, split_name, out))
    out.mkdir(parents=True, exist_ok=True)
    found = [
        (example.example_id, answer["label"] if "label" in answer else f"{answer['value']:.3f}")
        for example, answer in answered
    ]
    progress.print_message(
        f"{glue.write_submission(task, split_name, out, found)}: {len(found):,} predictions"
    )
    return len(found)


def _write_squad_predictions(answered: Predictions, out: Path | None) -> int:
    """Write answers by question, as the official script takes them, and the doubts that there are any."""
    if out is None or out.suffix.lower() != ".json":
        raise InputError(f"{out or '--out'}: SQuAD's script takes a .json of answers; name one")
    refuse_existing_file(out)
    answers_by_id: dict[str, str] = {}
    no_answer_probabilities: dict[str, float] = {}
    for example, answer in answered:
        answers_by_id[example.example_id] = answer["answer"]
        if "no_answer" in answer:
            no_answer_probabilities[example.example_id] = answer["no_answer_probability"]
    out.parent.mkdir(parents=True, exist_ok=True)
    for file, what in ((out, answers_by_id), (out.with_suffix(".no_answer.json"), no_answer_probabilities)):
        if what:
            with atomic_file(file) as partial:
                partial.write_text(json.dumps(what, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return len(answers_by_id)

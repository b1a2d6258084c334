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
from albertine.errors import InputError
from albertine.tasks.evaluate import part_of
from albertine.tasks.examples import Example
from albertine.tasks.formats import glue
from albertine.tasks.settings import PredictSettings
from albertine.tasks.tuned import tuned
from albertine.text.hub import HUB
from albertine.whole import new_file, refuse_existing

Answered = Iterator[tuple[Example, dict[str, Any]]]
_SHORT = {
    "classify": ("label", "probability"),
    "regress": ("value",),
    "tag": ("tags",),
    "span": ("answer", "no_answer"),
    "choice": ("option", "text", "probability"),
}


def predict(source: str, out: Path | None, settings: PredictSettings, given: frozenset[str]) -> int:
    """Answer a file or a part of a task; return how many answers there are."""
    if settings.data is None:
        raise InputError("--data is missing: a file, the task's folder, or hub:OWNER/NAME")
    model = tuned(source, settings.device, settings.precision, task=settings.task)
    official = Path(settings.data).is_dir() or settings.data.startswith(HUB)
    written = 0
    parts = model.task.parts(settings.split, settings.data)
    for part in parts if official else ():  # one that cannot be answered is told before any is
        next(part_of(model, part, settings, given, solved=False))
    for part in parts:
        coming = part_of(model, part, settings, given, solved=False)
        counted = progress.track(coming, f"Answering {part if official else ''}".rstrip(), unit="examples")
        answered = model.scorer().answered(counted)
        written += write(model.task.name, model.card.kind, part, answered, out, official=official)
    return written


def write(task: str, kind: str, part: str, answered: Answered, out: Path | None, *, official: bool) -> int:
    """Write answers as their destination takes them; return how many."""
    if official and task in glue.GLUE:
        return _submit(task, part, answered, out)
    if official and task.startswith("squad"):
        return _squad(answered, out)
    with _destination(out) as (stream, form):
        count = _FORMS[form](answered, stream, kind)
    if out is not None:
        progress.say(f"{out}: {count:,} answers")
    return count


@contextmanager
def _destination(out: Path | None) -> Iterator[tuple[TextIO, str]]:
    """Open what is written to: standard output, or a file that appears when all is there."""
    if out is None:
        yield sys.stdout, ".jsonl"
        return
    form = out.suffix.lower()
    if form not in _FORMS:
        raise InputError(f"{out}: written are {', '.join(_FORMS)}; name a file of one of them")
    if out.is_dir():
        raise InputError(f"{out}: a folder; name a file")
    refuse_existing(out)
    out.parent.mkdir(parents=True, exist_ok=True)
    with new_file(out) as partial, partial.open("w", encoding="utf-8", newline="") as stream:
        yield stream, form


def _json(answered: Answered, stream: TextIO, kind: str) -> int:  # noqa: ARG001  # all forms are asked alike
    count = 0
    for example, answer in answered:
        stream.write(json.dumps({"id": example.name, **answer}, ensure_ascii=False) + "\n")
        count += 1
    return count


def _csv(answered: Answered, stream: TextIO, kind: str) -> int:
    return _table(answered, csv.writer(stream).writerow, kind)


def _tsv(answered: Answered, stream: TextIO, kind: str) -> int:
    def row(cells: list[Any]) -> None:
        stream.write("\t".join(" ".join(str(cell).split()) for cell in cells) + "\n")

    return _table(answered, row, kind)


def _table(answered: Answered, row: Callable[[list[Any]], Any], kind: str) -> int:
    columns = _SHORT[kind]
    row(["id", *columns])
    count = 0
    for example, answer in answered:
        count += 1
        cells = [answer.get(column, "") for column in columns]
        row([example.name, *(" ".join(cell) if isinstance(cell, list) else cell for cell in cells)])
    return count


_FORMS = {".jsonl": _json, ".csv": _csv, ".tsv": _tsv}


def _submit(task: str, part: str, answered: Answered, out: Path | None) -> int:
    if out is None or out.suffix:
        raise InputError(f"{out or '--out'}: GLUE's server takes files named by task; name a folder for them")
    refuse_existing(glue.submitted(task, part, out))
    out.mkdir(parents=True, exist_ok=True)
    found = [
        (example.name, answer["label"] if "label" in answer else f"{answer['value']:.3f}")
        for example, answer in answered
    ]
    progress.say(f"{glue.submit(task, part, out, found)}: {len(found):,} predictions")
    return len(found)


def _squad(answered: Answered, out: Path | None) -> int:
    """Write answers by question, as the official script takes them, and the doubts that there are any."""
    if out is None or out.suffix.lower() != ".json":
        raise InputError(f"{out or '--out'}: SQuAD's script takes a .json of answers; name one")
    refuse_existing(out)
    answers: dict[str, str] = {}
    doubts: dict[str, float] = {}
    for example, answer in answered:
        answers[example.name] = answer["answer"]
        if "no_answer" in answer:
            doubts[example.name] = answer["no_answer_probability"]
    out.parent.mkdir(parents=True, exist_ok=True)
    for file, what in ((out, answers), (out.with_suffix(".no_answer.json"), doubts)):
        if what:
            with new_file(file) as partial:
                partial.write_text(json.dumps(what, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    return len(answers)

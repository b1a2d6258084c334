"""A person's own rows as examples, by the names of their columns."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.settings.schema import shortened
from albertine.tasks.examples import Answer, Choice, Example, Labelled, Question, Tagged
from albertine.tasks.formats.conll import sentences
from albertine.tasks.formats.rows import Row, RowError, rows, suffix_of, whole
from albertine.tasks.settings import DataSettings
from albertine.text.documents import Troubles

_CONLL = (".conll", ".conllu", ".iob", ".iob2", ".bio", ".txt")


def examples(
    source: str, kind: str, columns: DataSettings, troubles: Troubles, *, solved: bool, named: bool = False
) -> Iterator[Example]:
    """Yield the examples of a file.

    Args:
        source: the file, or a data set of the hub.
        kind: classify, regress, tag, span or choice.
        columns: what the columns are called.
        troubles: what to do with rows that cannot be read.
        solved: whether what is to be found out must be there.
        named: whether the column of names must.
    """
    if kind == "tag" and suffix_of(Path(source)) in _CONLL:
        yield from sentences(Path(source), troubles, tagged=solved)
        return
    make, wanted = _MAKERS[kind], _wanted(kind, columns, solved)
    wanted |= {columns.name: "--name"} if named else {}
    for row in rows(source, troubles, wanted, wanted):
        try:
            yield make(row, columns, solved)
        except RowError as error:
            troubles.meet(row.place, str(error))


def _options_columns(columns: DataSettings) -> tuple[str, ...]:
    return tuple(one.strip() for one in columns.options.split(","))


def _wanted(kind: str, columns: DataSettings, solved: bool) -> dict[str, str]:
    """Return the columns that must be there, with the options that name them."""
    match kind:
        case "span":
            names, answer = ["question", "context"], "answers"
        case "choice":
            names, answer = [], "label"
        case _:
            names, answer = ["text", *(["other"] if columns.other and kind != "tag" else [])], "label"
    wanted = {getattr(columns, name): f"--{name}" for name in (*names, *([answer] if solved else []))}
    return wanted | (dict.fromkeys(_options_columns(columns), "--options") if kind == "choice" else {})


def _name(row: Row, columns: DataSettings) -> str:
    value = row.cells.get(columns.name)
    return str(row.number) if value is None or isinstance(value, dict | list) else str(value)


def _labelled(row: Row, columns: DataSettings, solved: bool) -> Labelled:
    texts = (row.text(columns.text), *([row.text(columns.other)] if columns.other else []))
    label = _label(row.cells.get(columns.label)) if solved else None
    return Labelled(row.place, _name(row, columns), texts, label=label)


def _valued(row: Row, columns: DataSettings, solved: bool) -> Labelled:
    texts = (row.text(columns.text), *([row.text(columns.other)] if columns.other else []))
    value = number_of(row.cells.get(columns.label), columns.label) if solved else None
    return Labelled(row.place, _name(row, columns), texts, value=value)


def _label(value: Any) -> str:
    """Write a label as one would; a whole number that a table keeps as 1.0 is 1."""
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        raise RowError("has no label")
    if isinstance(value, dict | list):
        raise RowError(f"its label is {shortened(json.dumps(value, default=str))}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return whole(str(value).strip())


def number_of(value: Any, column: str) -> float:
    """Return a cell that must be a finite number."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise RowError(f"column {shortened(column)} holds {shortened(str(value))}, not a number") from None
    if found != found or abs(found) == float("inf"):
        raise RowError(f"column {shortened(column)} holds {value}, not a finite number")
    return found


def _tagged(row: Row, columns: DataSettings, solved: bool) -> Tagged:
    words = _listed(row.cells.get(columns.text), columns.text)
    tags = _listed(row.cells.get(columns.label), columns.label) if solved else None
    if not words:
        raise RowError("has no words")
    if tags is not None and len(tags) != len(words):
        raise RowError(f"{len(words)} words and {len(tags)} tags")
    return Tagged(row.place, _name(row, columns), words, tags)


def _listed(value: Any, column: str) -> tuple[str, ...]:
    """Return a list of text; in a table of text, words stand between spaces."""
    if isinstance(value, str):
        return tuple(whole(value).split())
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise RowError(f"column {shortened(column)} holds no list of text")
    return tuple(map(whole, value))


def _question(row: Row, columns: DataSettings, solved: bool) -> Question:
    passage = row.text(columns.context)
    answers = None
    if solved or row.cells.get(columns.answers) is not None:
        answers = tuple(found_answers(row.cells.get(columns.answers), passage))
    return Question(row.place, _name(row, columns), row.text(columns.question), passage, answers)


def found_answers(value: Any, passage: str) -> Iterator[Answer]:
    """Yield answers, in SQuAD's form or as plain text that is sought in the passage; each must be there."""
    if isinstance(value, dict):
        texts, starts = value.get("text", []), value.get("answer_start", [])
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise RowError("its answers have not as many starts as texts")
        value = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    if value is not None and not isinstance(value, str | list):
        raise RowError(f"its answers are {shortened(str(value))}, no text and no list")
    for one in [value] if isinstance(value, str) else value or []:
        text = one.get("text") if isinstance(one, dict) else one
        if not isinstance(text, str):
            raise RowError(f"an answer without text: {shortened(str(one))}")
        if not text:  # an empty cell: there is no answer
            continue
        start = one.get("answer_start") if isinstance(one, dict) else passage.find(text)
        if not isinstance(start, int) or start < 0 or passage[start : start + len(text)] != text:
            raise RowError(f"its answer is not in the passage, at {start}: {shortened(text)}")
        yield Answer(text, start)


def _choice(row: Row, columns: DataSettings, solved: bool) -> Choice:
    names = _options_columns(columns)
    if len(names) > 1:
        options = tuple(row.text(name) for name in names)
    else:
        cell = row.cells.get(names[0])
        if isinstance(cell, str):
            try:
                cell = json.loads(cell)
            except ValueError:
                raise RowError(f"column {names[0]} holds no list; name several columns: a,b,c") from None
        options = _listed(cell, names[0])
    if len(options) < 2:
        raise RowError(f"{len(options)} options; there must be two at least")
    right = right_option(row.cells.get(columns.label), options) if solved else None
    passage, question = (row.cells.get(name) or "" for name in (columns.context, columns.question))
    return Choice(row.place, _name(row, columns), str(passage), str(question), options, right)


def right_option(value: Any, options: tuple[str, ...]) -> int:
    """Return which option a label names: by its text, its letter, or its number from 0."""
    if isinstance(value, str) and options.count(value) == 1:
        return options.index(value)
    if isinstance(value, str) and re.fullmatch("[A-Za-z]", value.strip()):
        at = ord(value.strip().upper()) - ord("A")
    else:
        try:
            at = -1 if isinstance(value, bool) or float(value) != int(value) else int(value)
        except (TypeError, ValueError, OverflowError):
            at = -1
    if not 0 <= at < len(options):
        raise RowError(f"{shortened(str(value))} names none of the {len(options)} options")
    return at


_MAKERS: dict[str, Callable[[Row, DataSettings, bool], Example]] = {
    "classify": _labelled,
    "regress": _valued,
    "tag": _tagged,
    "span": _question,
    "choice": _choice,
}


def refuse_unknown_file(source: str, kind: str) -> None:
    """Refuse what is a folder: one's own examples are a file."""
    if Path(source).is_dir():
        raise InputError(f"{source}: a folder; for {kind}, name a file")

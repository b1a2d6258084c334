"""A person's own rows as examples, by the names of their columns."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.settings.schema import display_text
from albertine.tasks.examples import (
    AnswerText,
    Example,
    MultipleChoiceExample,
    QuestionExample,
    TaggedExample,
    TextExample,
)
from albertine.tasks.formats.conll import read_sentences
from albertine.tasks.formats.tables import RowError, TableRow, data_suffix, read_rows, require_valid_unicode
from albertine.tasks.settings import DataSettings
from albertine.text.documents import ReadErrors

_CONLL_SUFFIXES = (".conll", ".conllu", ".iob", ".iob2", ".bio", ".txt")


def read_examples(
    source: str,
    type_name: str,
    columns: DataSettings,
    troubles: ReadErrors,
    *,
    require_labels: bool,
    require_ids: bool = False,
) -> Iterator[Example]:
    """Yield the examples of a file.

    Args:
        source: the file, or a data set of the hub.
        type_name: classify, regress, tag, span or choice.
        columns: what the columns are called.
        troubles: what to do with rows that cannot be read.
        require_labels: whether what is to be found out must be there.
        require_ids: whether the column of names must.
    """
    if type_name == "tag" and data_suffix(Path(source)) in _CONLL_SUFFIXES:
        yield from read_sentences(Path(source), troubles, require_tags=require_labels)
        return
    build_example, required = (
        _EXAMPLE_BUILDERS[type_name],
        _required_columns(type_name, columns, require_labels),
    )
    required |= {columns.id: "--name"} if require_ids else {}
    for row in read_rows(source, troubles, required, required):
        try:
            yield build_example(row, columns, require_labels)
        except RowError as error:
            troubles.handle(row.location, str(error))


def _option_columns(columns: DataSettings) -> tuple[str, ...]:
    return tuple(one.strip() for one in columns.options.split(","))


def _required_columns(type_name: str, columns: DataSettings, require_labels: bool) -> dict[str, str]:
    """Return the columns that must be there, with the options that name them."""
    match type_name:
        case "span":
            names, answer = ["question", "context"], "answers"
        case "choice":
            names, answer = [], "label"
        case _:
            names, answer = (
                ["text", *(["other"] if columns.text_pair and type_name != "tag" else [])],
                "label",
            )
    wanted = {getattr(columns, name): f"--{name}" for name in (*names, *([answer] if require_labels else []))}
    return wanted | (dict.fromkeys(_option_columns(columns), "--options") if type_name == "choice" else {})


def _example_id(row: TableRow, columns: DataSettings) -> str:
    value = row.cells.get(columns.id)
    return str(row.number) if value is None or isinstance(value, dict | list) else str(value)


def _classification_example(row: TableRow, columns: DataSettings, require_labels: bool) -> TextExample:
    texts = (row.text(columns.text), *([row.text(columns.text_pair)] if columns.text_pair else []))
    label = _parse_label(row.cells.get(columns.label)) if require_labels else None
    return TextExample(row.location, _example_id(row, columns), texts, label=label)


def _regression_example(row: TableRow, columns: DataSettings, require_labels: bool) -> TextExample:
    texts = (row.text(columns.text), *([row.text(columns.text_pair)] if columns.text_pair else []))
    value = parse_number(row.cells.get(columns.label), columns.label) if require_labels else None
    return TextExample(row.location, _example_id(row, columns), texts, value=value)


def _parse_label(value: Any) -> str:
    """Write a label as one would; a whole number that a table keeps as 1.0 is 1."""
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        raise RowError("has no label")
    if isinstance(value, dict | list):
        raise RowError(f"its label is {display_text(json.dumps(value, default=str))}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return require_valid_unicode(str(value).strip())


def parse_number(value: Any, column: str) -> float:
    """Return a cell that must be a finite number."""
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        raise RowError(
            f"column {display_text(column)} holds {display_text(str(value))}, not a number"
        ) from None
    if found != found or abs(found) == float("inf"):
        raise RowError(f"column {display_text(column)} holds {value}, not a finite number")
    return found


def _tagged_example(row: TableRow, columns: DataSettings, require_labels: bool) -> TaggedExample:
    words = _listed(row.cells.get(columns.text), columns.text)
    tags = _listed(row.cells.get(columns.label), columns.label) if require_labels else None
    if not words:
        raise RowError("has no words")
    if tags is not None and len(tags) != len(words):
        raise RowError(f"{len(words)} words and {len(tags)} tags")
    return TaggedExample(row.location, _example_id(row, columns), words, tags)


def _listed(value: Any, column: str) -> tuple[str, ...]:
    """Return a list of text; in a table of text, words stand between spaces."""
    if isinstance(value, str):
        return tuple(require_valid_unicode(value).split())
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise RowError(f"column {display_text(column)} holds no list of text")
    return tuple(map(require_valid_unicode, value))


def _question_example(row: TableRow, columns: DataSettings, require_labels: bool) -> QuestionExample:
    context = row.text(columns.context)
    answers = None
    if require_labels or row.cells.get(columns.answers) is not None:
        answers = tuple(parse_answers(row.cells.get(columns.answers), context))
    return QuestionExample(
        row.location, _example_id(row, columns), row.text(columns.question), context, answers
    )


def parse_answers(value: Any, context: str) -> Iterator[AnswerText]:
    """Yield answers, in SQuAD's form or as plain text that is sought in the passage; each must be there."""
    if isinstance(value, dict):
        texts, starts = value.get("text", []), value.get("answer_start", [])
        if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
            raise RowError("its answers have not as many starts as texts")
        value = [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]
    if value is not None and not isinstance(value, str | list):
        raise RowError(f"its answers are {display_text(str(value))}, no text and no list")
    for one in [value] if isinstance(value, str) else value or []:
        text = one.get("text") if isinstance(one, dict) else one
        if not isinstance(text, str):
            raise RowError(f"an answer without text: {display_text(str(one))}")
        if not text:  # an empty cell: there is no answer
            continue
        start = one.get("answer_start") if isinstance(one, dict) else context.find(text)
        if not isinstance(start, int) or start < 0 or context[start : start + len(text)] != text:
            raise RowError(f"its answer is not in the passage, at {start}: {display_text(text)}")
        yield AnswerText(text, start)


def _choice_example(row: TableRow, columns: DataSettings, require_labels: bool) -> MultipleChoiceExample:
    names = _option_columns(columns)
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
    correct_option = parse_option(row.cells.get(columns.label), options) if require_labels else None
    context, question = (row.cells.get(name) or "" for name in (columns.context, columns.question))
    return MultipleChoiceExample(
        row.location, _example_id(row, columns), str(context), str(question), options, correct_option
    )


def parse_option(value: Any, options: tuple[str, ...]) -> int:
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
        raise RowError(f"{display_text(str(value))} names none of the {len(options)} options")
    return at


_EXAMPLE_BUILDERS: dict[str, Callable[[TableRow, DataSettings, bool], Example]] = {
    "classify": _classification_example,
    "regress": _regression_example,
    "tag": _tagged_example,
    "span": _question_example,
    "choice": _choice_example,
}


def refuse_folder(source: str, type_name: str) -> None:
    """Refuse what is a folder: one's own examples are a file."""
    if Path(source).is_dir():
        raise InputError(f"{source}: a folder; for {type_name}, name a file")

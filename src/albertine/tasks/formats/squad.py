"""SQuAD's files, versions 1.1 and 2.0, and files of predictions as its scoring script takes them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.tasks.examples import AnswerText, QuestionExample
from albertine.tasks.formats.custom import parse_answers
from albertine.tasks.formats.tables import RowError, open_data_file, read_rows, require_valid_unicode
from albertine.text.documents import ReadErrors
from albertine.text.hub_datasets import HUB_PREFIX

_VERSIONS = {"squad-1.1": "v1.1", "squad-2.0": "v2.0"}


def find_split_file(name: str, data: Path, split: str) -> Path:
    """Return the file of a split in a folder, or the file itself that was named."""
    if not data.is_dir():
        return data
    wanted = f"{split}-{_VERSIONS[name]}.json"
    for folder in (data, data / "squad"):
        if (folder / wanted).is_file():
            return folder / wanted
    raise InputError(f"{data}: no {wanted} there, as SQuAD calls it; name a file, or its folder")


def read_examples(name: str, data: str, split: str, troubles: ReadErrors) -> Iterator[QuestionExample]:
    """Yield the questions of a split."""
    if data.startswith(HUB_PREFIX):
        yield from _read_hub(data, split, troubles)
        return
    file = find_split_file(name, Path(data), split)
    for title, article in enumerate(_require_list(_read_json(file), "data", f"{file}")):
        for number, paragraph in enumerate(_require_list(article, "paragraphs", f"{file}, article {title}")):
            place = f"{file}, article {title}, paragraph {number}"
            context = paragraph.get("context")
            if not isinstance(context, str):
                troubles.handle(place, "has no context")
                continue
            for at, entry in enumerate(_require_list(paragraph, "qas", place)):
                try:
                    yield _parse_question(entry, context, f"{place}, question {at}")
                except RowError as error:
                    troubles.handle(f"{place}, question {at}", str(error))


def _read_json(file: Path) -> dict[str, Any]:
    try:
        with open_data_file(file) as stream:
            found = json.loads(stream.read().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not JSON ({error}); get the file again") from None
    if not isinstance(found, dict):
        raise InputError(f"{file}: not a file of SQuAD; it would hold `data`, a list of articles")
    return found


def _require_list(holder: Any, key: str, place: str) -> list[dict[str, Any]]:
    found = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InputError(f"{place}: has no list {key}; a file of SQuAD does")
    return found


def _parse_question(entry: dict[str, Any], context: str, place: str) -> QuestionExample:
    question, name = entry.get("question"), entry.get("id")
    if not isinstance(question, str) or name is None:
        raise RowError("a question without text or id")
    require_valid_unicode(question + context)
    answers: tuple[AnswerText, ...] | None = None
    if entry.get("is_impossible"):
        answers = ()
    elif "answers" in entry:
        answers = tuple(parse_answers(entry["answers"], context))
    return QuestionExample(place, str(name), question, context, answers)


def _read_hub(data: str, split: str, troubles: ReadErrors) -> Iterator[QuestionExample]:
    place = data.removeprefix(HUB_PREFIX).split(":")
    config = place[1] if len(place) > 1 else ""
    source = f"{HUB_PREFIX}{place[0]}:{config}:{'validation' if split == 'dev' else split}"
    for row in read_rows(source, troubles, ("id", "question", "context", "answers")):
        try:
            answers = tuple(parse_answers(row.cells["answers"], row.text("context")))
            yield QuestionExample(
                row.location, str(row.cells["id"]), row.text("question"), row.text("context"), answers
            )
        except RowError as error:
            troubles.handle(row.location, str(error))

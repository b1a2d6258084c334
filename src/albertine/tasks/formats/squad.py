"""SQuAD's files, versions 1.1 and 2.0, and files of predictions as its scoring script takes them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.tasks.examples import Answer, Question
from albertine.tasks.formats.own import found_answers
from albertine.tasks.formats.rows import RowError, opened, rows, whole
from albertine.text.documents import Troubles
from albertine.text.hub import HUB

_VERSIONS = {"squad-1.1": "v1.1", "squad-2.0": "v2.0"}


def file_of(name: str, data: Path, split: str) -> Path:
    """Return the file of a split in a folder, or the file itself that was named."""
    if not data.is_dir():
        return data
    wanted = f"{split}-{_VERSIONS[name]}.json"
    for folder in (data, data / "squad"):
        if (folder / wanted).is_file():
            return folder / wanted
    raise InputError(f"{data}: no {wanted} there, as SQuAD calls it; name a file, or its folder")


def examples(name: str, data: str, split: str, troubles: Troubles) -> Iterator[Question]:
    """Yield the questions of a split."""
    if data.startswith(HUB):
        yield from _from_hub(data, split, troubles)
        return
    file = file_of(name, Path(data), split)
    for title, article in enumerate(_listed(_contents(file), "data", f"{file}")):
        for number, paragraph in enumerate(_listed(article, "paragraphs", f"{file}, article {title}")):
            place = f"{file}, article {title}, paragraph {number}"
            passage = paragraph.get("context")
            if not isinstance(passage, str):
                troubles.meet(place, "has no context")
                continue
            for at, asked in enumerate(_listed(paragraph, "qas", place)):
                try:
                    yield _question(asked, passage, f"{place}, question {at}")
                except RowError as error:
                    troubles.meet(f"{place}, question {at}", str(error))


def _contents(file: Path) -> dict[str, Any]:
    try:
        with opened(file) as stream:
            found = json.loads(stream.read().decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not JSON ({error}); get the file again") from None
    if not isinstance(found, dict):
        raise InputError(f"{file}: not a file of SQuAD; it would hold `data`, a list of articles")
    return found


def _listed(holder: Any, key: str, place: str) -> list[dict[str, Any]]:
    found = holder.get(key) if isinstance(holder, dict) else None
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise InputError(f"{place}: has no list {key}; a file of SQuAD does")
    return found


def _question(asked: dict[str, Any], passage: str, place: str) -> Question:
    question, name = asked.get("question"), asked.get("id")
    if not isinstance(question, str) or name is None:
        raise RowError("a question without text or id")
    whole(question + passage)
    answers: tuple[Answer, ...] | None = None
    if asked.get("is_impossible"):
        answers = ()
    elif "answers" in asked:
        answers = tuple(found_answers(asked["answers"], passage))
    return Question(place, str(name), question, passage, answers)


def _from_hub(data: str, split: str, troubles: Troubles) -> Iterator[Question]:
    place = data.removeprefix(HUB).split(":")
    config = place[1] if len(place) > 1 else ""
    source = f"{HUB}{place[0]}:{config}:{'validation' if split == 'dev' else split}"
    for row in rows(source, troubles, ("id", "question", "context", "answers")):
        try:
            answers = tuple(found_answers(row.cells["answers"], row.text("context")))
            yield Question(
                row.place, str(row.cells["id"]), row.text("question"), row.text("context"), answers
            )
        except RowError as error:
            troubles.meet(row.place, str(error))

"""Reads RACE and DREAM: multiple-choice questions about a passage or a dialogue."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.tasks.examples import MultipleChoiceExample
from albertine.tasks.formats.cells import parse_option
from albertine.tasks.formats.tables import RowError, read_rows, require_valid_unicode
from albertine.text.documents import ReadErrors
from albertine.text.hub_datasets import HUB_PREFIX

_LEVELS = ("middle", "high")


def read_race(data: str, split: str, errors: ReadErrors) -> Iterator[MultipleChoiceExample]:
    """Yield the questions of a split of RACE: one file per article, in `SPLIT/middle` and `SPLIT/high`."""
    if data.startswith(HUB_PREFIX):
        yield from _read_race_hub(data, split, errors)
        return
    root = Path(data)
    root = root / "race" if (root / "race" / split).is_dir() else root
    root = root / "RACE" if (root / "RACE" / split).is_dir() else root
    files = [
        (level, file)
        for level in _LEVELS
        for file in sorted((root / split / level).glob("*.txt"), key=_article_number)
    ]
    if not files:
        raise InputError(
            f"{root / split}: no files of RACE, which has one per article in {split}/middle and {split}/high"
        )
    for level, file in files:
        try:
            article = _read_article(file)
        except RowError as error:
            errors.handle(str(file), str(error))
            continue
        yield from _article_questions(article, level, file, errors)


def _article_number(file: Path) -> tuple[int, str]:
    return (int(file.stem) if file.stem.isdigit() else -1, file.name)


def _read_article(file: Path) -> dict[str, Any]:
    try:
        article = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise RowError(f"not JSON ({error})") from None
    if not isinstance(article, dict) or not isinstance(article.get("article"), str):
        raise RowError("has no text `article`")
    questions, options = article.get("questions"), article.get("options")
    answers = article.get("answers", [None] * len(questions or ()))
    counts = [len(items) if isinstance(items, list) else -1 for items in (questions, options, answers)]
    if len(set(counts)) > 1 or counts[0] < 0:
        raise RowError("needs as many options and answers as questions")
    return {**article, "answers": answers}


def _article_questions(
    article: dict[str, Any], level: str, file: Path, errors: ReadErrors
) -> Iterator[MultipleChoiceExample]:
    for index, question in enumerate(article["questions"]):
        location, options = f"{file}, question {index}", article["options"][index]
        try:
            if not isinstance(options, list) or len(options) != 4 or not isinstance(question, str):
                raise RowError("needs a question and four options")
            answer = article["answers"][index]
            correct_option = None if answer is None else parse_option(answer, ("A", "B", "C", "D"))
            require_valid_unicode("".join([article["article"], question, *map(str, options)]))
            yield MultipleChoiceExample(
                location,
                f"{level}{file.stem}-{index}",
                article["article"],
                question,
                tuple(map(str, options)),
                correct_option,
                level,
            )
        except RowError as error:
            errors.handle(location, str(error))


def _read_race_hub(data: str, split: str, errors: ReadErrors) -> Iterator[MultipleChoiceExample]:
    name = data.removeprefix(HUB_PREFIX).split(":")[0]
    for level in _LEVELS:
        source = f"{HUB_PREFIX}{name}:{level}:{'validation' if split == 'dev' else split}"
        for row in read_rows(source, errors, ("article", "question", "options")):
            try:
                options = tuple(map(str, row.cells["options"]))
                answer = row.cells.get("answer")
                correct_option = (
                    None if answer is None else parse_option(answer, ("A", "B", "C", "D")[: len(options)])
                )
                example_id = f"{level}{row.number}"
                text, question = row.text("article"), row.text("question")
                yield MultipleChoiceExample(
                    row.location, example_id, text, question, options, correct_option, level
                )
            except RowError as error:
                errors.handle(row.location, str(error))


def read_dream(data: str, split: str, errors: ReadErrors) -> Iterator[MultipleChoiceExample]:
    """Yield the questions of a split of DREAM: one JSON file of dialogues."""
    root = Path(data)
    file = root / f"{split}.json" if root.is_dir() else root
    if not file.is_file():
        raise InputError(f"{file}: no such file; DREAM has train.json, dev.json and test.json")
    try:
        dialogues = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not JSON ({error}); copy or download it again") from None
    if not isinstance(dialogues, list):
        raise InputError(f"{file}: not a file of DREAM, which is a list of dialogues")
    for number, dialogue in enumerate(dialogues):
        location = f"{file}, dialogue {number}"
        try:
            turns, questions, dialogue_id = dialogue
            context = " ".join(turns)
            for index, question in enumerate(questions):
                options = tuple(map(str, question["choice"]))
                correct_option = parse_option(question["answer"], options) if "answer" in question else None
                yield MultipleChoiceExample(
                    f"{location}, question {index}",
                    f"{dialogue_id}-{index}",
                    context,
                    question["question"],
                    options,
                    correct_option,
                )
        except RowError as error:
            errors.handle(location, str(error))
        except (TypeError, ValueError, KeyError):
            errors.handle(location, "not a dialogue of DREAM: turns, questions with choice and answer, an id")

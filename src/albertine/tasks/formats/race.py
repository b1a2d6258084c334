"""RACE and DREAM: questions on a passage or a dialogue, each with its options."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.tasks.examples import Choice
from albertine.tasks.formats.own import right_option
from albertine.tasks.formats.rows import RowError, rows, whole
from albertine.text.documents import Troubles
from albertine.text.hub import HUB

_LEVELS = ("middle", "high")


def race(data: str, split: str, troubles: Troubles) -> Iterator[Choice]:
    """Yield the questions of a split of RACE: a file for each article, in `SPLIT/middle` and `SPLIT/high`."""
    if data.startswith(HUB):
        yield from _from_hub(data, split, troubles)
        return
    root = Path(data)
    root = root / "race" if (root / "race" / split).is_dir() else root
    root = root / "RACE" if (root / "RACE" / split).is_dir() else root
    files = [
        (level, file)
        for level in _LEVELS
        for file in sorted((root / split / level).glob("*.txt"), key=_by_number)
    ]
    if not files:
        raise InputError(
            f"{root / split}: no files of RACE; one for each article lies in {split}/middle and {split}/high"
        )
    for level, file in files:
        try:
            article = _article(file)
        except RowError as error:
            troubles.meet(str(file), str(error))
            continue
        yield from _asked(article, level, file, troubles)


def _by_number(file: Path) -> tuple[int, str]:
    return (int(file.stem) if file.stem.isdigit() else -1, file.name)


def _article(file: Path) -> dict[str, Any]:
    try:
        article = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise RowError(f"not JSON ({error})") from None
    if not isinstance(article, dict) or not isinstance(article.get("article"), str):
        raise RowError("has no article")
    questions, options = article.get("questions"), article.get("options")
    answers = article.get("answers", [None] * len(questions or ()))
    sizes = [len(one) if isinstance(one, list) else -1 for one in (questions, options, answers)]
    if len(set(sizes)) > 1 or sizes[0] < 0:
        raise RowError("has not as many options and answers as questions")
    return {**article, "answers": answers}


def _asked(article: dict[str, Any], level: str, file: Path, troubles: Troubles) -> Iterator[Choice]:
    for at, question in enumerate(article["questions"]):
        place, options = f"{file}, question {at}", article["options"][at]
        try:
            if not isinstance(options, list) or len(options) != 4 or not isinstance(question, str):
                raise RowError("has no question, or not four options")
            answer = article["answers"][at]
            right = None if answer is None else right_option(answer, ("A", "B", "C", "D"))
            whole("".join([article["article"], question, *map(str, options)]))
            named = f"{level}{file.stem}-{at}"
            yield Choice(place, named, article["article"], question, tuple(map(str, options)), right, level)
        except RowError as error:
            troubles.meet(place, str(error))


def _from_hub(data: str, split: str, troubles: Troubles) -> Iterator[Choice]:
    name = data.removeprefix(HUB).split(":")[0]
    for level in _LEVELS:
        source = f"{HUB}{name}:{level}:{'validation' if split == 'dev' else split}"
        for row in rows(source, troubles, ("article", "question", "options")):
            try:
                options = tuple(map(str, row.cells["options"]))
                answer = row.cells.get("answer")
                right = None if answer is None else right_option(answer, ("A", "B", "C", "D")[: len(options)])
                title = f"{level}{row.number}"
                text, asked = row.text("article"), row.text("question")
                yield Choice(row.place, title, text, asked, options, right, level)
            except RowError as error:
                troubles.meet(row.place, str(error))


def dream(data: str, split: str, troubles: Troubles) -> Iterator[Choice]:
    """Yield the questions of a split of DREAM: one JSON file of dialogues."""
    root = Path(data)
    file = root / f"{split}.json" if root.is_dir() else root
    if not file.is_file():
        raise InputError(f"{file}: no such file; DREAM has train.json, dev.json and test.json")
    try:
        dialogues = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: not JSON ({error}); get the file again") from None
    if not isinstance(dialogues, list):
        raise InputError(f"{file}: not a file of DREAM, a list of dialogues")
    for number, dialogue in enumerate(dialogues):
        place = f"{file}, dialogue {number}"
        try:
            turns, questions, name = dialogue
            passage = " ".join(turns)
            for at, asked in enumerate(questions):
                options = tuple(map(str, asked["choice"]))
                right = right_option(asked["answer"], options) if "answer" in asked else None
                yield Choice(
                    f"{place}, question {at}", f"{name}-{at}", passage, asked["question"], options, right
                )
        except RowError as error:
            troubles.meet(place, str(error))
        except (TypeError, ValueError, KeyError):
            troubles.meet(place, "not as DREAM has it: turns, questions with choice and answer, a name")

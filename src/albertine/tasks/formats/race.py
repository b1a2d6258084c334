"""Reads RACE and DREAM: multiple-choice questions about a passage or a dialogue."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from albertine.errors import InputError
from albertine.json_input import JsonError, read_json
from albertine.storage.objects import display_path
from albertine.tasks.examples import MultipleChoiceExample
from albertine.tasks.formats.cells import parse_id, parse_option
from albertine.tasks.formats.column_request import ColumnRequest
from albertine.tasks.formats.data_files import open_data_file
from albertine.tasks.formats.rows import RowError, checked_text, describe_value
from albertine.tasks.formats.tables import read_rows
from albertine.text.hub_datasets import HUB_PREFIX
from albertine.text.read_errors import ReadErrors

_LEVELS = ("middle", "high")
_RACE_OPTIONS = ("A", "B", "C", "D")


def read_race(data: str, split: str, errors: ReadErrors) -> Iterator[MultipleChoiceExample]:
    """Yield the questions of a split of RACE: one file per article, in `SPLIT/middle` and `SPLIT/high`."""
    if data.startswith(HUB_PREFIX):
        yield from _read_race_hub(data, split, errors)
        return
    root = Path(data)
    root = root / "race" if (root / "race" / split).is_dir() else root
    root = root / "RACE" if (root / "RACE" / split).is_dir() else root
    files = race_files(root, split)
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


def race_files(folder: Path, split: str) -> list[tuple[str, Path]]:
    """Return the level and the file of each article of a split, directly in a folder; none if it has none."""
    return [
        (level, file)
        for level in _LEVELS
        for file in sorted((folder / split / level).glob("*.txt"), key=_article_number)
        if not file.name.startswith(".")  # such as those in which macOS keeps attributes
    ]


def _article_number(file: Path) -> tuple[int, str]:
    return (int(file.stem) if file.stem.isdigit() else -1, file.name)


def _read_article(file: Path) -> dict[str, Any]:
    try:
        with open_data_file(file) as stream:
            article = read_json(stream)
    except JsonError as error:
        raise RowError(str(error)) from None
    if not isinstance(article, dict) or not isinstance(article.get("article"), str):
        raise RowError("has no text `article`")
    questions, options = article.get("questions"), article.get("options")
    if not isinstance(questions, list):
        raise RowError("has no list `questions`")
    answers = article.get("answers", [None] * len(questions))
    if not all(isinstance(items, list) and len(items) == len(questions) for items in (options, answers)):
        raise RowError("needs as many options and answers as questions")
    return {**article, "answers": answers}


def _article_questions(
    article: dict[str, Any], level: str, file: Path, errors: ReadErrors
) -> Iterator[MultipleChoiceExample]:
    for index, question in enumerate(article["questions"]):
        location, options = f"{file}, question {index}", article["options"][index]
        try:
            yield _race_example(
                location,
                f"{level}{file.stem}-{index}",
                article["article"],
                question,
                options,
                article["answers"][index],
                level,
            )
        except RowError as error:
            errors.handle(location, str(error))


def _race_example(
    location: str, example_id: str, text: Any, question: Any, options: Any, answer: Any, level: str
) -> MultipleChoiceExample:
    """Return a question of RACE; raise `RowError` if it is invalid."""
    problem = "needs article, question and four options, all texts"
    text, question, *options = _require_texts(text, question, options, problem)
    if len(options) != len(_RACE_OPTIONS):
        raise RowError(f"{len(options)} options, where RACE has {len(_RACE_OPTIONS)}")
    correct_option = None if answer is None else parse_option(answer, _RACE_OPTIONS)
    return MultipleChoiceExample(location, example_id, text, question, tuple(options), correct_option, level)


def _require_texts(context: Any, question: Any, options: Any, problem: str) -> tuple[str, ...]:
    """Return passage, question and options; raise `RowError` with `problem` if any of them is not text."""
    texts = (context, question, *(options if isinstance(options, list) else [None]))
    if not all(isinstance(text, str) for text in texts):
        raise RowError(problem)
    return tuple(map(checked_text, texts))


def _read_race_hub(data: str, split: str, errors: ReadErrors) -> Iterator[MultipleChoiceExample]:
    name = data.removeprefix(HUB_PREFIX).split(":")[0]
    for level in _LEVELS:
        source = f"{HUB_PREFIX}{name}:{level}:{'validation' if split == 'dev' else split}"
        for row in read_rows(source, errors, ColumnRequest(("article", "question", "options"))):
            article, question, options = (row.cells[name] for name in ("article", "question", "options"))
            answer, example_id = row.cells.get("answer"), f"{level}{row.number}"
            try:
                yield _race_example(row.location, example_id, article, question, options, answer, level)
            except RowError as error:
                errors.handle(row.location, str(error))


def read_dream(data: str, split: str, errors: ReadErrors) -> Iterator[MultipleChoiceExample]:
    """Yield the questions of a split of DREAM: one JSON file of dialogues."""
    root = Path(data)
    file = root / f"{split}.json" if root.is_dir() else root
    if root.is_dir() and not file.is_file():
        raise InputError(f"{file}: no such file; DREAM has train.json, dev.json and test.json")
    name = display_path(file)
    try:
        with open_data_file(file) as stream:
            dialogues = read_json(stream)
    except JsonError as error:
        raise InputError(f"{name}: {error}; {error.advice}") from None
    if not isinstance(dialogues, list):
        raise InputError(f"{name}: not a file of DREAM, which is a list of dialogues")
    for number, dialogue in enumerate(dialogues):
        location = f"{name}, dialogue {number}"
        try:
            turns, questions, dialogue_id = _parse_dialogue(dialogue)
        except RowError as error:
            errors.handle(location, str(error))
            continue
        context = " ".join(turns)
        for index, entry in enumerate(questions):
            question_location = f"{location}, question {index}"
            try:
                yield _dream_example(question_location, f"{dialogue_id}-{index}", context, entry)
            except RowError as error:
                errors.handle(question_location, str(error))


def _parse_dialogue(dialogue: Any) -> tuple[list[str], list[Any], str]:
    """Return the turns, the questions and the id of a dialogue; raise `RowError` if it is invalid."""
    if isinstance(dialogue, list) and len(dialogue) == 3:
        turns, questions, dialogue_id = dialogue
        is_text = isinstance(turns, list) and all(isinstance(turn, str) for turn in turns)
        if is_text and isinstance(questions, list):
            return turns, questions, parse_id(dialogue_id)
    raise RowError("not a dialogue of DREAM: a list of turns, a list of questions, an id")


def _dream_example(location: str, example_id: str, context: str, entry: Any) -> MultipleChoiceExample:
    """Return a question of DREAM; raise `RowError` if it is invalid."""
    problem = "needs a text `question` and a list of texts `choice`"
    if not isinstance(entry, dict):
        raise RowError(problem)
    _, question, *texts = _require_texts(context, entry.get("question"), entry.get("choice"), problem)
    options = tuple(texts)
    correct_option = None
    if "answer" in entry:  # always the text of an option, which may be a number
        times = options.count(entry["answer"])
        if times != 1:
            problem = "is the text of several options" if times else "is not one of the options"
            raise RowError(f"its answer {describe_value(entry['answer'])} {problem}")
        correct_option = options.index(entry["answer"])
    return MultipleChoiceExample(location, example_id, context, question, options, correct_option)

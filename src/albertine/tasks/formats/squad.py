"""Reads SQuAD 1.1 and 2.0; writes predictions in the format of its official scripts."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeGuard

from albertine import progress
from albertine.errors import InputError
from albertine.json_input import JsonError, read_json
from albertine.storage.objects import display_path
from albertine.storage.output_file import write_one_of_several_files
from albertine.tasks.examples import AnswerText, QuestionExample
from albertine.tasks.formats.cells import parse_answers, parse_id
from albertine.tasks.formats.column_request import ColumnRequest
from albertine.tasks.formats.data_files import open_data_file
from albertine.tasks.formats.rows import RowError, checked_text, describe_value
from albertine.tasks.formats.tables import read_rows
from albertine.text.hub_datasets import HUB_PREFIX
from albertine.text.read_errors import ReadErrors

_VERSIONS = {"squad-1.1": "v1.1", "squad-2.0": "v2.0"}


def has_split(name: str, split: str, data: str) -> bool:
    """Return whether a folder has the file of a split; the hub and the official files have no test split."""
    return not data.startswith(HUB_PREFIX) and any(file.is_file() for file in _split_files(name, split, data))


def _split_files(name: str, split: str, data: str | Path) -> list[Path]:
    """Return the paths that the file of a split may have in a folder."""
    file_name = f"{split}-{_VERSIONS[name]}.json"
    return [Path(data) / file_name, Path(data) / "squad" / file_name]


def find_split_file(name: str, data: Path, split: str) -> Path:
    """Return the file of a split in a folder; a file is returned as it is."""
    if not data.is_dir():
        return data
    files = _split_files(name, split, data)
    for file in files:
        if file.is_file():
            return file
    file_name = files[0].name
    raise InputError(f"{data}: has no {file_name}; name the folder of SQuAD's files, or a file")


def read_examples(name: str, data: str, split: str, errors: ReadErrors) -> Iterator[QuestionExample]:
    """Yield the questions of a split."""
    if data.startswith(HUB_PREFIX):
        yield from _read_hub(data, split, errors)
        return
    file = find_split_file(name, Path(data), split)
    name_of_file = display_path(file)
    for article_number, article in enumerate(_require_list(_read_json(file), "data", name_of_file)):
        article_location = f"{name_of_file}, article {article_number}"
        for number, paragraph in enumerate(_require_list(article, "paragraphs", article_location)):
            location = f"{article_location}, paragraph {number}"
            context, questions = paragraph.get("context"), paragraph.get("qas")
            if not isinstance(context, str):
                errors.handle(location, "has no context")
                continue
            if not _is_list_of_objects(questions):
                errors.handle(location, "has no list qas, which a file of SQuAD needs")
                continue
            for index, question in enumerate(questions):
                try:
                    yield _parse_question(question, context, f"{location}, question {index}")
                except RowError as error:
                    errors.handle(f"{location}, question {index}", str(error))


def _read_json(file: Path) -> dict[str, Any]:
    try:
        with open_data_file(file) as stream:
            content = read_json(stream)
    except JsonError as error:
        raise InputError(f"{display_path(file)}: {error}; {error.advice}") from None
    if not isinstance(content, dict):
        raise InputError(f"{display_path(file)}: not a file of SQuAD, which has `data`, a list of articles")
    return content


def _is_list_of_objects(value: Any) -> TypeGuard[list[dict[str, Any]]]:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value)


def _require_list(record: dict[str, Any], key: str, location: str) -> list[dict[str, Any]]:
    items = record.get(key)
    if not _is_list_of_objects(items):
        raise InputError(f"{location}: has no list {key}, which a file of SQuAD needs")
    return items


def _parse_question(entry: dict[str, Any], context: str, location: str) -> QuestionExample:
    question = entry.get("question")
    if not isinstance(question, str):
        raise RowError(f"its question is {describe_value(question)}, not text")
    is_impossible = entry.get("is_impossible")
    if is_impossible not in (None, True, False):
        raise RowError(f"its is_impossible is {describe_value(is_impossible)}, expected true or false")
    answers: tuple[AnswerText, ...] | None = None
    if is_impossible:
        answers = ()
    elif entry.get("answers") is not None:
        answers = tuple(parse_answers(entry["answers"], context))
    return QuestionExample(
        location, parse_id(entry.get("id")), checked_text(question), checked_text(context), answers
    )


def _read_hub(data: str, split: str, errors: ReadErrors) -> Iterator[QuestionExample]:
    parts = data.removeprefix(HUB_PREFIX).split(":")
    config = parts[1] if len(parts) > 1 else ""
    source = f"{HUB_PREFIX}{parts[0]}:{config}:{'validation' if split == 'dev' else split}"
    for row in read_rows(source, errors, ColumnRequest(("id", "question", "context", "answers"))):
        try:
            answers = tuple(parse_answers(row.cells["answers"], row.text("context")))
            yield QuestionExample(
                row.location, parse_id(row.cells["id"]), row.text("question"), row.text("context"), answers
            )
        except RowError as error:
            errors.handle(row.location, str(error))


def write_predictions(predictions: Iterator[tuple[QuestionExample, dict[str, Any]]], out: Path) -> int:
    """Write answers by question id, and no-answer probabilities; return the number of answers.

    The answers are written last: if their file exists, both files are complete.
    """
    answers_by_id: dict[str, str] = {}
    no_answer_probabilities: dict[str, float] = {}
    num_repeated = 0
    for example, prediction in predictions:
        num_repeated += example.example_id in answers_by_id
        answers_by_id[example.example_id] = prediction["answer"]
        if "no_answer_score" in prediction:
            no_answer_probabilities[example.example_id] = prediction["no_answer_probability"]
    if num_repeated:
        progress.print_message(
            f"{display_path(out)}: {num_repeated:,} questions have the id of an earlier one, and the last "
            "answer is kept; a .jsonl, .csv or .tsv file has all"
        )
    for file, content, description in (
        (out.with_suffix(".no_answer.json"), no_answer_probabilities, "no-answer probabilities"),
        (out, answers_by_id, "answers"),
    ):
        if content:
            write_one_of_several_files(file, json.dumps(content, ensure_ascii=False, indent=1) + "\n")
            progress.print_message(f"{display_path(file)}: {len(content):,} {description}")
    return len(answers_by_id)

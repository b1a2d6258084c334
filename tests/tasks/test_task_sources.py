"""Tests of finding, sampling and copying the examples of tasks."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from albertine.randomness import Stream, random_bits
from albertine.tasks import task_sources
from albertine.tasks.examples import QuestionExample, TextExample
from albertine.tasks.registry import find_task
from albertine.tasks.settings import DataSettings
from albertine.tasks.task_sources import (
    expected_files,
    find_task_source,
    read_examples,
    sample_examples,
    split_by_passage,
    write_examples,
)
from albertine.text.read_errors import ReadErrors


@pytest.mark.parametrize("count", [0, 1, 50, 99, 100, 1000])
def test_samples_are_those_with_the_smallest_numbers(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_sources, "_CHUNK", 7)
    examples = [TextExample("", str(index), ("a",)) for index in range(100)]
    order = np.argsort(random_bits(0, Stream.SAMPLED_EXAMPLES, np.arange(100)), kind="stable")
    expected = [examples[index] for index in sorted(order[:count])]
    assert sample_examples(iter(examples), count) == expected


def test_no_passage_is_in_both_parts() -> None:
    questions = [QuestionExample("", str(number), "?", f"passage {number // 3}", ()) for number in range(24)]
    train, dev = split_by_passage(questions)
    assert train + dev == questions
    assert {question.passage for question in dev} == {"passage 6", "passage 7"}


def test_xquad_has_twelve_articles_for_evaluation() -> None:
    questions = [QuestionExample("", str(number), "?", f"passage {number}", ()) for number in range(240)]
    _, dev = split_by_passage(questions)
    assert len(dev) == 60
    assert dev[0] == questions[180]


def test_a_number_is_copied_as_a_number(tmp_path: Path) -> None:
    folder = tmp_path / "STS-B"
    folder.mkdir()
    header = "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
    for name in ("train", "dev"):
        (folder / f"{name}.tsv").write_text(f"{header}0\ta\tb\tc\td\te\tf\tone\ttwo\t3.25\n")
    source = find_task_source("sts-b", [tmp_path])
    assert source is not None
    train, dev = read_examples(source, 10, 10)
    assert len(train) == len(dev) == 1
    write_examples(tmp_path / "copy.jsonl", train)
    row = json.loads((tmp_path / "copy.jsonl").read_text())
    assert (row["text"], row["text_pair"], row["label"]) == ("one", "two", 3.25)


def test_a_question_with_options_is_copied_with_all_its_parts(tmp_path: Path) -> None:
    question = {"question": "Where?", "choice": ["2", "home", "1"], "answer": "1"}
    dialogue = [["M: Where to?", "W: Home."], [question], "d"]
    for name in ("train", "dev"):
        (tmp_path / f"{name}.json").write_text(json.dumps([dialogue]))
    source = find_task_source("dream", [tmp_path])
    assert source is not None
    train, _ = read_examples(source, 10, 10)
    write_examples(tmp_path / "copy.jsonl", train)
    copied = find_task("dream").read_examples(
        str(tmp_path / "copy.jsonl"), "train", DataSettings(), ReadErrors(skip=False), require_labels=True
    )
    assert [replace(one, location="") for one in copied] == [replace(one, location="") for one in train]


def test_files_of_macos_are_no_articles_of_race(tmp_path: Path) -> None:
    for part in ("train", "dev"):
        (tmp_path / part / "middle").mkdir(parents=True)
        (tmp_path / part / "middle" / "._1.txt").write_bytes(b"\0")
    assert find_task_source("race", [tmp_path]) is None
    for part in ("train", "dev"):
        (tmp_path / part / "middle" / "1.txt").write_text("{}")
    source = find_task_source("race", [tmp_path])
    assert source is not None
    assert set(source.files) == {"train/middle/1.txt", "dev/middle/1.txt"}


@pytest.mark.parametrize("task", task_sources._FINDERS)
def test_every_task_says_what_it_needs(task: str, tmp_path: Path) -> None:
    assert find_task_source(task, [tmp_path]) is None
    assert "." in expected_files(task)

"""Tests of finding, sampling and copying the examples of tasks."""

import json
from pathlib import Path

import numpy as np
import pytest

from albertine.randomness import Stream, random_bits
from albertine.tasks import task_sources
from albertine.tasks.examples import QuestionExample, TextExample
from albertine.tasks.task_sources import (
    TASKS_WITH_SOURCES,
    expected_files,
    find_task_source,
    read_examples,
    sample_examples,
    split_by_passage,
    write_examples,
)


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


@pytest.mark.parametrize("task", TASKS_WITH_SOURCES)
def test_every_task_says_what_it_needs(task: str, tmp_path: Path) -> None:
    assert find_task_source(task, [tmp_path]) is None
    assert "." in expected_files(task)

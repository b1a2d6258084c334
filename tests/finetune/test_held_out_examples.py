"""Tests of the examples that are held out, and of examples that are also in the training data."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.task_fixtures import reviews, with_train_settings, write_csv

from albertine.errors import InputError
from albertine.finetune.finetune import finetune
from albertine.finetune.held_out_examples import (
    count_repeated,
    count_shared,
    count_shared_passages,
    hold_out,
)
from albertine.finetune.settings import FinetuneSettings
from albertine.randomness import Stream, random_bits, uniform
from albertine.tasks.examples import MultiLabelExample, MultipleChoiceExample, QuestionExample, TextExample


def examples(texts: list[str]) -> list[TextExample]:
    return [TextExample("here", str(index), (text,), label="a") for index, text in enumerate(texts)]


def test_the_smallest_random_numbers_are_held_out() -> None:
    train, held_out = hold_out(examples([str(n) for n in range(50)]), 0.1, 3, "data")
    smallest = np.argsort(uniform(random_bits(3, Stream.HELD_OUT_EXAMPLES, np.arange(50))))[:5]
    assert [example.example_id for example in held_out] == [str(n) for n in sorted(smallest)]
    assert len(train) == 45


@pytest.mark.parametrize("seed", range(20))
def test_each_label_can_be_learned(seed: int) -> None:
    rows = [replace(row, label=f"rare {min(index, 2)}") for index, row in enumerate(examples(list("vvwxyz")))]
    common = examples([str(number) for number in range(20)])
    train, held_out = hold_out([*rows, *common], 0.5, seed, "data")
    assert 11 <= len(held_out) <= 13
    labels = {label for row in train for label in row.label_names}
    assert labels == {"rare 0", "rare 1", "rare 2", "a"}
    several = MultiLabelExample("here", "several", ("a", "b"), labels=("a", "only here"))
    train, _ = hold_out([several, *common], 0.5, seed, "data")
    assert several in train
    train, held_out = hold_out(rows[1:3], 0.5, seed, "data")  # no label has two texts
    assert len(train) == len(held_out) == 1


def test_few_different_texts_are_no_evaluation(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [{"text": f"ka lo {number % 6}", "label": "ab"[number % 2]} for number in range(60)]
    settings = replace(
        finetune_settings,
        data=str(write_csv(tmp_path / "rows.csv", rows)),
        dev=None,
        text="text",
        label="label",
    )
    runs = finetune(
        str(checkpoint), tmp_path / "run", with_train_settings(settings, steps=4, warmup=1, evaluate_every=2)
    )
    assert runs.problem is None  # all predictions are alike, because all texts are
    printed = " ".join(capsys.readouterr().err.split())
    assert "what is held out has only 1 different text, so its scores say little; give --dev" in printed


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.floats(0.001, 0.9), st.integers(0, 9))
def test_equal_texts_stay_together(numbers: list[int], fraction: float, seed: int) -> None:
    given_examples = examples(list(map(str, numbers)))
    if len(set(numbers)) == 1:
        with pytest.raises(InputError, match="none can be held out; give --dev"):
            hold_out(given_examples, fraction, seed, "data")
        return
    train, held_out = hold_out(given_examples, fraction, seed, "data")
    assert train
    assert held_out
    assert count_shared(train, held_out) == count_shared(held_out, train) == 0
    assert sorted([*train, *held_out], key=lambda example: int(example.example_id)) == given_examples
    count, smallest = max(1, round(fraction * len(numbers))), min(map(numbers.count, numbers))
    assert len(held_out) <= max(count, smallest, len(numbers) / 2)


def test_large_groups_leave_enough_for_evaluation() -> None:
    train, held_out = hold_out(examples(["a", *["b"] * 40, *["c"] * 60]), 0.1, 0, "data")
    assert {example.all_texts for example in held_out} == {("a",), ("b",)}
    assert len(train) == 60


def test_repeated_texts_are_counted() -> None:
    assert count_repeated(examples(["a", "b", "a", "a"])) == 2
    assert count_shared(examples(["a", "b"]), examples(["b", "c", "b"])) == 2


def test_shared_texts_are_reported(
    checkpoint: Path, finetune_settings: FinetuneSettings, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = reviews(1, 20)
    data = str(write_csv(tmp_path / "rows.csv", [*rows, *rows]))
    short = with_train_settings(replace(finetune_settings, data=data, dev=None), steps=1, warmup=0)
    finetune(str(checkpoint), tmp_path / "held-out", short)
    printed = capsys.readouterr().err
    assert "4 of 40 examples held out for evaluation; of all, 20 repeat the text of an earlier one" in printed
    assert "4 examples for evaluation, so an accuracy can be wrong by 35 points by chance alone" in printed
    finetune(str(checkpoint), tmp_path / "dev", replace(short, dev=data))
    assert (
        f"{data}: 40 of 40 examples for evaluation have texts that are also in the training data"
        in capsys.readouterr().err
    )


def questions(num_passages: int, each: int) -> list[QuestionExample]:
    return [
        QuestionExample("here", str(number), f"question {number}?", f"passage {number // each}", ())
        for number in range(num_passages * each)
    ]


def test_questions_about_a_passage_stay_together() -> None:
    train, held_out = hold_out(questions(40, 5), 0.1, 0, "data")
    assert len(held_out) == 20
    assert count_shared_passages(train, held_out) == 0
    choices = [
        MultipleChoiceExample("", str(n), f"passage {n // 3}", f"{n}?", ("a", "b"), 0) for n in range(60)
    ]
    train_choices, held_out_choices = hold_out(choices, 0.1, 0, "data")
    assert len(held_out_choices) == 6
    assert count_shared_passages(train_choices, held_out_choices) == 0


@pytest.mark.parametrize("num_passages", [1, 2, 3])
def test_few_passages_are_on_both_sides(num_passages: int) -> None:
    train, held_out = hold_out(questions(num_passages, 20), 0.1, 0, "data")
    assert len(held_out) == 2 * num_passages
    assert count_shared_passages(train, held_out) == len(held_out)


def test_choices_without_passages_are_held_out_one_by_one() -> None:
    choices = [MultipleChoiceExample("", str(n), "", f"{n}?", ("a", "b"), 0) for n in range(50)]
    train, held_out = hold_out(choices, 0.1, 3, "data")
    assert (len(train), len(held_out)) == (45, 5)
    assert count_shared_passages(train, held_out) == 0

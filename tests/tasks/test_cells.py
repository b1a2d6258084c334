"""Tests of cells: ids that pandas has changed, blank answers, answers that prediction does not need."""

from typing import Any

import pytest

from albertine.tasks.card import sorted_labels
from albertine.tasks.formats.cells import example_id, joined_label, parse_answers, parse_option
from albertine.tasks.formats.rows import RowError, TableRow
from albertine.tasks.settings import DataSettings
from albertine.tasks.types.span_extraction import SpanExtraction


def row(**cells: Any) -> TableRow:
    return TableRow("a.parquet, row 7", 7, cells)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5.0, "5"), (5, "5"), ("5.0", "5.0"), (float("nan"), "7"), (None, "7"), (" ", "7"), (0.5, "0.5")],
)
def test_a_column_of_numbers_with_gaps_has_whole_ids(value: Any, expected: str) -> None:
    assert example_id(row(id=value), DataSettings()) == expected


@pytest.mark.parametrize("cell", ["", " ", [" "], [{"text": ""}], None])
def test_a_blank_answer_is_none(cell: Any) -> None:
    assert list(parse_answers(cell, "a passage")) == []


def test_prediction_needs_no_answers() -> None:
    question = row(question="Who?", context="a passage", answers="not in it")
    example = SpanExtraction.example_from_row(question, DataSettings(), require_labels=False)
    assert example.answers is None
    with pytest.raises(RowError, match="its answer is not in the passage"):
        SpanExtraction.example_from_row(question, DataSettings(), require_labels=True)


@pytest.mark.parametrize(
    ("value", "options", "index"),
    [
        ("the", ("a", "the"), 1),
        ("a", ("the", "a", "an"), 1),  # a word, and not the letter of the first option
        ("C", ("the", "a", "an"), 2),
        ("2", ("x", "y", "z"), 2),
        (2, ("2", "1", "0"), 2),
        ("1.0", ("x", "y", "z"), 1),
        ("1", ("0", "1"), 1),
        ("7", ("5", "7"), 1),
    ],
)
def test_options_are_named_by_text_letter_or_number(value: Any, options: tuple[str, ...], index: int) -> None:
    assert parse_option(value, options) == index


def test_an_ambiguous_option_is_refused() -> None:
    with pytest.raises(RowError, match="2 is the text of an option, and the number of another"):
        parse_option("2", ("5", "2", "7"))


def test_equal_numbers_are_sorted_as_text() -> None:
    assert sorted_labels(["01", "1", "10", "2", "+1"]) == ("+1", "01", "1", "2", "10")


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (["a", "b", "a;b"], ("a;b", ";")),
        ([f"{a};{b}" for a in "abcd" for b in "abcd" if a < b] + ["b;a", "c;a"], ("a;b", ";")),
        (["New York, NY", "Boston, MA", "Austin, TX", "Dallas, TX"], None),  # as many parts as labels
        ([f"{day}/{month}" for day in range(1, 9) for month in range(1, 9)], None),  # dates
        (["yes", "no"], None),
    ],
)
def test_labels_that_consist_of_several(labels: list[str], found: tuple[str, str] | None) -> None:
    assert joined_label(labels) == found

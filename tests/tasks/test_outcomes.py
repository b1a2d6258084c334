"""Tests of outcomes: predictions beside right answers, with the texts that a model read."""

from pathlib import Path

import pytest

from albertine.tasks.card import TaskCard
from albertine.tasks.examples import (
    AnswerText,
    MultipleChoiceExample,
    QuestionExample,
    TaggedExample,
    TextExample,
    examples_checksum,
)
from albertine.tasks.outcomes import MAX_EXCERPT, Decision, excerpt
from albertine.tasks.registry import create_task_type
from albertine.tasks.types.classification import Classification
from albertine.tasks.types.regression import Regression
from albertine.tasks.types.task_type import TaskType
from albertine.text.tokenizer import load_tokenizer


def task_type(name: str, tokenizer: Path, labels: tuple[str, ...] = (), **fields: object) -> TaskType:
    card = TaskCard(name, name, labels, ("accuracy",), **fields)  # type: ignore[arg-type]
    return create_task_type(card, load_tokenizer(tokenizer))


def test_a_long_text_is_cut_around_its_first_mark() -> None:
    text = "x" * 1000 + "ANSWER" + "y" * 1000
    shown = excerpt("passage", text, [(1000, 1006), (1990, 1995)])
    assert len(shown.text) == MAX_EXCERPT + 2
    assert [shown.text[start:end] for start, end in shown.marks] == ["ANSWER"]
    assert shown.text[0] == shown.text[-1] == "\u2026"
    assert excerpt("", "short", [(0, 2)]).marks == ((0, 2),)
    at_end = excerpt("", "x" * 1000 + "END", [(1000, 1003)])
    assert at_end.text.endswith("END")
    assert at_end.text[slice(*at_end.marks[0])] == "END"


def test_classification(tokenizer: Path) -> None:
    classify = task_type("classify", tokenizer, ("bad", "good"))
    example = TextExample("f:1", "1", ("a text", "another"), label="bad")
    outcome = classify.outcome(example, {"label": "good", "probability": 0.9})
    assert (outcome.expected, outcome.predicted, outcome.score, outcome.severity) == ("bad", "good", 0.0, 0.9)
    assert outcome.decisions == (Decision("bad", "good", 0.9, is_right=False),)
    assert [text.text for text in outcome.texts] == ["a text", "another"]
    assert classify.outcome(example, {"label": "bad", "probability": 0.9}).severity == 0.0


def test_regression(tokenizer: Path) -> None:
    outcome = task_type("regress", tokenizer).outcome(TextExample("", "", ("a",), value=2.0), {"value": 3.5})
    assert (outcome.score, outcome.severity, outcome.decisions) == (1.5, 1.5, ())
    assert (outcome.expected_number, outcome.predicted_number) == (2.0, 3.5)


def test_tagging(tokenizer: Path) -> None:
    tag = task_type("tag", tokenizer, ("O", "B-PER", "I-PER"))
    example = TaggedExample("", "", ("Ida", "Bell", "ran"), ("B-PER", "I-PER", "O"))
    prediction = {"tags": ["B-PER", "B-PER", "B-PER"], "probabilities": [0.9, 0.8, 0.7]}
    outcome = tag.outcome(example, prediction)
    assert (outcome.expected, outcome.predicted) == ("Bell: I-PER, ran: O", "Bell: B-PER, ran: B-PER")
    assert outcome.score == pytest.approx(1 / 3)
    assert outcome.severity == 0.8
    text = outcome.texts[0]
    assert [text.text[start:end] for start, end in text.marks] == ["Bell", "ran"]
    # The type is right, the tag is not.
    assert outcome.decisions[1] == Decision("PER", "PER", 0.8, is_right=False)


def test_spans(tokenizer: Path) -> None:
    span = task_type("span", tokenizer, allows_no_answer=True)
    example = QuestionExample("", "", "Who ran?", "Ida Bell ran.", (AnswerText("Ida Bell", 0),))
    candidates = [{"text": "Ida", "start": 0, "probability": 0.8}]
    prediction = {"answer": "Ida", "no_answer_probability": 0.5, "candidates": candidates}
    outcome = span.outcome(example, prediction)
    assert outcome.score == pytest.approx(2 / 3)
    assert outcome.decisions == (Decision("an answer", "an answer", 0.4, is_right=False),)
    assert outcome.texts[0].marks == ((0, 8),)
    nothing = {"answer": "", "no_answer_probability": 0.7, "candidates": []}
    missed = span.outcome(example, nothing)
    assert (missed.predicted, missed.score) == ("(no answer)", 0.0)
    assert missed.severity == pytest.approx(0.7)
    unanswerable = QuestionExample("", "", "Who sang?", "Ida ran.", ())
    assert span.outcome(unanswerable, nothing).severity == 0.0
    constant = span.constant_predictions([example, unanswerable], [example, unanswerable])
    assert constant is not None
    assert span.compute_metrics([example, unanswerable], constant[1])["exact"] == 0.5
    assert span.constant_predictions([example], [unanswerable]) is None


def test_a_constant_prediction_is_taken_from_train() -> None:
    def example(value: float, label: str) -> TextExample:
        return TextExample("", "", ("a",), label=label, value=value)

    train, dev = [example(1, "a"), example(3, "a"), example(5, "b")], [example(9, "b")]
    assert Classification.constant_predictions(train, dev) == ("always “a”", [{"label": "a"}])
    assert Regression.constant_predictions(train, dev) == ("always 3, the mean", [{"value": 3.0}])


def test_multiple_choice(tokenizer: Path) -> None:
    choice = task_type("choice", tokenizer, num_options=2)
    example = MultipleChoiceExample("", "", "", "Who?", ("Ida", "Tom"), correct_option=1)
    outcome = choice.outcome(example, {"option": 0, "probability": 0.6})
    assert (outcome.expected, outcome.predicted) == ("B: Tom", "A: Ida")
    assert [text.name for text in outcome.texts] == ["question"]  # without a passage
    assert outcome.decisions == (Decision("B", "A", 0.6, is_right=False),)


def test_examples_have_the_checksum_of_their_texts_and_answers() -> None:
    examples = [
        TextExample("a.csv:1", "1", ("one", "two"), "x"),
        TextExample("a.csv:2", "2", ("three",), "y"),
    ]
    elsewhere = [TextExample("b.csv:7", "", ("one", "two"), "x"), TextExample("b.csv:8", "", ("three",), "y")]
    others = (
        [TextExample("", "", ("one", "two"), "y"), examples[1]],
        [TextExample("", "", ("onetwo",), "x"), examples[1]],
        examples[:1],
        examples[::-1],
    )
    assert examples_checksum(examples) == examples_checksum(elsewhere)
    assert examples_checksum(examples) not in map(examples_checksum, others)

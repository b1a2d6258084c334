"""Messages about labels that a model cannot learn."""

import re

import pytest

from albertine.errors import InputError
from albertine.finetune.rare_labels import rare_label_messages
from albertine.tasks.examples import MultiLabelExample, MultipleChoiceExample, TextExample


def _examples(labels: str, first_line: int = 2) -> list[TextExample]:
    return [
        TextExample(f"d.csv, line {first_line + number}", str(number), (f"text {number}",), label)
        for number, label in enumerate(labels)
    ]


def test_frequent_labels_and_other_tasks_have_no_message() -> None:
    question = MultipleChoiceExample("d.csv, line 1", "0", "", "", ("a", "b"), 0)
    assert rare_label_messages(_examples("aabb"), _examples("ab"), "d.csv", None, header=True) == []
    assert rare_label_messages([question], [question], "d.csv", None, header=False) == []
    number = TextExample("d.csv, line 1", "0", ("t",), value=2.0)
    assert rare_label_messages([number], [], "d.csv", None, header=False) == []


@pytest.mark.parametrize(
    ("dev", "expected"),
    [
        (
            None,
            "d.csv: labels whose examples are all held out for evaluation, .*: b, c; add .* or give --dev",
        ),
        ("e.csv", "e.csv: labels without a training example, .*: b, c; add examples, or fix the spelling"),
    ],
)
def test_labels_without_training_example(dev: str | None, expected: str) -> None:
    [message] = rare_label_messages(_examples("aa"), _examples("abc"), "d.csv", dev, header=True)
    assert re.fullmatch(expected, message)


def test_no_label_in_common_is_an_error() -> None:
    message = "e.csv: no label of the training data, which has good; it has Good; fix the spelling"
    train, dev = [_example("good")] * 2, [_example("Good")]
    with pytest.raises(InputError, match=re.escape(message)):
        rare_label_messages(train, dev, "d.csv", "e.csv", header=True)
    numbers = [_example("0"), _example("1")]
    with pytest.raises(InputError, match="it has 0, 1; write the names in place of numbers"):
        rare_label_messages([_example("bad"), _example("good")], numbers, "d.csv", "e.csv", header=True)


def _example(label: str) -> TextExample:
    return TextExample("d.csv, line 2", "0", ("t",), label=label)


def test_single_labels_are_listed() -> None:
    [message] = rare_label_messages(_examples("aabcdefgh"), [], "d.csv", None, header=True)
    assert "labels with a single training example: b, c, d, e, f and 2 more; add examples" in message


def test_labels_of_several() -> None:
    train = [
        MultiLabelExample("d.csv, line 2", "0", ("t",), labels=("a", "b")),
        MultiLabelExample("d.csv, line 3", "1", ("u",), labels=("a",)),
    ]
    [message] = rare_label_messages(train, [], "d.csv", None, header=True)
    assert "training example: b;" in message


def test_a_header_that_is_read_as_a_row() -> None:
    train = _examples("laabb", first_line=1)  # "l" is the name of the column
    advice = "if line 1 of the file names the columns, leave out --no-header"
    assert rare_label_messages(train, [], "d.csv", None, header=False)[-1] == advice
    assert rare_label_messages(train[1:], train[:1], "d.csv", None, header=False)[-1] == advice
    assert (
        rare_label_messages(_examples("aab", 1), _examples("la", 1), "d.csv", "e.csv", header=False)[-1]
        == advice
    )
    assert advice not in rare_label_messages(train, [], "d.csv", None, header=True)
    assert advice not in rare_label_messages(_examples("aabbl", 1), [], "d.csv", None, header=False)

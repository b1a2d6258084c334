"""Messages about labels that a model cannot learn."""

from albertine.finetune.rare_labels import rare_label_messages
from albertine.tasks.examples import MultiLabelExample, MultipleChoiceExample, TextExample


def _examples(labels: str, first_line: int = 2) -> list[TextExample]:
    return [
        TextExample(f"d.csv, line {first_line + number}", str(number), (f"text {number}",), label)
        for number, label in enumerate(labels)
    ]


def test_frequent_labels_and_other_tasks_have_no_message() -> None:
    question = MultipleChoiceExample("d.csv, line 1", "0", "", "", ("a", "b"), 0)
    assert rare_label_messages(_examples("aabb"), _examples("ab"), "d.csv", header=True) == []
    assert rare_label_messages([question], [question], "d.csv", header=False) == []
    assert (
        rare_label_messages([TextExample("d.csv, line 1", "0", ("t",), value=2.0)], [], "d.csv", header=False)
        == []
    )


def test_a_label_without_training_example() -> None:
    [message] = rare_label_messages(_examples("aa"), _examples("b"), "d.csv", header=True)
    assert message == (
        "d.csv: no training example has the label b, which the model then cannot learn; add examples, or fix "
        "the spelling"
    )


def test_single_labels_are_listed() -> None:
    [message] = rare_label_messages(_examples("aabcdefgh"), [], "d.csv", header=True)
    assert "only one training example has the labels b, c, d, e, f and 2 others; add examples" in message


def test_labels_of_several() -> None:
    train = [
        MultiLabelExample("d.csv, line 2", "0", ("t",), labels=("a", "b")),
        MultiLabelExample("d.csv, line 3", "1", ("u",), labels=("a",)),
    ]
    [message] = rare_label_messages(train, [], "d.csv", header=True)
    assert "label b;" in message


def test_a_header_that_is_read_as_a_row() -> None:
    train = _examples("laabb", first_line=1)  # "l" is the name of the column
    advice = "if line 1 names the columns, leave out --no-header"
    assert advice in rare_label_messages(train, [], "d.csv", header=False)[0]
    assert advice in rare_label_messages(train[1:], train[:1], "d.csv", header=False)[0]
    assert advice not in rare_label_messages(train, [], "d.csv", header=True)[0]
    assert advice not in rare_label_messages(_examples("aabbl", 1), [], "d.csv", header=False)[0]

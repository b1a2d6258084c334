"""The table of labels counts each label by itself, also those that are rare."""

import pytest

from albertine.finetune.dev_outcomes import decision_columns
from albertine.report.label_table import MAX_LABELS, LabelCounts, label_counts, label_table_html
from albertine.tasks.outcomes import Decision, Outcome

ABSENT = "without"


def outcome(**labels: tuple[bool, bool]) -> Outcome:
    """Return an outcome with, for each label, whether the example has it and whether it is predicted."""
    decisions = [
        Decision(label if has else ABSENT, label if predicted else ABSENT, 0.9, has == predicted)
        for label, (has, predicted) in labels.items()
    ]
    return Outcome("", "", (), 0.0, 0.0, tuple(decisions))


def test_labels_are_counted_apart() -> None:
    columns = decision_columns(
        [
            outcome(red=(True, True), blue=(True, False)),
            outcome(red=(False, True), blue=(False, False)),
            outcome(red=(True, True), blue=(True, False)),
        ]
    )
    assert sorted(label_counts(columns, ABSENT)) == [
        LabelCounts("blue", found=0, missed=2, added=0),
        LabelCounts("red", found=2, missed=0, added=1),
    ]
    page = label_table_html(columns, ABSENT)
    assert page.index("blue") < page.index("red")  # it has more mistakes
    assert "<td>0.0</td>" in page
    assert "<td>80.0</td>" in page
    assert ABSENT not in page


@pytest.mark.parametrize(
    ("more", "sentence"), [(0, ""), (1, "Not shown: 1 other label."), (10, "Not shown: 10 other labels.")]
)
def test_many_labels_are_cut(more: int, sentence: str) -> None:
    labels = {f"label{number}": (True, number > 0) for number in range(MAX_LABELS + more)}
    page = label_table_html(decision_columns([outcome(**labels)]), ABSENT)
    assert page.count("<tr>") == 1 + MAX_LABELS
    assert page.count("Not shown") == bool(more)
    assert sentence in page
    assert "label0<" in page  # the one with a mistake


def test_no_label_at_all() -> None:
    assert not label_table_html(decision_columns([outcome(red=(False, False))]), ABSENT)

"""A table of the labels of a task in which an example may have several: found, missed and wrongly given."""

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from albertine.display import counted
from albertine.finetune.dev_predictions import DecisionColumns
from albertine.report.page import html_paragraphs, html_table

MAX_LABELS = 30  # those with most mistakes


class LabelCounts(NamedTuple):
    """How often a label was found, missed, and given to an example without it."""

    label: str
    found: int
    missed: int
    added: int

    @property
    def mistakes(self) -> int:
        """Number of wrong choices."""
        return self.missed + self.added

    @property
    def f1(self) -> float:
        """Harmonic mean of the shares of found and of right labels."""
        total = 2 * self.found + self.mistakes
        return 2 * self.found / total if total else 0.0


def label_table_html(decisions: DecisionColumns, absent_class: str) -> str:
    """Return the table with a sentence on how to read it.

    Args:
        decisions: choices, each of one label.
        absent_class: class of a choice for an example without the label.
    """
    counts = sorted(label_counts(decisions, absent_class), key=lambda one: (-one.mistakes, one.label))
    if not counts:
        return ""
    num_left_out = len(counts) - MAX_LABELS
    rest = f" Not shown: {counted(num_left_out, 'other label')}." if num_left_out > 0 else ""
    explanation = (
        "Each label by itself, the one with most mistakes first: how many of its examples got it, how many "
        f"did not, and how many others got it wrongly.{rest}"
    )
    rows = [
        (
            one.label.strip() or "(empty)",
            f"{one.found:,}",
            f"{one.missed:,}",
            f"{one.added:,}",
            f"{100 * one.f1:.1f}",
        )
        for one in counts[:MAX_LABELS]
    ]
    return html_paragraphs(explanation) + html_table(
        ("label", "found", "missed", "wrongly given", "F1"), rows
    )


def label_counts(decisions: DecisionColumns, absent_class: str) -> Iterator[LabelCounts]:
    """Yield the counts of each label that an example or a prediction has."""
    names, pairs = decisions.classes, Counter(zip(decisions.expected, decisions.predicted, strict=True))
    absent = names.index(absent_class) if absent_class in names else -1
    for label, name in enumerate(names):
        if label != absent:
            yield LabelCounts(name, pairs[label, label], pairs[label, absent], pairs[absent, label])

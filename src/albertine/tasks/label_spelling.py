"""Labels that look like one label in two spellings, or like a mark of a missing value."""

import unicodedata
from collections import defaultdict
from collections.abc import Collection

from albertine.display import display_text
from albertine.tasks.formats.headers import is_number

_LISTED = 5
# Not "none", which is a usual class.
_MISSING_MARKS = {"na", "n/a", "#n/a", "nan", "null", "?"}


def doubtful_labels(labels: Collection[str]) -> list[str]:
    """Return what is doubtful about labels, each with advice: spellings, and marks of missing values."""
    problems = []
    if alike := labels_alike(labels):
        shown = ", ".join(" and ".join(map(display_text, spellings)) for spellings in alike[:_LISTED])
        problems.append(
            f"labels differ only in capitals or in the form of accents: {shown}; write them alike if they "
            "mean the same"
        )
    if marks := missing_marks(labels):
        shown = ", ".join(map(display_text, marks))
        problems.append(
            f"labels that count as classes: {shown}; remove their rows if they mark missing labels"
        )
    return problems


def labels_alike(labels: Collection[str]) -> list[tuple[str, ...]]:
    """Return the labels that differ only in capitals, or in how an accent is stored, together."""
    by_spelling = defaultdict(list)
    for label in sorted(labels):
        by_spelling[unicodedata.normalize("NFC", label).lower()].append(label)
    return [tuple(group) for group in by_spelling.values() if len(group) > 1]


def missing_marks(labels: Collection[str]) -> list[str]:
    """Return the labels that may mark a missing value, if there are others."""
    marks = sorted(label for label in labels if label.casefold() in _MISSING_MARKS)
    return marks if len(marks) < len(labels) else []


def is_number_of_name(label: str, known: Collection[str]) -> bool:
    """Return whether a label is the number, from 0, of one of the known labels, which all are names."""
    is_whole_number = label.isascii() and label.isdecimal() and len(label) <= len(str(len(known)))
    return is_whole_number and int(label) < len(known) and not any(map(is_number, known))

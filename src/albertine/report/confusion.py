"""A confusion matrix as a table: how often each class was taken for another."""

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from albertine.display import counted
from albertine.report.page import html_paragraphs

MAX_CLASSES = 10  # of more classes, the rarest become one
_MAX_NAME, _MAX_NAME_IN_TEXT = 24, 80  # characters
_MAX_SHADE = 60  # percent of a color

Integers = NDArray[np.int64]


def confusion_html(
    classes: Sequence[str], expected: Sequence[int], predicted: Sequence[int], unit: str
) -> str:
    """Return a confusion matrix with a sentence on how to read it; empty if there is only one class.

    Args:
        classes: names of the classes.
        expected: index of the right class of each choice.
        predicted: index of the predicted class of each choice.
        unit: what is counted, such as "examples".
    """
    if len(classes) < 2:
        return ""
    explanation = (
        f"Rows are labels, columns are predictions, counted in {unit}; right predictions are on the "
        "diagonal. Percentages are of the row."
    )
    rows, columns = np.array(expected, np.int64), np.array(predicted, np.int64)
    most_common = _most_common_confusion(classes, rows, columns)
    names, group = _groups_of_classes(classes, rows, columns)
    counts = np.zeros((len(names), len(names)), np.int64)
    np.add.at(counts, (group[rows], group[columns]), 1)
    return html_paragraphs(explanation, *most_common) + _table(names, counts)


def _groups_of_classes(
    classes: Sequence[str], rows: Integers, columns: Integers
) -> tuple[list[str], Integers]:
    """Return the names of at most `MAX_CLASSES` groups of classes, and the group of each class.

    If there are more classes, the last group has the rare ones.
    """
    if len(classes) <= MAX_CLASSES:
        return list(classes), np.arange(len(classes))
    frequency = np.bincount(np.concatenate((rows, columns)), minlength=len(classes))
    kept = np.sort(np.argsort(-frequency, kind="stable")[: MAX_CLASSES - 1])
    group = np.full(len(classes), MAX_CLASSES - 1)
    group[kept] = np.arange(len(kept))
    names = [classes[index] for index in kept]
    return [*names, f"{len(classes) - len(kept):,} others"], group


def _most_common_confusion(classes: Sequence[str], rows: Integers, columns: Integers) -> list[str]:
    """Return a sentence on the most common confusion; none if there is no wrong prediction."""
    wrong = rows != columns
    if not wrong.any():
        return []
    pairs, counts = np.unique(rows[wrong] * len(classes) + columns[wrong], return_counts=True)
    row, column = divmod(int(pairs[counts.argmax()]), len(classes))
    share = counts.max() / (rows == row).sum()
    return [
        f"The most common confusion: \u201c{_name(classes[row], _MAX_NAME_IN_TEXT)}\u201d, predicted as "
        f"\u201c{_name(classes[column], _MAX_NAME_IN_TEXT)}\u201d, {counted(int(counts.max()), 'time')}, "
        f"{share:.0%} of its row."
    ]


def _table(names: Sequence[str], counts: Integers) -> str:
    header = "".join(_header_cell(name, "col") for name in names)
    rows = "".join(
        f"<tr>{_header_cell(name, 'row')}"
        f"{''.join(_cell(counts, row, column) for column in range(len(names)))}</tr>"
        for row, name in enumerate(names)
    )
    return (
        '<div class="wide"><table class="confusion"><caption>labels in rows, predictions in columns'
        f"</caption><thead><tr><td></td>{header}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _header_cell(name: str, scope: str) -> str:
    return f'<th scope="{scope}" title="{escape(name, quote=True)}">{escape(_name(name))}</th>'


def _cell(counts: Integers, row: int, column: int) -> str:
    count, total = int(counts[row, column]), int(counts[row].sum())
    share = count / total if total else 0.0
    color, shade = (1 if row == column else 2), round(_MAX_SHADE * share)
    style = f"background:color-mix(in srgb, var(--color-{color}) {shade}%, transparent)"
    percent = f"<small>{share:.0%}</small>" if count else ""
    return f'<td style="{style}">{count:,}{percent}</td>'


def _name(name: str, limit: int = _MAX_NAME) -> str:
    if not name.strip():
        return "(empty)"
    if len(name) <= limit:
        return name
    half = limit // 2
    return f"{name[: half - 1]}\u2026{name[-half:]}"  # keeps the end: many names have the same beginning

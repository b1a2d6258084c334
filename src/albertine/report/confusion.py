"""A confusion matrix as a table: how often each class was taken for another."""

from collections.abc import Sequence
from html import escape

import numpy as np
from numpy.typing import NDArray

from albertine.report.page import html_paragraphs

MAX_CLASSES = 10  # of more classes, the rarest become one
_MAX_NAME = 24  # characters
_MAX_SHADE = 60  # percent of a color

Counts = NDArray[np.int64]


def confusion_counts(expected: Sequence[int], predicted: Sequence[int], num_classes: int) -> Counts:
    """Return how often each class (row) was predicted as each class (column), [classes, classes]."""
    counts = np.zeros((num_classes, num_classes), np.int64)
    np.add.at(counts, (np.array(expected, np.int64), np.array(predicted, np.int64)), 1)
    return counts


def confusion_html(classes: Sequence[str], counts: Counts, unit: str) -> str:
    """Return a confusion matrix with a sentence on how to read it; empty if there is only one class.

    Args:
        classes: names of the classes.
        counts: see `confusion_counts`.
        unit: what is counted, such as "examples".
    """
    if len(classes) < 2:
        return ""
    explanation = (
        f"Rows are labels, columns are predictions, counted in {unit}; right predictions are on the "
        "diagonal. Percentages are of the row."
    )
    names, merged = _merge_rare_classes(classes, counts)
    return html_paragraphs(explanation, *_most_common_confusion(classes, counts)) + _table(names, merged)


def _merge_rare_classes(classes: Sequence[str], counts: Counts) -> tuple[list[str], Counts]:
    """Return names and counts of at most `MAX_CLASSES` classes, the last of which may be several."""
    if len(classes) <= MAX_CLASSES:
        return list(classes), counts
    by_frequency = np.argsort(-(counts.sum(0) + counts.sum(1)), kind="stable")
    kept = np.sort(by_frequency[: MAX_CLASSES - 1])
    group = np.full(len(classes), MAX_CLASSES - 1)
    group[kept] = np.arange(len(kept))
    merged = np.zeros((MAX_CLASSES, MAX_CLASSES), np.int64)
    np.add.at(merged, (group[:, None], group[None, :]), counts)
    names = [classes[index] for index in kept]
    return [*names, f"{len(classes) - len(kept):,} others"], merged


def _most_common_confusion(classes: Sequence[str], counts: Counts) -> list[str]:
    """Return a sentence on the most common confusion; none if there is no wrong prediction."""
    wrong = counts.copy()
    np.fill_diagonal(wrong, 0)
    if not wrong.any():
        return []
    row, column = divmod(int(wrong.argmax()), len(classes))
    share = wrong[row, column] / counts[row].sum()
    return [
        f"The most common confusion: \u201c{_name(classes[row])}\u201d, predicted as "
        f"\u201c{_name(classes[column])}\u201d {wrong[row, column]:,} times, {share:.0%} of its row."
    ]


def _table(names: Sequence[str], counts: Counts) -> str:
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


def _cell(counts: Counts, row: int, column: int) -> str:
    count, total = int(counts[row, column]), int(counts[row].sum())
    share = count / total if total else 0.0
    color, shade = (1 if row == column else 2), round(_MAX_SHADE * share)
    style = f"background:color-mix(in srgb, var(--color-{color}) {shade}%, transparent)"
    percent = f"<small>{share:.0%}</small>" if count else ""
    return f'<td style="{style}">{count:,}{percent}</td>'


def _name(name: str) -> str:
    if not name.strip():
        return "(empty)"
    return name if len(name) <= _MAX_NAME else f"{name[: _MAX_NAME - 1]}\u2026"

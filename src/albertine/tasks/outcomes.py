"""What a model predicted for one labeled example, in the words of its task, for reports."""

from collections.abc import Sequence
from dataclasses import dataclass

MAX_EXCERPT = 400  # characters
_MAX_ANSWER = 160


@dataclass(frozen=True)
class ShownText:
    """A text of an example, or an excerpt of it.

    Attributes:
        name: what the text is, such as "passage"; empty if the example has only one text.
        text: the text.
        marks: start and end of each marked part, in order, without overlaps.
    """

    name: str
    text: str
    marks: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Decision:
    """One choice of a model: of a label, of the tag of a word, of an option, of whether there is an answer.

    Attributes:
        expected: the right class.
        predicted: the predicted class.
        probability: predicted probability that the choice is right.
        is_right: whether it is; an answer may be wrong although there is one.
    """

    expected: str
    predicted: str
    probability: float
    is_right: bool


@dataclass(frozen=True)
class Outcome:
    """A prediction beside the right answer.

    Attributes:
        expected: the right answer.
        predicted: the predicted answer.
        texts: what the model read, as excerpts.
        score: the score of the example, see `TaskType.score_title`.
        severity: how bad the prediction is; 0 if it is right. Confident wrong predictions are the worst.
        decisions: choices between classes; empty for numbers.
        expected_number: the right number, for regression; else None.
        predicted_number: the predicted number, for regression; else None.
    """

    expected: str
    predicted: str
    texts: Sequence[ShownText]
    score: float
    severity: float
    decisions: Sequence[Decision] = ()
    expected_number: float | None = None
    predicted_number: float | None = None


def excerpt(name: str, text: str, marks: Sequence[tuple[int, int]] = ()) -> ShownText:
    """Return a text of at most about `MAX_EXCERPT` characters, cut around its first mark.

    Args:
        name: what the text is.
        text: the text.
        marks: start and end of each part to mark; marks outside of the excerpt are left out.
    """
    if len(text) <= MAX_EXCERPT:
        return ShownText(name, text, tuple(marks))
    first = marks[0][0] if marks else 0
    start = max(0, min(first - MAX_EXCERPT // 3, len(text) - MAX_EXCERPT))
    end = start + MAX_EXCERPT
    before, after = ("\u2026" if start else ""), ("\u2026" if end < len(text) else "")
    shift = len(before) - start
    kept = [
        (mark_start + shift, min(mark_end, end) + shift)
        for mark_start, mark_end in marks
        if start <= mark_start < end
    ]
    return ShownText(name, f"{before}{text[start:end]}{after}", tuple(kept))


def cut_answer(text: str) -> str:
    """Return an answer, cut if it is very long."""
    return text if len(text) <= _MAX_ANSWER else f"{text[: _MAX_ANSWER - 1]}\u2026"

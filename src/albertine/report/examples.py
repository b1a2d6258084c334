"""What a model says, as a person would read it: hidden pieces with its guesses, two segments in an order."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from albertine.report.charts import Bar, bar_chart


@dataclass(frozen=True)
class FillMaskExample:
    """A sentence with one word hidden: what is before and after, the word, and guesses with their chances."""

    before: str
    word: str
    after: str
    predictions: Sequence[tuple[str, float]]


@dataclass(frozen=True)
class SegmentOrderExample:
    """Two segments as they stand in the text, and the model's chance of that order, and of the other."""

    first: str
    second: str
    in_order_probability: float
    swapped_probability: float


def fill_mask_html(example: FillMaskExample) -> str:
    """Show a sentence with what the model puts in the gap; a word that it got right is green."""
    rows = [
        Bar(said, chance, f"{chance:.0%}", 3 if said == example.word else 4)
        for said, chance in example.predictions
    ]
    is_correct = bool(rows) and rows[0].color == 3
    answer_html = f'<span class="{"right" if is_correct else "wrong"}">{escape(example.word)}</span>'
    return (
        f"<div><blockquote>{escape(example.before)} <mark>&nbsp;?&nbsp;</mark> "
        f"{escape(example.after)}</blockquote>"
        f'<p class="small">There stood: {answer_html}</p>{bar_chart("", rows)}</div>'
    )


def segment_order_html(example: SegmentOrderExample) -> str:
    """Show a pair of segments with how sure the model is of the order in which they stand."""
    rows = [
        Bar(
            "in this order",
            example.in_order_probability,
            f"{example.in_order_probability:.0%}",
            3 if example.in_order_probability > 0.5 else 4,
        ),
        Bar(
            "if swapped",
            example.swapped_probability,
            f"{example.swapped_probability:.0%}",
            4 if example.swapped_probability < 0.5 else 2,
        ),
    ]
    segments_html = "".join(
        f"<blockquote>{escape(said)}</blockquote>" for said in (example.first, example.second)
    )
    return f"<div>{segments_html}{bar_chart('', rows)}</div>"

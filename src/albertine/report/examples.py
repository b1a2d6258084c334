"""Predictions of a model as HTML: masked words with the best predictions, and the order of two segments."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from albertine.report.charts import Bar, bar_chart
from albertine.report.depth_slider import at_each_depth


@dataclass(frozen=True)
class FillMaskExample:
    """A sentence with a masked word.

    Attributes:
        before: The text before the word.
        word: The word.
        after: The text after the word.
        predictions: The best predictions after each step of depth, as (word, probability); only those of the
            last step if the model has no others.
    """

    before: str
    word: str
    after: str
    predictions: Sequence[Sequence[tuple[str, float]]]


@dataclass(frozen=True)
class SegmentOrderExample:
    """Two segments in the order of the text.

    Attributes:
        first: The first segment.
        second: The second segment.
        in_order_probability: Predicted probability that this order is the order of the text.
        swapped_probability: The same for the swapped segments.
    """

    first: str
    second: str
    in_order_probability: float
    swapped_probability: float


def fill_mask_html(example: FillMaskExample) -> str:
    """Return a sentence and the predictions for its masked word after each step; a correct one is green."""
    charts = [
        bar_chart(
            "",
            [
                Bar(word, probability, f"{probability:.0%}", 3 if word == example.word else 4)
                for word, probability in predictions
            ],
        )
        for predictions in example.predictions
    ]
    is_correct = [predictions[0][0] == example.word for predictions in example.predictions]
    answers = [
        f'<p class="small">Original word: <span class="{"correct" if correct else "wrong"}">'
        f"{escape(example.word)}</span></p>"
        for correct in is_correct
    ]
    blocks = [answer + chart for answer, chart in zip(answers, charts, strict=True)]
    return (
        f"<div><blockquote>{escape(example.before)} <mark>&nbsp;?&nbsp;</mark> "
        f"{escape(example.after)}</blockquote>{at_each_depth(blocks)}</div>"
    )


def segment_order_html(example: SegmentOrderExample) -> str:
    """Return two segments and the probabilities that they are in order, as given and swapped."""
    bars = [
        Bar(
            "order of the text",
            example.in_order_probability,
            f"{example.in_order_probability:.0%}",
            3 if example.in_order_probability > 0.5 else 4,
        ),
        Bar(
            "swapped",
            example.swapped_probability,
            f"{example.swapped_probability:.0%}",
            4 if example.swapped_probability < 0.5 else 2,
        ),
    ]
    segments_html = "".join(
        f"<blockquote>{escape(text)}</blockquote>" for text in (example.first, example.second)
    )
    return f"<div>{segments_html}{bar_chart('', bars)}</div>"

"""The worst wrong predictions as HTML: the texts, the right answer and the predicted one."""

from collections.abc import Sequence
from html import escape

from albertine.finetune.dev_predictions import WorstError, WorstText

MAX_SHOWN = 10
_NUM_OPEN = 6  # the others are shown on a click


def worst_errors_html(errors: Sequence[WorstError]) -> str:
    """Return the first errors; texts of the data are escaped."""
    shown = [_error_html(error) for error in errors[:MAX_SHOWN]]
    first, rest = (
        f'<div class="pair errors">{"".join(part)}</div>' for part in (shown[:_NUM_OPEN], shown[_NUM_OPEN:])
    )
    if len(shown) <= _NUM_OPEN:
        return first
    return f"{first}<details><summary>{len(shown) - _NUM_OPEN:,} more</summary>{rest}</details>"


def _error_html(error: WorstError) -> str:
    texts = "".join(map(_text_html, error.texts))
    probability = "" if error.probability is None else f" ({error.probability:.0%})"
    return (
        f'<div class="error">{texts}<table class="answers"><tbody>'
        f'<tr><th>right</th><td class="correct">{escape(error.expected)}</td></tr>'
        f'<tr><th>predicted</th><td><span class="wrong">{escape(error.predicted)}</span>'
        f"{escape(probability)}</td></tr></tbody></table>"
        f'<p class="small">example {escape(error.example_id)}</p></div>'
    )


def _text_html(text: WorstText) -> str:
    name = f'<span class="small">{escape(text.name)}</span>' if text.name else ""
    return f"{name}<blockquote>{_marked(text)}</blockquote>"


def _marked(text: WorstText) -> str:
    """Return a text with its marked parts, escaped."""
    parts, end = [], 0
    for mark_start, mark_end in text.marks:
        start = max(mark_start, end)
        parts.append(escape(text.text[end:start]))
        end = max(start, mark_end)
        parts.append(f"<mark>{escape(text.text[start:end])}</mark>")
    return "".join([*parts, escape(text.text[end:])])

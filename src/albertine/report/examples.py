"""What a model says, as a person would read it: hidden pieces with its guesses, two segments in an order."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from albertine.report.charts import Bar, bars


@dataclass(frozen=True)
class Filled:
    """A sentence with one word hidden: what is before and after, the word, and guesses with their chances."""

    before: str
    word: str
    after: str
    guesses: Sequence[tuple[str, float]]


@dataclass(frozen=True)
class Ordered:
    """Two segments as they stand in the text, and the model's chance of that order, and of the other."""

    first: str
    second: str
    chance: float
    swapped: float


def filled(example: Filled) -> str:
    """Show a sentence with what the model puts in the gap; a word that it got right is green."""
    rows = [
        Bar(said, chance, f"{chance:.0%}", 3 if said == example.word else 4)
        for said, chance in example.guesses
    ]
    right = bool(rows) and rows[0].tone == 3
    verdict = f'<span class="{"right" if right else "wrong"}">{escape(example.word)}</span>'
    return (
        f"<div><blockquote>{escape(example.before)} <mark>&nbsp;?&nbsp;</mark> "
        f"{escape(example.after)}</blockquote>"
        f'<p class="small">There stood: {verdict}</p>{bars("", rows)}</div>'
    )


def ordered(one: Ordered) -> str:
    """Show a pair of segments with how sure the model is of the order in which they stand."""
    rows = [
        Bar("in this order", one.chance, f"{one.chance:.0%}", 3 if one.chance > 0.5 else 4),
        Bar("if swapped", one.swapped, f"{one.swapped:.0%}", 4 if one.swapped < 0.5 else 2),
    ]
    told = "".join(f"<blockquote>{escape(said)}</blockquote>" for said in (one.first, one.second))
    return f"<div>{told}{bars('', rows)}</div>"

"""What a model says, as a person would read it: hidden pieces with its guesses, two segments in an order."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from albertine.pretrain.guess import Guess
from albertine.report.charts import Bar, bars
from albertine.text.pipelines import WORD_REST, WORD_START

_GUESSES = 5


@dataclass(frozen=True)
class Filled:
    """A sentence with one word hidden: what stands before and after, the word, and the guesses."""

    before: str
    word: str
    after: str
    guesses: Sequence[Guess]


@dataclass(frozen=True)
class Ordered:
    """Two segments as they stand in the text, and the model's chance of that order, and of the other."""

    first: str
    second: str
    chance: float
    swapped: float


def filled(examples: Sequence[Filled]) -> str:
    """Show sentences with what the model puts in the gap; a word that it got right is green."""
    return "".join(_one_filled(example) for example in examples)


def _one_filled(example: Filled) -> str:
    rows = [
        Bar(plain(one.piece), one.score, f"{one.score:.0%}", 3 if plain(one.piece) == example.word else 4)
        for one in example.guesses[:_GUESSES]
    ]
    right = bool(rows) and rows[0].tone == 3
    verdict = f'<span class="{"right" if right else "wrong"}">{escape(example.word)}</span>'
    return (
        f"<div><blockquote>{escape(example.before)} <mark>&nbsp;?&nbsp;</mark> "
        f"{escape(example.after)}</blockquote>"
        f'<p class="small">There stood: {verdict}</p>{bars("", rows)}</div>'
    )


def ordered(examples: Sequence[Ordered]) -> str:
    """Show pairs of segments with how sure the model is of the order in which they stand."""
    return "".join(
        f"<div><blockquote>{escape(one.first)}</blockquote><blockquote>{escape(one.second)}</blockquote>"
        + bars(
            "",
            [
                Bar("in this order", one.chance, f"{one.chance:.0%}", 3 if one.chance > 0.5 else 4),
                Bar("if swapped", one.swapped, f"{one.swapped:.0%}", 4 if one.swapped < 0.5 else 2),
            ],
        )
        + "</div>"
        for one in examples
    )


def plain(piece: str) -> str:
    """Return a piece without the mark of a word's beginning, or with a hyphen where it goes on with one."""
    if piece.startswith(WORD_START):
        return piece.removeprefix(WORD_START) or WORD_START
    rest = piece.removeprefix(WORD_REST)
    return f"-{rest}" if rest[:1].isalnum() else rest

"""Word order after question words and negations, and words that come in pairs."""

from collections.abc import Mapping
from typing import Final

from albertine.world.english.acceptability.phrases import (
    Chooser,
    PhenomenonMaker,
    at_place,
    some_participle,
    some_person,
    some_thing,
    the_thing,
    two_persons,
)
from albertine.world.english.acceptability.words import (
    DO_TO_THINGS,
    INTRANSITIVE,
    KNEW,
    LONG_ADJECTIVES,
    LOSING,
    MEN,
    MOODS,
    NAMES,
    PLACES,
    SPOKEN_ABOUT,
    TIMES,
    TRADES,
    TRADING,
    WOMEN,
)
from albertine.world.english.grammar import verb, with_article
from albertine.world.english.lexicon import VILLAGES


def _question(rng: Chooser, fits: bool) -> str:
    """Inversion in main clauses only: Ned forgot where Mara had put it. *Ned forgot where had Mara put it."""
    main, inverted = rng.cross(fits)
    agent, knower = two_persons(rng)
    start = rng.one(("but", "and", "so")) if main else f"{knower} {rng.one(KNEW)}"
    order = f"had {agent}" if inverted else f"{agent} had"
    action = f"{some_participle(rng, DO_TO_THINGS)} {the_thing(rng)}"
    return f"{start} {rng.one(('where', 'when', 'why', 'how'))} {order} {action}{'?' if main else '.'}"


def _fronting(rng: Chooser, fits: bool) -> str:
    """Inversion after a negation: At no time had Mara sold a lamp. *At no time Mara had sold a lamp."""
    negative, inverted = rng.cross(fits)
    front = rng.one(("at _ time", "in _ village", "on _ morning", "on _ evening", "in _ house"))
    where = rng.one(("in the winter", "in those years", "near the river", "by the sea", "in that country"))
    agent = some_person(rng)
    order = f"had {agent}" if inverted else f"{agent} had"
    action = f"{some_participle(rng, LOSING)} {with_article(some_thing(rng))}"
    return f"{front.replace('_', 'no' if negative else 'one')} {where} {order} {action}."


def _correlative(rng: Chooser, fits: bool) -> str:
    """Correlatives: Mara sold both the key and the lamp. *Mara sold both the key or the lamp."""
    left, right = rng.cross(fits)
    pair = (("both", "and"), rng.one((("either", "or"), ("neither", "nor"))))
    first = f"{the_thing(rng)} from {rng.one(PLACES)[1]}"
    action = verb(rng.one(DO_TO_THINGS)).past
    return f"{some_person(rng)} {action} {pair[left][0]} {first} {pair[right][1]} {the_thing(rng)}."


def _comparative(rng: Chooser, fits: bool) -> str:
    """Comparison with "as" or "than": Mara was as patient that night as anybody else in Harrow.

    *Mara was as patient that night than anybody else in Harrow. The standard of comparison
    contains "any", so that "as" cannot mean because, while or in the role of.
    """
    more, than = rng.cross(fits)
    degree = rng.one(("more", "less")) if more else "as"
    described = f"{degree} {rng.one(LONG_ADJECTIVES)} {rng.one((at_place(rng), rng.one(TIMES)))}"
    anybody = rng.one(("anybody else", "anyone else", f"any other {rng.one(TRADES)}"))
    who = f"{some_person(rng)} {rng.one(('was', 'seemed'))}"
    return f"{who} {described} {'than' if than else 'as'} {anybody} in {rng.one(VILLAGES)}."


def _animacy(rng: Chooser, fits: bool) -> str:
    """Animacy: The lamp about which Mara spoke was old. *The lamp about whom Mara spoke was old."""
    person, whom = rng.cross(fits)
    preposition, action = rng.one(SPOKEN_ABOUT)
    clause = f"{preposition} {'whom' if whom else 'which'} {rng.name(NAMES)} had {action}"
    predicate = rng.one((f"came from {rng.one(VILLAGES)}", f"was {at_place(rng)}"))
    return f"the {rng.one(TRADES) if person else some_thing(rng)} {clause} {predicate}."


def _tag(rng: Chooser, fits: bool) -> str:
    """Question tags: "Mara has sold it, hasn't she?" but *"Mara has sold it, didn't she?"."""
    left, right = rng.cross(fits)
    forms = verb(rng.one(TRADING))
    pair = rng.two(
        (
            (forms.past, "didn't"),
            (f"has {forms.participle}", "hasn't"),
            (f"will {forms.base}", "won't"),
            (f"is {forms.gerund}", "isn't"),
        )
    )
    agent, pronoun = rng.one(((rng.name(WOMEN), "she"), (rng.name(MEN), "he")))
    return f"{agent} {pair[left][0]} {the_thing(rng)}, {pair[right][1]} {pronoun}?"


def _ellipsis(rng: Chooser, fits: bool) -> str:
    """Ellipsis: Mara was ill, and so was Tobias. *Mara was ill, and so did Tobias."""
    state, was = rng.cross(fits)
    agent, other = two_persons(rng)
    mood, base = rng.one(MOODS), rng.one(INTRANSITIVE)
    if rng.toss():
        clause, link = (f"was {mood}" if state else verb(base).past), "so"
    else:
        clause, link = (f"was not {mood}" if state else f"did not {base}"), "neither"
    return f"{agent} {clause} {rng.one(TIMES)}, and {link} {'was' if was else 'did'} {other}."


WORD_PAIR_MAKERS: Final[Mapping[str, PhenomenonMaker]] = {
    "question": _question,
    "fronting": _fronting,
    "correlative": _correlative,
    "comparative": _comparative,
    "animacy": _animacy,
    "tag": _tag,
    "ellipsis": _ellipsis,
}

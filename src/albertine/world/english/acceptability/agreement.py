"""Agreement in number: of verbs, determiners and quantifiers."""

from collections.abc import Mapping
from typing import Final

from albertine.world.english.acceptability.phrases import (
    Chooser,
    PhenomenonMaker,
    agreeing,
    at_place,
    beside_container,
    numbered,
    person_predicate,
    some_participle,
    some_person,
    some_thing,
    thing_predicate,
)
from albertine.world.english.acceptability.words import (
    DO_TO_PEOPLE,
    GOOD,
    GOODS,
    MASSES,
    NAMES,
    ONE_OF,
    OPINIONS,
    SEVERAL_OF,
    THESE,
    THINGS,
    THIS,
    TIMES,
    TRADES,
    TRADING,
)
from albertine.world.english.grammar import PAST, PRESENT, plural, verb


def _agreement(rng: Chooser, fits: bool) -> str:
    """Agreement across a phrase: The key in the boxes was old. *The key in the boxes were old."""
    many, verb_is_plural = rng.cross(fits)
    subject = f"the {some_thing(rng, many)} {beside_container(rng, rng.toss())}"
    return f"{subject} {thing_predicate(rng, verb_is_plural)}."


def _relative_clause(rng: Chooser, fits: bool) -> str:
    """Agreement across a clause: The clerks who met Ned were ill. *The clerks who met Ned was ill."""
    many, verb_is_plural = rng.cross(fits)
    other = rng.one((rng.name(NAMES), f"the {numbered(rng.one(TRADES), rng.toss())}"))
    action = some_participle(rng, DO_TO_PEOPLE)
    clause = f"who had {action} {other}" if rng.toss() else f"whom {other} had {action} {at_place(rng)}"
    return f"the {numbered(rng.one(TRADES), many)} {clause} {person_predicate(rng, verb_is_plural)}."


def _inversion(rng: Chooser, fits: bool) -> str:
    """Agreement with a later subject: Behind the box were the keys. *Behind the box was the keys."""
    verb_is_plural, many = rng.cross(fits)
    thing, adjectives = rng.one(THINGS)
    where = f"{beside_container(rng, rng.toss())} {at_place(rng)}"
    be = agreeing("be", rng.one((PAST, PRESENT)), verb_is_plural)
    return f"{where} {be} the {rng.one(adjectives)} {numbered(thing, many)} of {some_person(rng)}."


def _quantifier(rng: Chooser, fits: bool) -> str:
    """Agreement with a quantifier: Each of the keys was old. *Each of the keys were old."""
    many, verb_is_plural = rng.cross(fits)
    quantifier = rng.one(SEVERAL_OF if many else ONE_OF)
    among = f"the {some_thing(rng, many=True)} {beside_container(rng, rng.toss())}"
    return f"{quantifier} of {among} {thing_predicate(rng, verb_is_plural)}."


def _determiner(rng: Chooser, fits: bool) -> str:
    """Agreement of determiners: Mara sold these ugly keys. *Mara sold this ugly keys."""
    determiner_is_plural, many = rng.cross(fits)
    thing, adjectives = rng.one(THINGS)
    described = f"{rng.one(OPINIONS)} {rng.one(adjectives)} {numbered(thing, many)}"
    action = verb(rng.one(TRADING)).past
    agent = some_person(rng)
    determiner = rng.one(THESE if determiner_is_plural else THIS)
    return f"{agent} {action} {determiner} {described} {rng.one(TIMES)}."


def _mass(rng: Chooser, fits: bool) -> str:
    """Mass nouns: Mara bought too much good bread. *Mara bought too many good bread."""
    countable, counted = rng.cross(fits)
    noun = plural(rng.one(GOODS)) if counted else rng.one(MASSES)
    much = f"{rng.one(('too', 'so'))} {'many' if countable else 'much'} {rng.one(GOOD)}"
    return f"{some_person(rng)} {verb(rng.one(TRADING)).past} {much} {noun} {rng.one(TIMES)}."


AGREEMENT_MAKERS: Final[Mapping[str, PhenomenonMaker]] = {
    "agreement": _agreement,
    "relative-clause": _relative_clause,
    "inversion": _inversion,
    "quantifier": _quantifier,
    "determiner": _determiner,
    "mass": _mass,
}

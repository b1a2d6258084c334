"""Gaps: of question words, relative pronouns and tough constructions."""

from collections.abc import Mapping
from typing import Final

from albertine.world.english.acceptability.phrases import (
    Chooser,
    PhenomenonMaker,
    at_place,
    optional,
    placed,
    some_participle,
    some_person,
    some_thing,
    the_thing,
    two_persons,
)
from albertine.world.english.acceptability.words import (
    DO_TO_PEOPLE,
    DO_WITH_PREPOSITION,
    EAGER,
    HARD,
    KNEW,
    LOOKS,
    TIMES,
    TRADES,
)
from albertine.world.english.grammar import verb


def _gap(rng: Chooser, fits: bool) -> str:
    """Gaps of question words: Ned knew what Mara had put under the table.

    *Ned knew what Mara had put the key under the table. *Ned knew that Mara had put under the table.
    """
    asks, lacks = rng.cross(fits)
    agent, knower = two_persons(rng)
    action, where = placed(rng)
    clause = f"{action}{optional(not lacks, the_thing(rng))} {where}"
    if rng.toss():
        return f"{'what has' if asks else 'has'} {agent} {clause}?"
    return f"{knower} {rng.one(KNEW)} {'what' if asks else 'that'} {agent} had {clause}."


def _island(rng: Chooser, fits: bool) -> str:
    """Islands: a question word cannot fill a gap in a relative or a temporal clause.

    What had the man who had found the key behind the box put under the table?
    *What had the man who had found behind the box put the key under the table?

    The relative clause precedes the gap of the main clause; the temporal clause follows it.
    """
    action, where = placed(rng)
    other_action, other_where = placed(rng)
    thing = the_thing(rng)
    island_first, thing_first = rng.cross(fits)
    first = f"{action}{optional(thing_first, thing)} {where}"
    second = f"{other_action}{optional(not thing_first, thing)} {other_where}"
    if island_first:
        return f"what had the {rng.one(TRADES)} who had {first} {second}?"
    agent, other = two_persons(rng)
    return f"what had {agent} {first} {rng.one(('before', 'after'))} {other} had {second}?"


def _resumptive(rng: Chooser, fits: bool) -> str:
    """Resumptive pronouns: Mara paid the clerk whom Ned met. *Mara paid the clerk whom Ned met him."""
    relative, lacks = rng.cross(fits)
    agent, other = two_persons(rng)
    link = "whom" if relative else rng.one(("after", "before", "because"))
    did = rng.one(("paid", "visited", "praised", "helped", "followed"))
    action = f"{some_participle(rng, DO_TO_PEOPLE)}{optional(not lacks, rng.one(('him', 'her')))}"
    return f"{agent} {did} the {rng.one(TRADES)} {link} {other} had {action} {at_place(rng)}."


def _pied_piping(rng: Chooser, fits: bool) -> str:
    """Pied-piping: The lamp at which Mara looked was old. *The lamp which Mara looked was old."""
    after_verb, repeated = rng.cross(fits)
    base, preposition = rng.one(DO_WITH_PREPOSITION)
    which = "which" if after_verb else f"{preposition} which"
    action = f"{verb(base).participle}{optional(repeated, preposition)} {rng.one(TIMES)}"
    return f"the {some_thing(rng)} {which} {some_person(rng)} had {action} was {rng.one(LOOKS)}."


def _tough(rng: Chooser, fits: bool) -> str:
    """Tough constructions: Mara was hard to find. *Mara was hard to find the key."""
    hard, lacks = rng.cross(fits)
    action = rng.one(("find", "describe", "replace", "avoid", "rescue"))
    agent, other = two_persons(rng)
    what = optional(not lacks, rng.one((other, the_thing(rng))))
    return f"{agent} was {rng.one(HARD if hard else EAGER)} to {action}{what} {at_place(rng)}."


GAP_MAKERS: Final[Mapping[str, PhenomenonMaker]] = {
    "gap": _gap,
    "island": _island,
    "resumptive": _resumptive,
    "pied-piping": _pied_piping,
    "tough": _tough,
}

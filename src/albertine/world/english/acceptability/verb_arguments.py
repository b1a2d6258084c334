"""Arguments of verbs: objects, places, clauses, and the form of the verb after an auxiliary."""

from collections.abc import Mapping
from typing import Final

from albertine.world.english.acceptability.phrases import (
    Chooser,
    PhenomenonMaker,
    agreeing,
    at_place,
    optional,
    some_participle,
    some_person,
    the_thing,
    two_persons,
)
from albertine.world.english.acceptability.words import (
    ASKED,
    CASES,
    CLAIMED,
    DO_TO_A_THING,
    DO_TO_PEOPLE,
    DO_TO_THINGS,
    FORCED,
    INTRANSITIVE,
    LONG_ADJECTIVES,
    MADE,
    MOMENTS,
    PLACES,
    SPOTS,
    STRONG,
    TRADES,
    TRADING,
)
from albertine.world.english.grammar import PAST, verb


def _transitivity(rng: Chooser, fits: bool) -> str:
    """Transitivity: Mara forgot the day when Ned fell. *Mara forgot the key that Ned fell."""
    of_thing, takes_object = rng.cross(fits)
    head = f"{the_thing(rng)} that" if of_thing else f"the {rng.one(MOMENTS)} when"
    thought = rng.one(("remembered", "forgot", "described", "thought of", "spoke of"))
    agent, thinker = two_persons(rng)
    action = some_participle(rng, DO_TO_A_THING if takes_object else INTRANSITIVE)
    return f"{thinker} {thought} {head} {agent} had {action} {at_place(rng)}."


def _place_of_putting(rng: Chooser, fits: bool) -> str:
    """Obligatory place of "put": Before Mara put the key on the shelf, Tobias found the lamp.

    *Before Mara put the key, Tobias found the lamp on the shelf. With other verbs a place
    is optional, so both sentences have one; the error is the clause that has it.
    """
    put_first, place_first = rng.cross(fits)
    seeing = verb(rng.one(("find", "notice", "discover", "see"))).past
    first, second = ("put", seeing) if put_first else (seeing, "put")
    agent, other = two_persons(rng)
    spot = rng.one(SPOTS)
    return (
        f"{rng.one(('before', 'after'))} {agent} {first} {the_thing(rng)}{optional(place_first, spot)}, "
        f"{other} {second} {the_thing(rng)}{optional(not place_first, spot)}."
    )


def _voice(rng: Chooser, fits: bool) -> str:
    """Passives need a transitive verb: Mara was politely thanked. *Mara was politely sneezed."""
    passive, takes_object = rng.cross(fits)
    how = rng.one(("quietly", "suddenly", "soon", "at last", "once again"))
    action = some_participle(rng, DO_TO_PEOPLE if takes_object else INTRANSITIVE)
    return f"{some_person(rng)} {'was' if passive else 'had'} {how} {action} {at_place(rng)}."


def _auxiliary(rng: Chooser, fits: bool) -> str:
    """Verb forms after auxiliaries: Mara had quietly taken it. *Mara had quietly took it."""
    left, right = rng.cross(fits)
    forms = verb(rng.one(STRONG))
    pair = rng.two(
        (("", forms.past), (" had", forms.participle), (" would", forms.base), (" was", forms.gerund))
    )
    how = rng.one(("quietly", "slowly", "quickly", "gladly", "soon", "in fact", "once again", "at last"))
    return f"{some_person(rng)}{pair[left][0]} {how} {pair[right][1]} {the_thing(rng)}."


def _complementiser(rng: Chooser, fits: bool) -> str:
    """Complementisers: Mara asked here whether Ned slept. *Mara asked here that Ned slept."""
    asks, whether = rng.cross(fits)
    agent, other = two_persons(rng)
    clause = f"{'whether' if whether else 'that'} {other} had {some_participle(rng, DO_TO_THINGS)}"
    return f"{agent} {rng.one(ASKED if asks else CLAIMED)} {at_place(rng)} {clause} {the_thing(rng)}."


def _infinitive(rng: Chooser, fits: bool) -> str:
    """Infinitives with "to": Mara made the clerk sell the key. *Mara made the clerk to sell the key."""
    wants_to, has_to = rng.cross(fits)
    whom = f"the {rng.one(TRADES)} from {rng.one(PLACES)[1]}"
    action = f"{'to ' if has_to else ''}{rng.one(TRADING)}"
    return f"{some_person(rng)} {rng.one(FORCED if wants_to else MADE)} {whom} {action} {the_thing(rng)}."


def _case(rng: Chooser, fits: bool) -> str:
    """Case of pronouns: Mara knew her alone to be honest. *Mara knew she alone to be honest."""
    finite, nominative = rng.cross(fits)
    him, he, several = rng.one(CASES)
    knew = rng.one(("believed", "knew", "declared", "found"))
    whom = f"{he if nominative else him} {rng.one(('alone', 'of all people', 'at least'))}"
    be = agreeing("be", PAST, several) if finite else "to be"
    return f"{some_person(rng)} {knew} {whom} {be} {rng.one(LONG_ADJECTIVES)}."


ARGUMENT_MAKERS: Final[Mapping[str, PhenomenonMaker]] = {
    "transitivity": _transitivity,
    "place": _place_of_putting,
    "voice": _voice,
    "auxiliary": _auxiliary,
    "complementiser": _complementiser,
    "infinitive": _infinitive,
    "case": _case,
}

"""The tables of `lexicon.py` as objects: places, trades, goods, and templates of things.

Objects that never change (places, trades, goods) are created once and shared by all stories.
"""

from functools import cache
from typing import NamedTuple

from albertine.world.cast import Fixture, Goods, Place, Spot, Thing
from albertine.world.english import lexicon
from albertine.world.english.grammar import PAST, SINGULAR, inflected, plural, verb, with_article


class ThingTemplate(NamedTuple):
    """The words of a thing, from which each story creates its own object."""

    kind: str
    name: str
    a: str

    def thing(self) -> Thing:
        """Return a new thing."""
        return Thing(*self)


class FixtureTemplate(NamedTuple):
    """The words of a fixture, from which each story creates its own object."""

    kind: str
    name: str
    a: str
    breaks: str
    broken: str
    repairs: str

    def fixture(self, place: Place) -> Fixture:
        """Return a new fixture in a place."""
        return Fixture(self.kind, self.name, self.a, place, self.breaks, self.broken, self.repairs)


class Animal(NamedTuple):
    """A kind of animal and its possible names."""

    kind: str
    names: tuple[str, ...]


class Weather(NamedTuple):
    """A change of weather: its season, the sentence for its start, and sentences for its signs."""

    season: str
    sentence: str
    signs: tuple[str, ...]


WOMEN, MEN, FAMILIES = lexicon.WOMEN, lexicon.MEN, lexicon.FAMILIES

VILLAGES = tuple(Place(name, name, "in") for name in lexicon.VILLAGES)
RIVERS = tuple(f"the {name}" for name in lexicon.RIVERS)
HILLS = lexicon.HILLS
ROOMS = tuple(Place(name, f"the {name}", preposition) for name, preposition, _ in lexicon.ROOMS)
SITES = tuple(Place(name, f"the {name}", preposition) for name, preposition, *_ in lexicon.PLACES)
_INDOORS = {name for name, *_, where in (*lexicon.ROOMS, *lexicon.PLACES) if where == "in"}
_SITE = {place.name: place for place in SITES}


def place_type(place: Place) -> str:
    """Return the type of a place; only places of one type can replace each other."""
    if place in VILLAGES:
        return "village"
    if place in BUILDINGS:
        return "building"
    return "room" if place in ROOMS else "site" if place in SITES else "stop"


BUILDINGS = frozenset(place for place in SITES if place.name in _INDOORS)
TRADES = tuple(
    (trade, _SITE.get(where) or Place(where, f"the {where}", "at")) for trade, where in lexicon.TRADES
)


def spots_in(place: Place) -> tuple[Spot, ...]:
    """Return new spots for a place."""
    where = "in" if place.name in _INDOORS else "out"
    return tuple(
        Spot(name, preposition, place) for name, preposition, side in lexicon.SPOTS if side in (where, "both")
    )


SPOTS = {place: spots_in(place) for place in (*ROOMS, *SITES)}
_KITCHENS = frozenset(("kitchen", "pantry", "wash-house"))


def _room_chores(room: Place) -> tuple[str, ...]:
    if room.name in _KITCHENS:
        return lexicon.KITCHEN_CHORES
    return lexicon.INDOOR_CHORES if room.name in _INDOORS else lexicon.OUTDOOR_CHORES


CHORES_IN = {room: _room_chores(room) for room in ROOMS} | {
    site: lexicon.INSIDE_CHORES if site.name in _INDOORS else lexicon.TOWN_CHORES for site in SITES
}


@cache
def in_season(phrases: tuple[str, ...], season: str) -> tuple[str, ...]:
    """Return the phrases that fit a season; phrases with a word of `lexicon.WARM` do not fit the cold one."""
    if season == "warm":
        return phrases
    return tuple(phrase for phrase in phrases if not set(phrase.lower().split()) & set(lexicon.WARM))


KIN = lexicon.KIN
TRAITS = lexicon.TRAITS

# Grouped by kind, so that a story controls whether it has two things of a kind.
THINGS = tuple(
    tuple(
        ThingTemplate(kind, f"{adjective} {kind}", with_article(f"{adjective} {kind}"))
        for adjective in adjectives.split()
    )
    for kind, adjectives in lexicon.THINGS
)


def _fixtures(row: tuple[str, ...]) -> tuple[FixtureTemplate, ...]:
    kind, adjectives, breaks, repairs, _ = row
    broken = verb(breaks).participle
    return tuple(
        FixtureTemplate(
            kind, f"{adjective} {kind}", with_article(f"{adjective} {kind}"), breaks, broken, repairs
        )
        for adjective in adjectives.split()
    )


_FIXTURES = {
    where: tuple(_fixtures(row) for row in lexicon.BREAKABLES if row[-1] in (where, "both"))
    for where in ("in", "out")
}


def fixtures_in(place: Place) -> tuple[tuple[FixtureTemplate, ...], ...]:
    """Return the templates of fixtures that fit a place, grouped by kind."""
    return _FIXTURES["in" if place.name in _INDOORS else "out"]


def _goods(row: tuple[str, ...]) -> Goods:
    singular, prices, use = row
    lowest_price, highest_price = map(int, prices.split())
    return Goods(singular, plural(singular), lowest_price, highest_price, use)


GOODS = tuple(map(_goods, lexicon.GOODS))
ANIMALS = tuple(Animal(kind, tuple(names.split())) for kind, names in lexicon.ANIMALS)


def _past(phrase: str) -> str:
    """Return a phrase with its bracketed verbs in the past tense."""
    while "[" in phrase:
        before, _, rest = phrase.partition("[")
        base, _, after = rest.partition("]")
        phrase = f"{before}{inflected(base, PAST, SINGULAR)}{after}"
    return phrase


SIGHTS = tuple(map(_past, lexicon.SIGHTS))
ERRANDS_AT = {
    site: tuple(
        errand
        for errand, places in lexicon.ERRANDS
        if places == "anywhere" or site.name in places.split(", ")
    )
    for site in SITES
}
REPORT_LINES = tuple(map(_past, lexicon.REPORT_LINES))
WEATHERS = tuple(Weather(row[1], _past(row[2]), tuple(map(_past, row[3:]))) for row in lexicon.WEATHERS)
BY_DAY = frozenset(
    weather for weather, row in zip(WEATHERS, lexicon.WEATHERS, strict=True) if row[0] in ("sun", "heat")
)
FINE = frozenset(
    weather for weather, row in zip(WEATHERS, lexicon.WEATHERS, strict=True) if row[0] in ("sun", "calm")
)
HOURS = tuple((row[0], row[1:]) for row in lexicon.HOURS)

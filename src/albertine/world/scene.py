"""Where a story is made: its chance, its cast, the world as it stands, and the log so far.

A genre asks the scene for persons, things and places, and does events in it. Every
event passes through the state, so that nothing impossible gets into a log.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from random import Random
from typing import TypeVar

from albertine.world import events
from albertine.world.cast import MAN, WOMAN, Fixture, Goods, Person, Place, Spot, Thing, Trade
from albertine.world.english import words
from albertine.world.state import State

T = TypeVar("T")


@cache
def _words_of(phrase: str) -> frozenset[str]:
    return frozenset(phrase.lower().split())


class Scene:
    """A story in the making.

    Args:
        chance: where all its randomness comes from; only `random()` is asked, whose
            sequence Python promises to keep.
        length: about how many events it is to have.
    """

    def __init__(self, chance: Random, length: int):
        self.random: Callable[[], float] = chance.random
        self.length = length
        self.state = State()
        self.log: list[events.Event] = []
        self.links: list[int] = []
        self.people: list[Person] = []
        self.places: list[Place] = []
        self.things: list[Thing] = []
        self.twins: set[str] = set()  # kinds of which there are several things
        self.title = ""
        self.seen: set[str] = set()  # sights and weathers, none of which comes twice
        self.told: list[events.Event] = []  # what someone has been told of by someone
        self.given: set[Thing] = set()  # what has changed hands, which it does once
        self.season = "warm" if self.random() < 0.6 else "cold"
        self.weathers = 0
        self.hour = ""
        self.prices: dict[Goods, int] = {}
        self._taken: set[str] = set()
        self._furniture: set[str] = set()
        self._spots: dict[Place, tuple[Spot, ...]] = {}

    # --- chance

    def toss(self, chance: float) -> bool:
        """Return true with a chance."""
        return self.random() < chance

    def between(self, least: int, most: int) -> int:
        """Return a whole number, both ends included."""
        return least + int(self.random() * (most - least + 1))

    def any(self, choices: Sequence[T]) -> T:
        """Return one of the choices, all alike."""
        return choices[int(self.random() * len(choices))]

    def pick(self, choices: Sequence[T]) -> T:
        """Return one of the choices, the early ones more often."""
        draw = self.random()
        return choices[int(len(choices) * draw * draw)]

    def some(self, choices: Sequence[T], count: int) -> list[T]:
        """Return several different ones, the early ones more often."""
        left = list(choices)
        return [left.pop(int(len(left) * self.random() ** 2)) for _ in range(min(count, len(left)))]

    # --- cast

    def person(
        self, gender: int | None = None, family: str | None = None, trade: Trade | None = None
    ) -> Person:
        """Bring in a person whose name nobody else here has."""
        if gender is None:
            gender = WOMAN if self.random() < 0.5 else MAN
        name = self._new(words.WOMEN if gender == WOMAN else words.MEN)
        person = Person(name, family or self._new(words.FAMILIES), gender, trade)
        self.people.append(person)
        return person

    def trade(self) -> tuple[Trade, Place]:
        """Return a trade that nobody here has, and where it is done."""
        while True:
            trade, place = self.pick(words.TRADES)
            if trade.name not in self._taken:
                self._taken.add(trade.name)
                return trade, place

    def family(self) -> str:
        """Return a family name that no other family here has."""
        return self._new(words.FAMILIES)

    def _new(self, names: Sequence[str]) -> str:
        while True:
            name = self.pick(names)
            if name not in self._taken:
                self._taken.add(name)
                return name

    def thing(self, twin: bool = False) -> Thing:
        """Bring in a thing, of a kind that is not here yet; now and then there are two of a kind."""
        while True:
            make = self.any(self.pick(words.THINGS))
            again = make.kind in self._taken
            if self.is_taken(make.name) or make.kind in self._furniture:
                continue
            if again and not (twin or self.random() < 0.05):
                continue
            if again:
                self.twins.add(make.kind)
            self.take(make.kind)
            self.take(make.name)
            thing = make.thing()
            self.things.append(thing)
            return thing

    def take(self, word: str) -> None:
        """Let a word mean what it means here, and nothing else."""
        self._taken.add(word)

    def reserve(self, word: str) -> None:
        """Let nothing be called by a word from here on."""
        self._furniture.add(word)

    def is_free(self, phrase: str) -> bool:
        """Tell whether a phrase speaks of nothing that the story is about, and keep it so."""
        spoken = _words_of(phrase)
        if not self._taken.isdisjoint(spoken):
            return False
        self._furniture |= spoken
        return True

    def is_taken(self, word: str) -> bool:
        """Tell whether a word means something here already."""
        return word in self._taken or word in self._furniture

    def fixture(self, place: Place) -> Fixture:
        """Bring in something that stands in a place and can break."""
        while True:
            make = self.any(self.pick(words.fixtures_in(place)))
            if not self.is_taken(make.kind):
                self.take(make.kind)
                return make.fixture(place)

    def goods(self, use: str = "") -> Goods:
        """Return some goods that nobody here has yet."""
        while True:
            goods = self.pick(words.GOODS)
            if goods.one not in self._taken and (not use or goods.use == use):
                self._taken.add(goods.one)
                return goods

    def spot(self, place: Place) -> Spot:
        """Return somewhere in a place to lay a thing."""
        if place not in self._spots:
            known = words.SPOTS.get(place)
            self._spots[place] = known if known is not None else words.spots_in(place)
        while True:
            spot = self.pick(self._spots[place])
            if spot.name not in self._taken:  # "the basket" is one thing only
                self.reserve(spot.name)
                return spot

    def other_place(self, place: Place | None) -> Place:
        """Return another of the story's places."""
        while True:
            other = self.any(self.places)
            if other is not place:
                return other

    def other_person(self, *others: Person) -> Person:
        """Return another of the story's persons."""
        while True:
            person = self.any(self.people)
            if person not in others:
                return person

    # --- events

    def do(self, event: events.Event, link: int = 0) -> None:
        """Let an event happen, perhaps because of, or in spite of, the one before it."""
        if event.__class__ is events.Hour:
            self.hour = event.part
        self.state.after(event)
        self.log.append(event)
        self.links.append(link)

    def go(self, who: Person, place: Place) -> None:
        """Let someone go to a place, unless they are there."""
        if self.state.at.get(who) is not place:
            self.do(events.Go(who, place))

    def until(self, count: int) -> Iterator[None]:
        """Go on until so much has happened, or nothing more seems to."""
        for _ in range(4 * (count - len(self.log))):
            if len(self.log) >= count:
                return
            yield

    @property
    def done(self) -> bool:
        """Tell whether the story is as long as it was to be."""
        return len(self.log) >= self.length

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
from albertine.world.state import WorldState

T = TypeVar("T")


@cache
def _word_set(phrase: str) -> frozenset[str]:
    return frozenset(phrase.lower().split())


class Scene:
    """A story in the making.

    Args:
        rng: where all its randomness comes from; only `random()` is asked, whose
            sequence Python promises to keep.
        length: about how many events it is to have.
    """

    def __init__(self, rng: Random, length: int):
        self.random: Callable[[], float] = rng.random
        self.length = length
        self.state = WorldState()
        self.log: list[events.Event] = []
        self.links: list[int] = []
        self.people: list[Person] = []
        self.places: list[Place] = []
        self.things: list[Thing] = []
        self.repeated_kinds: set[str] = set()  # kinds of which there are several things
        self.title = ""
        self.used: set[str] = set()  # sights and weathers, none of which comes twice
        self.told_events: list[events.Event] = []  # what someone has been told of by someone
        self.handed_over: set[Thing] = set()  # what has changed hands, which it does once
        self.season = "warm" if self.random() < 0.6 else "cold"
        self.num_weather_changes = 0
        self.hour = ""
        self.prices: dict[Goods, int] = {}
        self._claimed_words: set[str] = set()
        self._reserved_words: set[str] = set()
        self._spots: dict[Place, tuple[Spot, ...]] = {}

    # --- chance

    def toss(self, probability: float) -> bool:
        """Return true with a chance."""
        return self.random() < probability

    def randint(self, least: int, most: int) -> int:
        """Return a whole number, both ends included."""
        return least + int(self.random() * (most - least + 1))

    def choose(self, choices: Sequence[T]) -> T:
        """Return one of the choices, all alike."""
        return choices[int(self.random() * len(choices))]

    def choose_skewed(self, choices: Sequence[T]) -> T:
        """Return one of the choices, the early ones more often."""
        draw = self.random()
        return choices[int(len(choices) * draw * draw)]

    def sample_skewed(self, choices: Sequence[T], count: int) -> list[T]:
        """Return several different ones, the early ones more often."""
        left = list(choices)
        return [left.pop(int(len(left) * self.random() ** 2)) for _ in range(min(count, len(left)))]

    # --- cast

    def new_person(
        self, gender: int | None = None, family: str | None = None, trade: Trade | None = None
    ) -> Person:
        """Bring in a person whose name nobody else here has."""
        if gender is None:
            gender = WOMAN if self.random() < 0.5 else MAN
        name = self._unused_name(words.WOMEN if gender == WOMAN else words.MEN)
        person = Person(name, family or self._unused_name(words.FAMILIES), gender, trade)
        self.people.append(person)
        return person

    def new_trade(self) -> tuple[Trade, Place]:
        """Return a trade that nobody here has, and where it is done."""
        while True:
            trade, place = self.choose_skewed(words.TRADES)
            if trade.name not in self._claimed_words:
                self._claimed_words.add(trade.name)
                return trade, place

    def new_family_name(self) -> str:
        """Return a family name that no other family here has."""
        return self._unused_name(words.FAMILIES)

    def _unused_name(self, names: Sequence[str]) -> str:
        while True:
            name = self.choose_skewed(names)
            if name not in self._claimed_words:
                self._claimed_words.add(name)
                return name

    def new_thing(self, repeat_kind: bool = False) -> Thing:
        """Bring in a thing, of a kind that is not here yet; now and then there are two of a kind."""
        while True:
            template = self.choose(self.choose_skewed(words.THINGS))
            is_repeated = template.kind in self._claimed_words
            if self.is_claimed(template.name) or template.kind in self._reserved_words:
                continue
            if is_repeated and not (repeat_kind or self.random() < 0.05):
                continue
            if is_repeated:
                self.repeated_kinds.add(template.kind)
            self.claim_word(template.kind)
            self.claim_word(template.name)
            thing = template.thing()
            self.things.append(thing)
            return thing

    def claim_word(self, word: str) -> None:
        """Let a word mean what it means here, and nothing else."""
        self._claimed_words.add(word)

    def reserve_word(self, word: str) -> None:
        """Let nothing be called by a word from here on."""
        self._reserved_words.add(word)

    def try_claim_phrase(self, phrase: str) -> bool:
        """Tell whether a phrase speaks of nothing that the story is about, and keep it so."""
        spoken = _word_set(phrase)
        if not self._claimed_words.isdisjoint(spoken):
            return False
        self._reserved_words |= spoken
        return True

    def is_claimed(self, word: str) -> bool:
        """Tell whether a word means something here already."""
        return word in self._claimed_words or word in self._reserved_words

    def new_fixture(self, place: Place) -> Fixture:
        """Bring in something that stands in a place and can break."""
        while True:
            template = self.choose(self.choose_skewed(words.fixtures_in(place)))
            if not self.is_claimed(template.kind):
                self.claim_word(template.kind)
                return template.fixture(place)

    def new_goods(self, use: str = "") -> Goods:
        """Return some goods that nobody here has yet."""
        while True:
            goods = self.choose_skewed(words.GOODS)
            if goods.one not in self._claimed_words and (not use or goods.use == use):
                self._claimed_words.add(goods.one)
                return goods

    def choose_spot(self, place: Place) -> Spot:
        """Return somewhere in a place to lay a thing."""
        if place not in self._spots:
            known = words.SPOTS.get(place)
            self._spots[place] = known if known is not None else words.spots_in(place)
        while True:
            spot = self.choose_skewed(self._spots[place])
            if spot.name not in self._claimed_words:  # "the basket" is one thing only
                self.reserve_word(spot.name)
                return spot

    def other_place(self, place: Place | None) -> Place:
        """Return another of the story's places."""
        while True:
            other = self.choose(self.places)
            if other is not place:
                return other

    def other_person(self, *others: Person) -> Person:
        """Return another of the story's persons."""
        while True:
            person = self.choose(self.people)
            if person not in others:
                return person

    # --- events

    def add_event(self, event: events.Event, link: int = 0) -> None:
        """Let an event happen, perhaps because of, or in spite of, the one before it."""
        if event.__class__ is events.TimeOfDay:
            self.hour = event.part
        self.state.apply(event)
        self.log.append(event)
        self.links.append(link)

    def go(self, who: Person, place: Place) -> None:
        """Let someone go to a place, unless they are there."""
        if self.state.location.get(who) is not place:
            self.add_event(events.Go(who, place))

    def iterations_until(self, count: int) -> Iterator[None]:
        """Go on until so much has happened, or nothing more seems to."""
        for _ in range(4 * (count - len(self.log))):
            if len(self.log) >= count:
                return
            yield

    @property
    def is_long_enough(self) -> bool:
        """Tell whether the story is as long as it was to be."""
        return len(self.log) >= self.length

"""The scene in which a genre plans a story: randomness, cast, state and the log so far.

A genre gets persons, things and places from the scene and adds events to it. Every event
is applied to the state first, so no impossible event gets into a log.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from random import Random
from typing import TypeVar

from albertine.world import events
from albertine.world.cast import MAN, WOMAN, Fixture, Goods, Person, Place, Spot, Thing
from albertine.world.english import words
from albertine.world.state import WorldState

T = TypeVar("T")


@cache
def _word_set(phrase: str) -> frozenset[str]:
    return frozenset(phrase.lower().split())


class Scene:
    """A story that is being planned.

    Args:
        rng: source of all randomness. Only `random()` is called, because Python keeps
            its sequence the same from version to version.
        length: approximate number of events.
    """

    def __init__(self, rng: Random, length: int):
        self.random: Callable[[], float] = rng.random
        self.length = length
        self.state = WorldState()
        self.log: list[events.Event] = []
        self.links: list[int] = []  # for each event: SO, BUT or 0
        self.people: list[Person] = []
        self.places: list[Place] = []
        self.things: list[Thing] = []
        self.repeated_kinds: set[str] = set()  # kinds with several things in this story
        self.title = ""
        self.used: set[str] = set()  # keys of the sights, chores, bargains, ... that may occur only once
        self.told_events: list[events.Event] = []  # events that one person told another
        self.handed_over: set[Thing] = set()  # things that were given or sold, at most once each
        self.season = "warm" if self.random() < 0.6 else "cold"
        self.num_weather_changes = 0
        self.hour = ""  # the part of the day
        self.prices: dict[Goods, int] = {}
        self._claimed_words: set[str] = set()
        self._reserved_words: set[str] = set()
        self._spots: dict[Place, tuple[Spot, ...]] = {}

    # --- randomness

    def toss(self, probability: float) -> bool:
        """Return true with a probability."""
        return self.random() < probability

    def randint(self, least: int, most: int) -> int:
        """Return a random integer from `least` to `most`, both included."""
        return least + int(self.random() * (most - least + 1))

    def choose(self, choices: Sequence[T]) -> T:
        """Return one of the choices, all equally likely."""
        return choices[int(self.random() * len(choices))]

    def choose_skewed(self, choices: Sequence[T]) -> T:
        """Return one of the choices; earlier ones are more likely."""
        draw = self.random()
        return choices[int(len(choices) * draw * draw)]

    def sample_skewed(self, choices: Sequence[T], count: int) -> list[T]:
        """Return up to `count` different choices; earlier ones are more likely."""
        left = list(choices)
        return [left.pop(int(len(left) * self.random() ** 2)) for _ in range(min(count, len(left)))]

    # --- cast

    def new_person(self, gender: int | None = None, family: str | None = None) -> Person:
        """Add a person with an unused name; return them."""
        if gender is None:
            gender = WOMAN if self.random() < 0.5 else MAN
        name = self._unused_name(words.WOMEN if gender == WOMAN else words.MEN)
        person = Person(name, family or self._unused_name(words.FAMILIES), gender)
        self.people.append(person)
        return person

    def new_trade(self) -> tuple[str, Place]:
        """Return an unused trade, and the place where it is done."""
        while True:
            trade, place = self.choose_skewed(words.TRADES)
            if trade not in self._claimed_words:
                self._claimed_words.add(trade)
                return trade, place

    def new_family_name(self) -> str:
        """Return an unused family name."""
        return self._unused_name(words.FAMILIES)

    def _unused_name(self, names: Sequence[str]) -> str:
        while True:
            name = self.choose_skewed(names)
            if name not in self._claimed_words:
                self._claimed_words.add(name)
                return name

    def new_thing(self, repeat_kind: bool = False) -> Thing:
        """Add a thing and return it; its kind may be repeated, rarely unless `repeat_kind` is set."""
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
        """Mark a word as the name of something in this story, so that it means nothing else."""
        self._claimed_words.add(word)

    def reserve_word(self, word: str) -> None:
        """Mark a word as used in a phrase, so that nothing is named by it from here on."""
        self._reserved_words.add(word)

    def try_claim_phrase(self, phrase: str) -> bool:
        """Reserve the words of a phrase unless one of them names something; return whether they were free."""
        phrase_words = _word_set(phrase)
        if not self._claimed_words.isdisjoint(phrase_words):
            return False
        self._reserved_words |= phrase_words
        return True

    def is_claimed(self, word: str) -> bool:
        """Return whether a word is claimed or reserved in this story."""
        return word in self._claimed_words or word in self._reserved_words

    def new_fixture(self, place: Place) -> Fixture:
        """Return a new fixture in a place."""
        while True:
            template = self.choose(self.choose_skewed(words.fixtures_in(place)))
            if not self.is_claimed(template.kind):
                self.claim_word(template.kind)
                return template.fixture(place)

    def new_goods(self, use: str = "") -> Goods:
        """Return goods not yet in this story, with the given use if one is given."""
        while True:
            goods = self.choose_skewed(words.GOODS)
            if goods.one not in self._claimed_words and (not use or goods.use == use):
                self._claimed_words.add(goods.one)
                return goods

    def choose_spot(self, place: Place) -> Spot:
        """Return a spot in a place where a thing can lie."""
        if place not in self._spots:
            known = words.SPOTS.get(place)
            self._spots[place] = known if known is not None else words.spots_in(place)
        while True:
            spot = self.choose_skewed(self._spots[place])
            if spot.name not in self._claimed_words:  # otherwise "the basket" could be the spot or the thing
                self.reserve_word(spot.name)
                return spot

    def other_place(self, place: Place | None) -> Place:
        """Return a place of the story other than `place`."""
        while True:
            other = self.choose(self.places)
            if other is not place:
                return other

    def other_person(self, *others: Person) -> Person:
        """Return a person of the story other than those given."""
        while True:
            person = self.choose(self.people)
            if person not in others:
                return person

    # --- events

    def add_event(self, event: events.Event, link: int = 0) -> None:
        """Apply an event and append it to the log; `link` (SO, BUT or 0) relates it to the one before."""
        if event.__class__ is events.TimeOfDay:
            self.hour = event.part
        self.state.apply(event)
        self.log.append(event)
        self.links.append(link)

    def go(self, who: Person, place: Place) -> None:
        """Make someone go to a place unless they are there."""
        if self.state.location.get(who) is not place:
            self.add_event(events.Go(who, place))

    def iterations_until(self, count: int) -> Iterator[None]:
        """Iterate until the log has `count` events, but at most 4 times per missing event."""
        for _ in range(4 * (count - len(self.log))):
            if len(self.log) >= count:
                return
            yield

    @property
    def is_long_enough(self) -> bool:
        """Whether the log has reached the planned length."""
        return len(self.log) >= self.length

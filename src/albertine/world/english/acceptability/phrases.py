"""Random choices, and phrases that are not part of the tested dependency."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from albertine.world.english.acceptability.words import (
    BESIDE,
    CONTAINERS,
    LOOKS,
    LOSING,
    MOODS,
    NAMES,
    PLACES,
    PUTTING,
    THINGS,
    TRADES,
)
from albertine.world.english.grammar import PAST, PLURAL, PRESENT, SINGULAR, inflected, plural, verb
from albertine.world.english.lexicon import VILLAGES

Word = TypeVar("Word")


class Chooser:
    """Random choices from a stream of random numbers."""

    def __init__(self, random: Callable[[], float]):
        self._random = random
        self._named: set[str] = set()

    def name(self, names: Sequence[str]) -> str:
        """Return a name not yet used in the sentence."""
        while (name := self.one(names)) in self._named:
            pass
        self._named.add(name)
        return name

    def toss(self) -> bool:
        """Return true or false, both equally often."""
        return self._random() < 0.5

    def one(self, words: Sequence[Word]) -> Word:
        """Return one of the words."""
        return words[int(self._random() * len(words))]

    def two(self, words: Sequence[Word]) -> tuple[Word, Word]:
        """Return two different words."""
        first = int(self._random() * len(words))
        second = (first + 1 + int(self._random() * (len(words) - 1))) % len(words)
        return words[first], words[second]

    def cross(self, fits: bool) -> tuple[bool, bool]:
        """Return for each of the two positions which of its two fillers it gets; equal if `fits`."""
        left = self.toss()
        return left, left == fits


PhenomenonMaker = Callable[[Chooser, bool], str]
"""Returns a sentence that tests a phenomenon; it is acceptable if the second argument is true."""


def numbered(noun: str, many: bool) -> str:
    """Return the singular or the plural of a noun."""
    return plural(noun) if many else noun


def some_thing(rng: Chooser, many: bool = False) -> str:
    """Return a thing without an article: key, rusty keys."""
    thing, adjectives = rng.one(THINGS)
    noun = numbered(thing, many)
    return f"{rng.one(adjectives)} {noun}" if rng.toss() else noun


def the_thing(rng: Chooser) -> str:
    """Return a thing with its article: the rusty key."""
    return f"the {some_thing(rng)}"


def some_person(rng: Chooser) -> str:
    """Return a name, or a trade with its article: Mara, the clerk."""
    return rng.name(NAMES) if rng.toss() else f"the {rng.one(TRADES)}"


def two_persons(rng: Chooser) -> tuple[str, str]:
    """Return two different persons, at least one of them by name."""
    name, other = rng.name(NAMES), rng.name(NAMES)
    trade = f"the {rng.one(TRADES)}"
    return rng.one(((name, other), (name, trade), (trade, other)))


def at_place(rng: Chooser) -> str:
    """Return a place with its preposition: at the mill."""
    return " ".join(rng.one(PLACES))


def beside_container(rng: Chooser, many: bool) -> str:
    """Return a container, or several, with a preposition: behind the boxes."""
    return f"{rng.one(BESIDE)} the {numbered(rng.one(CONTAINERS), many)}"


def some_participle(rng: Chooser, bases: Sequence[str]) -> str:
    """Return the participle of one of the verbs."""
    return verb(rng.one(bases)).participle


def agreeing(base: str, tense: int, many: bool) -> str:
    """Return a verb in the third person, singular or plural."""
    return inflected(base, tense, PLURAL if many else SINGULAR)


def thing_predicate(rng: Chooser, many: bool) -> str:
    """Return a predicate about one or several things: was old, have been sold, belongs to Mara."""
    return rng.one(
        (
            f"{agreeing('have', PRESENT, many)} been {some_participle(rng, LOSING)}",
            f"{agreeing('be', PAST, many)} {rng.one(LOOKS)}",
            f"{agreeing('be', PRESENT, many)} {rng.one(LOOKS)}",
            f"{agreeing('belong', PRESENT, many)} to {some_person(rng)}",
        )
    )


def person_predicate(rng: Chooser, many: bool) -> str:
    """Return a predicate about one or several persons: was glad, have left Harrow, lives in Oakham."""
    return rng.one(
        (
            f"{agreeing('have', PRESENT, many)} left {rng.one(VILLAGES)}",
            f"{agreeing('be', PAST, many)} {rng.one(MOODS)}",
            f"{agreeing('be', PRESENT, many)} {rng.one(MOODS)}",
            f"{agreeing('live', PRESENT, many)} in {rng.one(VILLAGES)}",
        )
    )


def placed(rng: Chooser) -> tuple[str, str]:
    """Return a participle that needs an object, and a place: put, behind the box; brought, to the mill."""
    base, prepositions = rng.one(PUTTING)
    where = rng.one(PLACES)[1] if prepositions == ("to",) else f"the {rng.one(CONTAINERS)}"
    return verb(base).participle, f"{rng.one(prepositions)} {where}"


def optional(is_present: bool, phrase: str) -> str:
    """Return a phrase with a space before it if it is present, or an empty string."""
    return f" {phrase}" if is_present else ""

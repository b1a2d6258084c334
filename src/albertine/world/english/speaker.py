"""How persons and things are spoken of: by name, as "the baker", as "she".

A pronoun stands only where it can mean one: in this sentence, or in the one before if
there is nobody yet in this one, nobody else of that kind may have been spoken of. What
is met for the first time gets "a", from then on "the"; someone's own may be "her key".
"""

from collections.abc import Callable

from albertine.world.cast import SEVERAL, Fixture, Goods, Person, Place, Spot, Thing
from albertine.world.english import lexicon
from albertine.world.english.grammar import PLURAL, SINGULAR, I, a, number, verb

_LOOKS = {name: look for name, _, look, _ in lexicon.PLACES}
# Of the one who speaks, of the one spoken to, of a woman, of a man, of several.
_Words = tuple[str, str, str, str, str]
_SUBJECTS: _Words = ("I", "you", "she", "he", "they")
_OBJECTS: _Words = ("me", "you", "her", "him", "them")
_POSSESSIVES: _Words = ("my", "your", "her", "his", "their")
_MANY = object()  # more than one has been spoken of: no pronoun

# How likely a pronoun is where it may stand.
_AS_SUBJECT, _AS_OBJECT, _AS_OWNER, _FOR_THING = 0.85, 0.75, 1.0, 0.6


class Speaker:
    """What has been spoken of so far in a story, and how it is spoken of next.

    Args:
        random: gives numbers from 0 up to 1.
        exact: speak to someone who knows the persons and things by name but not where they are.
        repeated_kinds: kinds of things of which the story has several.
    """

    def __init__(
        self,
        random: Callable[[], float],
        *,
        exact: bool = False,
        repeated_kinds: frozenset[str] = frozenset(),
    ):
        self.random = random
        self.exact = exact
        self.repeated_kinds = repeated_kinds
        self.me: Person | None = None
        self.you: Person | None = None
        self.here: Place | None = None
        self.known: set[object] = set()
        self.owners: dict[Thing, Person] = {}
        self.trades: dict[Person, str] = {}
        self._count = 0
        self._now_goods: list[Goods] = []
        self._now: list[object] = [
            None,
            None,
            None,
            None,
        ]  # spoken of in this sentence: woman, man, several, thing
        self._before: list[object] = [None, None, None, None]  # and in the one before

    def end_sentence(self) -> None:
        """Let what was spoken of in this sentence be what was spoken of before."""
        self._before = self._now
        self._now = [None, None, None, None]
        self._now_goods = []

    def forget(self) -> None:
        """Let nothing have been spoken of, so that the next mention is by name."""
        self.end_sentence()
        self.end_sentence()

    def set_pronoun_referent(self, who: Person) -> None:
        """Let a person be the one that a pronoun means, whoever else was spoken of."""
        self._before[who.gender] = self._now[who.gender] = who

    def is_recently_mentioned(self, who: object) -> bool:
        """Tell whether someone was spoken of in the last sentence, or is one of us."""
        return who in self._before or who is self.me or who is self.you

    # --- persons

    def person(self, who: Person) -> int:
        """Return the grammatical person."""
        if who is self.me:
            return I
        return PLURAL if who.gender == SEVERAL or who is self.you else SINGULAR

    def _may_be_pronoun(self, who: object, kind: int) -> bool:
        """Tell whether a pronoun would mean this one alone; and take note that it is spoken of."""
        now, before = self._now[kind], self._before[kind]
        if now is who:
            return True
        if now is None:
            self._now[kind] = who
            return before is who
        self._now[kind] = _MANY
        return False

    def _pronoun(self, who: Person, words: _Words, chance: float) -> str:
        """Return a pronoun, where it can mean this person alone; the second time in a sentence surely."""
        if who is self.me or who is self.you:
            return words[who is self.you]
        kind = who.gender
        again = self._now[kind] is who
        if self._may_be_pronoun(who, kind) and (again or self.random() < chance):
            return words[2 + kind]
        return ""

    def as_subject(self, who: Person) -> str:
        """Speak of a person who does something."""
        return self._pronoun(who, _SUBJECTS, _AS_SUBJECT) or self.name(who)

    def as_object(self, who: Person) -> str:
        """Speak of a person to whom something is done."""
        return self._pronoun(who, _OBJECTS, _AS_OBJECT) or self.name(who)

    def possessive(self, who: Person) -> str:
        """Speak of a person who has something."""
        return self._pronoun(who, _POSSESSIVES, _AS_OWNER) or f"{self.name(who)}'s"

    def _again(self, who: Person, words: _Words) -> str:
        """Speak once more of the subject of the clause, whom a pronoun means in any case."""
        if who is self.me or who is self.you:
            return words[who is self.you]
        return words[2 + who.gender]

    def subject_again(self, who: Person) -> str:
        """Speak once more of the subject of the clause, as what it is the subject."""
        return self._again(who, _SUBJECTS)

    def object_again(self, who: Person) -> str:
        """Speak once more of the subject of the clause, as an object."""
        return self._again(who, _OBJECTS)

    def possessive_again(self, who: Person) -> str:
        """Speak of what the subject of the clause has."""
        return self._again(who, _POSSESSIVES)

    def name(self, who: Person) -> str:
        """Name a person, in full at first perhaps, by their trade now and then."""
        if who.gender == SEVERAL:
            return " and ".join(map(self.name, who.members))
        if who not in self.known:
            self.known.add(who)
            return who.full_name if self.random() < 0.5 and not self.exact else who.name
        if who in self.trades and not self.exact and self.random() < 0.15:
            return f"the {self.trades[who]}"
        return who.name

    # --- things

    def thing(self, thing: Thing) -> str:
        """Speak of a thing."""
        if self._may_be_pronoun(thing, 3) and self.random() < _FOR_THING:
            return "it"
        return self._named(thing)

    def the_thing(self, thing: Thing) -> str:
        """Speak of a thing and not as "it"."""
        self._may_be_pronoun(thing, 3)
        return self._named(thing, False)

    def _named(self, thing: Thing, owned: bool = True) -> str:
        if self.exact:
            return f"the {thing.name}"
        if thing not in self.known:
            self.known.add(thing)
            return thing.a
        owner = self.owners.get(thing)
        if owned and owner is not None and self.random() < 0.3:
            return f"{self.possessive(owner)} {thing.kind if thing.kind not in self.repeated_kinds else thing.name}"
        return f"the {thing.name if thing.kind in self.repeated_kinds or self.random() < 0.3 else thing.kind}"

    def thing_place(self, thing: Fixture) -> str:
        """Say where something stands."""
        return thing.place.at

    def broken(self, thing: Fixture) -> str:
        """Name the state of what was broken."""
        return thing.broken

    def mended(self, thing: Fixture) -> str:
        """Name what was done to mend it."""
        return verb(thing.mends).participle

    # --- goods and numbers

    def number(self, count: int) -> str:
        """Write a number."""
        self._count = count
        return number(count)

    def goods(self, goods: Goods) -> str:
        """Name goods after a number, in agreement with it."""
        return goods.one if self._count == 1 else goods.many

    def goods_them(self, goods: Goods) -> str:
        """Name goods that some are taken of; the second time in a sentence by a pronoun."""
        if goods in self._now_goods:
            return "them"
        self._now_goods.append(goods)
        return f"the {goods.many}"

    def goods_many(self, goods: Goods) -> str:
        """Name goods in the plural."""
        return goods.many

    def goods_used(self, goods: Goods) -> str:
        """Name what becomes of goods that are eaten or used."""
        return verb(goods.use).participle

    def price(self, pence: int) -> str:
        """Write a price."""
        return price_in_words(pence)

    # --- places

    def spot_at(self, spot: Spot) -> str:
        """Say where something lies; the room too, unless that is known."""
        self._now[3] = _MANY
        if spot.place is self.here and not self.exact:
            return spot.at
        return f"{spot.at} {spot.place.at}"

    def spot_away(self, spot: Spot) -> str:
        """Say where something is taken from."""
        self._now[3] = _MANY
        if spot.place is self.here and not self.exact:
            return spot.away
        return f"{spot.away} {spot.place.at}"

    def spot_place(self, spot: Spot) -> str:
        """Say in which room something lies."""
        return spot.place.at

    def place_the(self, place: Place) -> str:
        """Name a place that is known from now on."""
        self.known.add(place)
        return place.the

    def place_new(self, place: Place) -> str:
        """Name a place that may be new."""
        if place in self.known or self.exact:
            return place.the
        self.known.add(place)
        return a(f"{_LOOKS[place.name]} {place.name}")

    def place_at(self, place: Place) -> str:
        """Say where something is or happens."""
        return place.at

    def place_to(self, place: Place) -> str:
        """Say where someone goes."""
        return place.to

    def place_away(self, place: Place) -> str:
        """Say where someone comes from."""
        return place.away

    # --- words

    def plain(self, word: object) -> str:
        """Say a word as it is."""
        return str(word)

    def with_article(self, word: str) -> str:
        """Say a word with "a" before it."""
        return a(word)

    def manner(self, _: object) -> str:
        """Say how something is done."""
        return lexicon.MANNERS[int(len(lexicon.MANNERS) * self.random() ** 2)]


def price_in_words(pence: int) -> str:
    """Write a price."""
    return "a penny" if pence == 1 else f"{number(pence)} pence"

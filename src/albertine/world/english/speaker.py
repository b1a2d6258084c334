"""Referring expressions: a name, "the baker" or "she" for each mention of a person or thing.

A pronoun is used only if it is unambiguous: nobody else of that gender was mentioned in
this sentence or, if this one has nobody of that gender yet, in the one before. A new
thing gets "a", a known one "the", and an owned one may be "her key".
"""

from collections.abc import Callable

from albertine.world.cast import SEVERAL, Fixture, Goods, Person, Place, Spot, Thing
from albertine.world.english import lexicon
from albertine.world.english.grammar import PLURAL, SINGULAR, I, number_in_words, verb, with_article

_PLACE_ADJECTIVES = {name: adjective for name, _, adjective, _ in lexicon.PLACES}
# Pronouns for: the speaker, the addressee, a woman, a man, several persons.
_Words = tuple[str, str, str, str, str]
_SUBJECTS: _Words = ("I", "you", "she", "he", "they")
_OBJECTS: _Words = ("me", "you", "her", "him", "them")
_POSSESSIVES: _Words = ("my", "your", "her", "his", "their")
_MANY = object()  # several were mentioned: a pronoun would be ambiguous

# Probability of a pronoun where it is unambiguous.
_AS_SUBJECT, _AS_OBJECT, _AS_OWNER, _FOR_THING = 0.85, 0.75, 1.0, 0.6


class Speaker:
    """The wording of each mention of a person, thing or place, which depends on the earlier mentions.

    Args:
        random: returns numbers in [0, 1).
        exact: use full names and locations, for a text without context.
        repeated_kinds: kinds with several things in the story, which need their adjective.
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
        # The referents in this sentence and in the one before: woman, man, several, thing.
        self._now: list[object] = [None] * 4
        self._before: list[object] = [None] * 4

    def end_sentence(self) -> None:
        """Start a new sentence: the referents of this one become those of the one before."""
        self._before = self._now
        self._now = [None, None, None, None]
        self._now_goods = []

    def forget(self) -> None:
        """Forget all referents, so that the next mention uses a name."""
        self.end_sentence()
        self.end_sentence()

    def set_pronoun_referent(self, who: Person) -> None:
        """Make a person the referent of their pronoun, even if others were mentioned."""
        self._before[who.gender] = self._now[who.gender] = who

    def is_recently_mentioned(self, who: object) -> bool:
        """Return whether a person was mentioned in the last sentence, or is the speaker or addressee."""
        return who in self._before or who is self.me or who is self.you

    # --- persons

    def person(self, who: Person) -> int:
        """Return the grammatical person for verbs."""
        if who is self.me:
            return I
        return PLURAL if who.gender == SEVERAL or who is self.you else SINGULAR

    def _may_be_pronoun(self, who: object, category: int) -> bool:
        """Record a mention; return whether a pronoun would be unambiguous."""
        now, before = self._now[category], self._before[category]
        if now is who:
            return True
        if now is None:
            self._now[category] = who
            return before is who
        self._now[category] = _MANY
        return False

    def _pronoun(self, who: Person, words: _Words, probability: float) -> str:
        """Return a pronoun or an empty string.

        A repeated mention in a sentence is always a pronoun; an ambiguous mention never is.
        """
        if who is self.me or who is self.you:
            return words[who is self.you]
        category = who.gender
        is_repeated = self._now[category] is who
        if self._may_be_pronoun(who, category) and (is_repeated or self.random() < probability):
            return words[2 + category]
        return ""

    def as_subject(self, who: Person) -> str:
        """Return a person as subject: a pronoun or a name."""
        return self._pronoun(who, _SUBJECTS, _AS_SUBJECT) or self.name(who)

    def as_object(self, who: Person) -> str:
        """Return a person as object: a pronoun or a name."""
        return self._pronoun(who, _OBJECTS, _AS_OBJECT) or self.name(who)

    def possessive(self, who: Person) -> str:
        """Return a person as possessor: a pronoun or a name."""
        return self._pronoun(who, _POSSESSIVES, _AS_OWNER) or f"{self.name(who)}'s"

    def _again(self, who: Person, words: _Words) -> str:
        """Return the pronoun for the subject of the clause, which is always unambiguous."""
        if who is self.me or who is self.you:
            return words[who is self.you]
        return words[2 + who.gender]

    def subject_again(self, who: Person) -> str:
        """Return the subject pronoun of the clause's subject."""
        return self._again(who, _SUBJECTS)

    def object_again(self, who: Person) -> str:
        """Return the object pronoun of the clause's subject."""
        return self._again(who, _OBJECTS)

    def possessive_again(self, who: Person) -> str:
        """Return the possessive pronoun of the clause's subject."""
        return self._again(who, _POSSESSIVES)

    def name(self, who: Person) -> str:
        """Return a person's name, perhaps with the family name at first, sometimes the trade later."""
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
        """Return a thing: a pronoun or a noun phrase."""
        if self._may_be_pronoun(thing, 3) and self.random() < _FOR_THING:
            return "it"
        return self._named(thing)

    def the_thing(self, thing: Thing) -> str:
        """Return a thing as a noun phrase, never as a pronoun."""
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
            name = thing.name if thing.kind in self.repeated_kinds else thing.kind
            return f"{self.possessive(owner)} {name}"
        return f"the {thing.name if thing.kind in self.repeated_kinds or self.random() < 0.3 else thing.kind}"

    def thing_place(self, thing: Fixture) -> str:
        """Return the place of a fixture with its preposition."""
        return thing.place.at

    def broken(self, thing: Fixture) -> str:
        """Return the participle that says how a fixture is broken."""
        return thing.broken

    def repaired(self, thing: Fixture) -> str:
        """Return the participle that says how a fixture was repaired."""
        return verb(thing.repairs).participle

    # --- goods and numbers

    def number(self, count: int) -> str:
        """Return a number in words, and remember it for `goods`."""
        self._count = count
        return number_in_words(count)

    def goods(self, goods: Goods) -> str:
        """Return goods in the singular or plural, in agreement with the last number."""
        return goods.one if self._count == 1 else goods.many

    def goods_them(self, goods: Goods) -> str:
        """Return "the" goods, or "them" at a repeated mention in a sentence."""
        if goods in self._now_goods:
            return "them"
        self._now_goods.append(goods)
        return f"the {goods.many}"

    def goods_many(self, goods: Goods) -> str:
        """Return goods in the plural."""
        return goods.many

    def goods_used(self, goods: Goods) -> str:
        """Return the participle for using goods: eaten, burnt."""
        return verb(goods.use).participle

    def price(self, pence: int) -> str:
        """Return a price in words."""
        return price_in_words(pence)

    # --- places

    def spot_at(self, spot: Spot) -> str:
        """Return a spot with its preposition, and with its place unless that is the current one."""
        self._now[3] = _MANY
        if spot.place is self.here and not self.exact:
            return spot.at
        return f"{spot.at} {spot.place.at}"

    def spot_away(self, spot: Spot) -> str:
        """Return a spot as an origin, and with its place unless that is the current one."""
        self._now[3] = _MANY
        if spot.place is self.here and not self.exact:
            return spot.away
        return f"{spot.away} {spot.place.at}"

    def spot_place(self, spot: Spot) -> str:
        """Return the place of a spot with its preposition."""
        return spot.place.at

    def place_the(self, place: Place) -> str:
        """Return a place with "the", and mark it as known."""
        self.known.add(place)
        return place.the

    def place_new(self, place: Place) -> str:
        """Return a place: with "the" if it is known, else with "a" and an adjective."""
        if place in self.known or self.exact:
            return place.the
        self.known.add(place)
        return with_article(f"{_PLACE_ADJECTIVES[place.name]} {place.name}")

    def place_at(self, place: Place) -> str:
        """Return a place as a location: at the mill."""
        return place.at

    def place_to(self, place: Place) -> str:
        """Return a place as a destination: to the mill."""
        return place.to

    def place_away(self, place: Place) -> str:
        """Return a place as an origin: from the mill."""
        return place.away

    # --- words

    def plain(self, word: object) -> str:
        """Return a value unchanged."""
        return str(word)

    def with_article(self, word: str) -> str:
        """Return a word with its indefinite article."""
        return with_article(word)

    def manner(self, _: object) -> str:
        """Return a random adverb of manner."""
        return lexicon.MANNERS[int(len(lexicon.MANNERS) * self.random() ** 2)]


def price_in_words(pence: int) -> str:
    """Return a price in words."""
    return "a penny" if pence == 1 else f"{number_in_words(pence)} pence"

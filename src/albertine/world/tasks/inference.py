"""Does one text follow from another: MNLI and RTE, from claims about the end of an excerpt of a story.

What a claim is about, whether it is affirmed or denied, and the label are drawn
before, independently; so the wording of a claim alone tells nothing.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from albertine.world import events as e
from albertine.world import facts
from albertine.world.cast import Fixture, Goods, Person, Place, Spot, Thing
from albertine.world.english import claims
from albertine.world.english.asking import clause, sentence
from albertine.world.english.grammar import capital
from albertine.world.stories import Story
from albertine.world.tasks.excerpts import excerpt, told

Random = Callable[[], float]

ENTAILMENT: Final = "entailment"
NEUTRAL: Final = "neutral"
CONTRADICTION: Final = "contradiction"
_TRIES = 8  # runs of events, of one story
_TRUTH = {ENTAILMENT: True, NEUTRAL: None, CONTRADICTION: False}


class Order(NamedTuple):
    """The claim that one event came before another."""

    first: e.Event
    second: e.Event


class Inference(NamedTuple):
    """A premise, a hypothesis and whether it follows; and what both come from."""

    premise: str
    hypothesis: str
    label: str
    genre: str
    events: list[e.Event]
    claim: facts.Claim | Order
    affirmed: bool


def inference(
    story: Story, random: Random, label: str, family: str, affirmed: bool, least: int, most: int
) -> Inference | None:
    """Make an example from a story, if its events allow one with this label in this family and polarity."""
    known, unknown, claims_of = FAMILIES[family]
    truth = _TRUTH[label]
    if truth is not None and not affirmed:
        truth = not truth
    for _ in range(_TRIES):
        chosen = excerpt(story, random, least, most, known if truth is not None else unknown)
        if chosen is None:
            continue
        found = list(claims_of(_Cast(chosen.events, story.log), truth))
        if found:
            claim = found[int(random() * len(found))]
            premise, hypothesis = told(chosen, random), _worded(claim, affirmed, random)
            return Inference(premise, hypothesis, label, story.genre, chosen.events, claim, affirmed)
    return None


def _worded(claim: facts.Claim | Order, affirmed: bool, random: Random) -> str:
    wording = claims.ORDER if isinstance(claim, Order) else claims.CLAIMS[claim.__class__]
    texts = wording.affirmed if affirmed else wording.denied
    text = texts[int(random() * len(texts))]
    if isinstance(claim, Order):
        one, two = clause(claim.first, random()), clause(claim.second, random())
        return capital(text.replace("{1}", one).replace("{2}", two)) + "."
    return sentence(text, claim)


class _Cast:
    """Who and what is spoken of in some events, and what their reader knows."""

    def __init__(self, events: list[e.Event], log: list[e.Event]):
        self.events = events
        self.log = log  # all that happened in the story
        self.reader = facts.Reader(events)
        self.people: list[Person] = []
        self.things: list[Thing] = []
        self.places: list[Place] = []
        self.spots: list[Spot] = []
        self.stocks: list[tuple[Person, Goods]] = []
        for event in events:
            self._note(event)

    def _note(self, event: e.Event) -> None:
        people: list[Person] = []
        for value in event:
            if isinstance(value, Person):
                people.extend(value.members)
            elif isinstance(value, Thing):
                _add(self.things, value)
            elif isinstance(value, Place) and event.__class__ not in (e.Lives, e.Works):
                _add(self.places, value)
            elif isinstance(value, Spot):
                _add(self.spots, value)
                _add(self.places, value.place)
            elif isinstance(value, Goods):
                for person in people:
                    _add(self.stocks, (person, value))
        for person in people:
            _add(self.people, person)


def _add(known: list, value: object) -> None:  # type: ignore[type-arg]
    if value not in known:
        known.append(value)


_Found = Iterator[facts.Claim | Order]


def _places(cast: _Cast, truth: bool | None) -> _Found:
    """Claim that someone is somewhere; open only for those who were with nobody either."""
    for who in cast.people:
        if truth is None and (who in cast.reader.together or who in cast.reader.place):
            continue
        for place in cast.places:
            if cast.reader.truth(claim := facts.AtPlace(who, place)) is truth:
                yield claim


def _holders(cast: _Cast, truth: bool | None) -> _Found:
    """Claim that someone carries something; open only for those who do not look for it or own it."""
    for thing in cast.things:
        if isinstance(thing, Fixture):
            continue
        for who in cast.people:
            claim = facts.HasThing(who, thing)
            if cast.reader.truth(claim) is truth and (truth is not None or not _concerned(cast, who, thing)):
                yield claim


def _concerned(cast: _Cast, who: Person, thing: Thing) -> bool:
    """Tell whether something was said of both: that someone seeks, wants or owns a thing."""
    return any(who in event and thing in event for event in cast.events)


def _spots(cast: _Cast, truth: bool | None) -> _Found:
    """Claim that something lies somewhere."""
    for thing in cast.things:
        if isinstance(thing, Fixture):
            continue
        for spot in cast.spots:
            claim = facts.LiesAt(thing, spot)
            if cast.reader.truth(claim) is truth and (truth is not None or not _searched(cast, thing, spot)):
                yield claim


def _searched(cast: _Cast, thing: Thing, spot: Spot) -> bool:
    """Tell whether someone looked there for a thing and found nothing."""
    return any(isinstance(event, e.Seek) and event[1:] == (thing, spot) for event in cast.events)


def _stocks(cast: _Cast, truth: bool | None) -> _Found:
    """Claim how much is left to someone."""
    for who, goods in cast.stocks:
        left = cast.reader.stock.get((who, goods), 4)
        for count in range(max(1, left - 2), left + 3):
            for kind in (facts.HasLeft, facts.HasMore):
                if truth is None and count == cast.reader.least.get((who, goods)):
                    continue  # open by the letter, but who got six is taken to have six
                if cast.reader.truth(claim := kind(who, count, goods)) is truth:
                    yield claim


def _conditions(cast: _Cast, truth: bool | None) -> _Found:
    """Claim that something is whole."""
    for thing in cast.things:
        if isinstance(thing, Fixture) and cast.reader.truth(claim := facts.IsWhole(thing)) is truth:
            yield claim


_DATED = (e.Take, e.Put, e.Give, e.Return, e.Find, e.Buy, e.BuyGoods, e.Share, e.Break, e.Mend)


def _orders(cast: _Cast, truth: bool | None) -> _Found:
    """Claim that one deed came before another; open if one of them is not told here."""
    told = [event for event in cast.events if isinstance(event, _DATED) and cast.events.count(event) == 1]
    if truth is None:
        others = [event for event in cast.log if isinstance(event, _DATED) and event not in cast.events]
        others = [event for event in others if set(event) & set(cast.people)]
        for one in told:
            for two in others:
                if one != two and one.__class__ is not two.__class__:
                    yield Order(one, two)
                    yield Order(two, one)
    for at, one in enumerate(told):
        for two in told[at + 1 :]:
            if truth is not None:
                yield Order(one, two) if truth else Order(two, one)


def _directions(cast: _Cast, truth: bool | None) -> _Found:
    """Claim that a place lies in some direction of another that it was not told beside."""
    beside = cast.reader.beside
    places = list(dict.fromkeys(place for place, _ in beside))
    for place in places:
        for other in places:
            told = any(beside.get((other, direction)) is place for direction in facts.OPPOSITE)
            for direction in () if told else facts.OPPOSITE:
                claim = facts.InDirection(place, direction, other)
                if truth is not None and cast.reader.truth(claim) is truth:
                    yield claim


_Claims = Callable[[_Cast, bool | None], _Found]
_OPEN = frozenset((e.Owns, e.Want, e.Miss, e.Seek))  # a thing is spoken of, and nobody says where it is
# What claims are about: the events around which they are settled, and left open; and the claims.
FAMILIES: dict[str, tuple[frozenset[type], frozenset[type], _Claims]] = {
    "place": (frozenset((e.Go,)), frozenset((e.Go,)), _places),
    "holder": (frozenset((e.Take, e.Give, e.Return, e.Find, e.Buy, e.Lies)), _OPEN, _holders),
    "spot": (frozenset((e.Put, e.Lose, e.Lies, e.Take, e.Find)), _OPEN, _spots),
    "stock": (frozenset((e.Use, e.Share, e.BuyGoods)), frozenset((e.Use, e.Share, e.BuyGoods)), _stocks),
    "condition": (frozenset((e.Break, e.Mend)), frozenset((e.Stands,)), _conditions),
    "order": (frozenset(_DATED), frozenset(_DATED), _orders),
    "direction": (frozenset((e.Near,)), frozenset(), _directions),
}
# The genres in which a family has every label often enough.
GENRES_OF = {
    "place": ("household", "market", "letters", "mystery", "report"),
    "holder": ("household", "market", "letters", "mystery", "journey", "report"),
    "spot": ("household", "letters", "journey", "report"),
    "stock": ("household", "market", "letters", "journey"),
    "condition": ("household", "letters", "report"),
    "order": ("household", "market", "letters", "journey", "report"),
    "direction": ("place",),
}

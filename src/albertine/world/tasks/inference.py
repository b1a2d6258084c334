"""Natural language inference (MNLI and RTE): claims about the state at the end of an excerpt.

The claim family, the polarity (affirmed or denied) and the label are drawn independently
before the excerpt, so the wording of a claim does not predict the label.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from albertine.randomness import UniformRandom
from albertine.world import events as e
from albertine.world import facts
from albertine.world.cast import Fixture, Goods, Person, Place, Spot, Thing
from albertine.world.english import claims
from albertine.world.english.grammar import capital
from albertine.world.english.wording import clause, sentence
from albertine.world.stories import Story
from albertine.world.tasks.excerpts import choose_excerpt, excerpt_text

ENTAILMENT: Final = "entailment"
NEUTRAL: Final = "neutral"
CONTRADICTION: Final = "contradiction"
_MAX_EXCERPTS = 8  # of one story
_TRUTH = {ENTAILMENT: True, NEUTRAL: None, CONTRADICTION: False}


class EventOrder(NamedTuple):
    """The claim that one event happened before another."""

    first: e.Event
    second: e.Event


class InferenceExample(NamedTuple):
    """A premise, a hypothesis and their label, with the events and the claim that they come from."""

    premise: str
    hypothesis: str
    label: str
    genre: str
    events: list[e.Event]
    claim: facts.Claim | EventOrder
    affirmed: bool


def make_inference_example(
    story: Story,
    random: UniformRandom,
    label: str,
    claim_family: str,
    affirmed: bool,
    min_events: int,
    max_events: int,
) -> InferenceExample | None:
    """Return an example with the given label, claim family and polarity; None if no excerpt allows one."""
    decided_anchors, undecided_anchors, generate_claims = CLAIM_FAMILIES[claim_family]
    truth = _TRUTH[label]
    if truth is not None and not affirmed:
        truth = not truth
    for _ in range(_MAX_EXCERPTS):
        excerpt = choose_excerpt(
            story, random, min_events, max_events, decided_anchors if truth is not None else undecided_anchors
        )
        if excerpt is None:
            continue
        possible_claims = list(generate_claims(_ExcerptFacts(excerpt.events, story.log), truth))
        if possible_claims:
            claim = possible_claims[int(random() * len(possible_claims))]
            premise, hypothesis = excerpt_text(excerpt, random), _hypothesis_text(claim, affirmed, random)
            return InferenceExample(premise, hypothesis, label, story.genre, excerpt.events, claim, affirmed)
    return None


def _hypothesis_text(claim: facts.Claim | EventOrder, affirmed: bool, random: UniformRandom) -> str:
    wording = claims.ORDER if isinstance(claim, EventOrder) else claims.CLAIMS[claim.__class__]
    texts = wording.affirmed if affirmed else wording.denied
    text = texts[int(random() * len(texts))]
    if isinstance(claim, EventOrder):
        first, second = clause(claim.first, random()), clause(claim.second, random())
        return capital(text.replace("{1}", first).replace("{2}", second)) + "."
    return sentence(text, claim)


class _ExcerptFacts:
    """The persons, things and places of an excerpt, and the knowledge of its reader."""

    def __init__(self, events: list[e.Event], log: list[e.Event]):
        self.events = events
        self.log = log  # all events of the story
        self.knowledge = facts.ReaderKnowledge(events)
        self.people: list[Person] = []
        self.things: list[Thing] = []
        self.places: list[Place] = []
        self.spots: list[Spot] = []
        self.stocks: list[tuple[Person, Goods]] = []
        for event in events:
            self._add_event(event)

    def _add_event(self, event: e.Event) -> None:
        people: list[Person] = []
        for value in event:
            if isinstance(value, Person):
                people.extend(value.members)
            elif isinstance(value, Thing):
                _append_new(self.things, value)
            elif isinstance(value, Place) and event.__class__ not in (e.Lives, e.Works):
                _append_new(self.places, value)
            elif isinstance(value, Spot):
                _append_new(self.spots, value)
                _append_new(self.places, value.place)
            elif isinstance(value, Goods):
                for person in people:
                    _append_new(self.stocks, (person, value))
        for person in people:
            _append_new(self.people, person)


def _append_new(known: list, value: object) -> None:  # type: ignore[type-arg]
    if value not in known:
        known.append(value)


_ClaimIterator = Iterator[facts.Claim | EventOrder]


def _location_claims(excerpt: _ExcerptFacts, truth: bool | None) -> _ClaimIterator:
    """Yield claims that a person is at a place; undecided ones only if no event suggests where they are."""
    for who in excerpt.people:
        if truth is None and (who in excerpt.knowledge.placed_by_others or who in excerpt.knowledge.place):
            continue
        for place in excerpt.places:
            if excerpt.knowledge.truth(claim := facts.AtPlace(who, place)) is truth:
                yield claim


def _holder_claims(excerpt: _ExcerptFacts, truth: bool | None) -> _ClaimIterator:
    """Yield claims that a person holds a thing; undecided ones only if no event mentions both."""
    for thing in excerpt.things:
        if isinstance(thing, Fixture):
            continue
        for who in excerpt.people:
            claim = facts.HasThing(who, thing)
            if excerpt.knowledge.truth(claim) is truth and (
                truth is not None or not _mentioned_together(excerpt, who, thing)
            ):
                yield claim


def _mentioned_together(excerpt: _ExcerptFacts, who: Person, thing: Thing) -> bool:
    """Return whether an event mentions both, as when a person seeks, wants or owns a thing."""
    return any(who in event and thing in event for event in excerpt.events)


def _spot_claims(excerpt: _ExcerptFacts, truth: bool | None) -> _ClaimIterator:
    """Yield claims that a thing is at a spot; undecided ones only if nobody searched there in vain."""
    for thing in excerpt.things:
        if isinstance(thing, Fixture):
            continue
        for spot in excerpt.spots:
            claim = facts.AtSpot(thing, spot)
            if excerpt.knowledge.truth(claim) is truth and (
                truth is not None or not _was_searched(excerpt, thing, spot)
            ):
                yield claim


def _was_searched(excerpt: _ExcerptFacts, thing: Thing, spot: Spot) -> bool:
    """Return whether a person looked for a thing at a spot in vain."""
    return any(isinstance(event, e.Seek) and event[1:] == (thing, spot) for event in excerpt.events)


def _stock_claims(excerpt: _ExcerptFacts, truth: bool | None) -> _ClaimIterator:
    """Yield claims about how many goods a person has."""
    for who, goods in excerpt.stocks:
        known_count = excerpt.knowledge.stock.get((who, goods), 4)
        for count in range(max(1, known_count - 2), known_count + 3):
            for claim_type in (facts.HasExactly, facts.HasMore):
                if truth is None and count == excerpt.knowledge.minimum_stock.get((who, goods)):
                    continue  # logically undecided, but readers assume that a person who got six has six
                if excerpt.knowledge.truth(claim := claim_type(who, count, goods)) is truth:
                    yield claim


def _condition_claims(excerpt: _ExcerptFacts, truth: bool | None) -> _ClaimIterator:
    """Yield claims that a fixture is intact."""
    for thing in excerpt.things:
        if isinstance(thing, Fixture) and excerpt.knowledge.truth(claim := facts.IsIntact(thing)) is truth:
            yield claim


_DATED_EVENTS = (e.Take, e.Put, e.Give, e.Return, e.Find, e.Buy, e.BuyGoods, e.ShareGoods, e.Break, e.Repair)


def _order_claims(excerpt: _ExcerptFacts, truth: bool | None) -> _ClaimIterator:
    """Yield claims about the order of two actions; undecided if the excerpt has only one of them."""
    excerpt_events = [
        event
        for event in excerpt.events
        if isinstance(event, _DATED_EVENTS) and excerpt.events.count(event) == 1
    ]
    if truth is None:
        outside_events = [
            event for event in excerpt.log if isinstance(event, _DATED_EVENTS) and event not in excerpt.events
        ]
        outside_events = [event for event in outside_events if set(event) & set(excerpt.people)]
        for first in excerpt_events:
            for second in outside_events:
                if first != second and first.__class__ is not second.__class__:
                    yield EventOrder(first, second)
                    yield EventOrder(second, first)
    for index, first in enumerate(excerpt_events):
        for second in excerpt_events[index + 1 :]:
            if truth is not None:
                yield EventOrder(first, second) if truth else EventOrder(second, first)


def _direction_claims(excerpt: _ExcerptFacts, truth: bool | None) -> _ClaimIterator:
    """Yield claims about the direction between two places that are not adjacent."""
    neighbors = excerpt.knowledge.neighbors
    places = list(dict.fromkeys(place for place, _ in neighbors))
    for place in places:
        for other in places:
            is_adjacent = any(neighbors.get((other, direction)) is place for direction in facts.OPPOSITE)
            for direction in () if is_adjacent else facts.OPPOSITE:
                claim = facts.InDirection(place, direction, other)
                if truth is not None and excerpt.knowledge.truth(claim) is truth:
                    yield claim


_ClaimGenerator = Callable[[_ExcerptFacts, bool | None], _ClaimIterator]
# Events that mention a thing without saying where it is.
_UNDECIDED_EVENTS = frozenset((e.Owns, e.Want, e.Miss, e.Seek))
# Each family: the anchor events for decided claims and for undecided ones, and the generator of claims.
CLAIM_FAMILIES: dict[str, tuple[frozenset[type], frozenset[type], _ClaimGenerator]] = {
    "place": (frozenset((e.Go,)), frozenset((e.Go,)), _location_claims),
    "holder": (
        frozenset((e.Take, e.Give, e.Return, e.Find, e.Buy, e.ThingAt)),
        _UNDECIDED_EVENTS,
        _holder_claims,
    ),
    "spot": (frozenset((e.Put, e.Lose, e.ThingAt, e.Take, e.Find)), _UNDECIDED_EVENTS, _spot_claims),
    "stock": (
        frozenset((e.UseGoods, e.ShareGoods, e.BuyGoods)),
        frozenset((e.UseGoods, e.ShareGoods, e.BuyGoods)),
        _stock_claims,
    ),
    "condition": (frozenset((e.Break, e.Repair)), frozenset((e.FixtureAt,)), _condition_claims),
    "order": (frozenset(_DATED_EVENTS), frozenset(_DATED_EVENTS), _order_claims),
    "direction": (frozenset((e.Near,)), frozenset(), _direction_claims),
}
# The genres in which a family yields every label often enough.
GENRES_BY_FAMILY = {
    "place": ("household", "market", "letters", "mystery", "report"),
    "holder": ("household", "market", "letters", "mystery", "journey", "report"),
    "spot": ("household", "letters", "journey", "report"),
    "stock": ("household", "market", "letters", "journey"),
    "condition": ("household", "letters", "report"),
    "order": ("household", "market", "letters", "journey", "report"),
    "direction": ("place",),
}

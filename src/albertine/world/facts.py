"""The knowledge that some events give to a reader, and the truth of claims: true, false or undecided.

The reader concludes nothing beyond the events: a person whose movements they omit may be
anywhere, and the owner of a thing need not carry it. Claims about these are undecided (None).
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from albertine.world import events as e
from albertine.world.cast import Fixture, Goods, Person, Place, Spot, Thing


class AtPlace(NamedTuple):
    """The claim that a person is at a place."""

    who: Person
    place: Place


class HasThing(NamedTuple):
    """The claim that a person holds a thing."""

    who: Person
    thing: Thing


class AtSpot(NamedTuple):
    """The claim that a thing is at a spot."""

    thing: Thing
    spot: Spot


class HasExactly(NamedTuple):
    """The claim that a person has exactly this number of goods."""

    who: Person
    number: int
    goods: Goods


class HasMore(NamedTuple):
    """The claim that a person has more than this number of goods."""

    who: Person
    number: int
    goods: Goods


class IsIntact(NamedTuple):
    """The claim that a fixture is not broken."""

    thing: Fixture


class InDirection(NamedTuple):
    """The claim that a place is in a direction from another."""

    place: Place
    direction: str
    other: Place


Claim = AtPlace | HasThing | AtSpot | HasExactly | HasMore | IsIntact | InDirection

OPPOSITE = {"north": "south", "east": "west", "south": "north", "west": "east"}


class ReaderKnowledge:
    """The knowledge of a person who has read some events and nothing else.

    `Hidden` events are not read. `Reveal` and `Tell` report the past and do not change
    the present state.
    """

    def __init__(self, events: Iterable[e.Event]):
        self.place: dict[Person, Place] = {}
        self.holder_or_spot: dict[Thing, Person | Spot] = {}
        self.stock: dict[tuple[Person, Goods], int] = {}
        # The minimum number, where the exact one is unknown.
        self.minimum_stock: dict[tuple[Person, Goods], int] = {}
        self.is_intact: dict[Fixture, bool] = {}
        self.neighbors: dict[tuple[Place, str], Place] = {}  # the next place in a direction
        # Persons who met another or worked on a fixture: readers assume that both are in the same place.
        self.placed_by_others: set[Person] = set()
        self.missing: set[Thing] = set()  # things that are not where their owner expects them
        for event in events:
            update = _UPDATES.get(event.__class__)
            if update is not None:
                update(self, event)

    def truth(self, claim: Claim) -> bool | None:
        """Return whether a claim is true or false, or None if it is undecided."""
        if isinstance(claim, AtPlace):
            return self._matches(self.place.get(claim.who), claim.place)
        if isinstance(claim, HasThing):
            return self._matches(self.holder_or_spot.get(claim.thing), claim.who)
        if isinstance(claim, AtSpot):
            return self._matches(self.holder_or_spot.get(claim.thing), claim.spot)
        if isinstance(claim, IsIntact):
            return self.is_intact.get(claim.thing)
        if isinstance(claim, InDirection):
            return self._in_direction(claim)
        count = self.stock.get((claim.who, claim.goods))
        if count is None:
            has_more = self.minimum_stock.get((claim.who, claim.goods), 0) > claim.number
            return isinstance(claim, HasMore) if has_more else None
        return count == claim.number if isinstance(claim, HasExactly) else count > claim.number

    @staticmethod
    def _matches(known: object, claimed: object) -> bool | None:
        return None if known is None else known is claimed

    def _in_direction(self, claim: InDirection) -> bool | None:
        """Return whether the straight way to the place has the claimed direction; None without such a way."""
        for direction in OPPOSITE:
            place: Place | None = claim.other
            while place is not None:
                place = self.neighbors.get((place, direction))
                if place is claim.place:
                    return direction == claim.direction
        return None


def _thing_at(knowledge: ReaderKnowledge, event: e.ThingAt) -> None:
    knowledge.holder_or_spot[event.thing] = event.spot


def _went(knowledge: ReaderKnowledge, event: e.Go) -> None:
    for who in event.who.members:
        knowledge.place[who] = event.place


def _met(knowledge: ReaderKnowledge, event: e.Meet) -> None:
    knowledge.place[event.who] = knowledge.place[event.whom] = event.place


def _took(knowledge: ReaderKnowledge, event: e.Take | e.Find) -> None:
    knowledge.holder_or_spot[event.thing] = event.who
    knowledge.place[event.who] = event.spot.place


def _put(knowledge: ReaderKnowledge, event: e.Put | e.Lose) -> None:
    knowledge.holder_or_spot[event.thing] = event.spot
    knowledge.place[event.who] = event.spot.place


def _gave(knowledge: ReaderKnowledge, event: e.Give | e.Return) -> None:
    knowledge.holder_or_spot[event.thing] = event.whom
    knowledge.placed_by_others |= {event.who, event.whom}


def _sought(knowledge: ReaderKnowledge, event: e.Seek) -> None:
    knowledge.place[event.who] = event.spot.place
    knowledge.missing.add(event.thing)


def _missed(knowledge: ReaderKnowledge, event: e.Miss) -> None:
    knowledge.missing.add(event.thing)


def _bought(knowledge: ReaderKnowledge, event: e.Buy) -> None:
    knowledge.holder_or_spot[event.thing] = event.who
    knowledge.placed_by_others |= {event.who, event.whom}


def _has_goods(knowledge: ReaderKnowledge, event: e.HasGoods) -> None:
    knowledge.stock[event.who, event.goods] = event.number


def _add_stock(knowledge: ReaderKnowledge, who: Person, goods: Goods, count: int) -> None:
    if (who, goods) in knowledge.stock:
        knowledge.stock[who, goods] += count
    else:
        knowledge.minimum_stock[who, goods] = max(0, knowledge.minimum_stock.get((who, goods), 0) + count)


def _bought_goods(knowledge: ReaderKnowledge, event: e.BuyGoods) -> None:
    _add_stock(knowledge, event.who, event.goods, event.number)
    _add_stock(knowledge, event.whom, event.goods, -event.number)
    knowledge.placed_by_others |= {event.who, event.whom}


def _used(knowledge: ReaderKnowledge, event: e.UseGoods) -> None:
    _add_stock(knowledge, event.who, event.goods, -event.number)


def _shared(knowledge: ReaderKnowledge, event: e.ShareGoods) -> None:
    _add_stock(knowledge, event.who, event.goods, -event.number)
    _add_stock(knowledge, event.whom, event.goods, event.number)
    knowledge.placed_by_others |= {event.who, event.whom}


def _broke(knowledge: ReaderKnowledge, event: e.Break) -> None:
    knowledge.is_intact[event.thing] = False
    knowledge.placed_by_others |= set(event.who.members)


def _repaired(knowledge: ReaderKnowledge, event: e.Repair) -> None:
    knowledge.is_intact[event.thing] = True
    knowledge.placed_by_others |= set(event.who.members)


def _has_stall(knowledge: ReaderKnowledge, event: e.HasStall) -> None:
    knowledge.placed_by_others.add(event.who)  # a seller is assumed to be among customers


def _talked(knowledge: ReaderKnowledge, event: e.Tell | e.Ask) -> None:
    knowledge.placed_by_others |= {event.who, event.whom}
    if isinstance(event, e.Ask):
        knowledge.missing.add(event.thing)


def _near(knowledge: ReaderKnowledge, event: e.Near) -> None:
    knowledge.neighbors[event.other, event.direction] = event.place
    knowledge.neighbors[event.place, OPPOSITE[event.direction]] = event.other


_UPDATES: dict[type, Callable[[ReaderKnowledge, Any], None]] = {
    e.ThingAt: _thing_at,
    e.Go: _went,
    e.Meet: _met,
    e.Take: _took,
    e.Find: _took,
    e.Put: _put,
    e.Lose: _put,
    e.Give: _gave,
    e.Return: _gave,
    e.Seek: _sought,
    e.Miss: _missed,
    e.Buy: _bought,
    e.BuyGoods: _bought_goods,
    e.HasGoods: _has_goods,
    e.UseGoods: _used,
    e.ShareGoods: _shared,
    e.Break: _broke,
    e.Repair: _repaired,
    e.HasStall: _has_stall,
    e.Tell: _talked,
    e.Ask: _talked,
    e.Near: _near,
}

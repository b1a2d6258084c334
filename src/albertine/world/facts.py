"""What a reader of some events knows in the end, and which claims about it are true, false or open.

Only what was read counts: who was not seen to go anywhere may be anywhere, and who
owns a thing need not carry it. A claim about that is open (None), neither true nor
false.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from albertine.world import events as e
from albertine.world.cast import Fixture, Goods, Person, Place, Spot, Thing


class AtPlace(NamedTuple):
    """Someone is at a place."""

    who: Person
    place: Place


class HasThing(NamedTuple):
    """Someone has a thing."""

    who: Person
    thing: Thing


class LiesAt(NamedTuple):
    """A thing lies somewhere."""

    thing: Thing
    spot: Spot


class HasLeft(NamedTuple):
    """Someone has so many of some goods."""

    who: Person
    number: int
    goods: Goods


class HasMore(NamedTuple):
    """Someone has more than so many of some goods."""

    who: Person
    number: int
    goods: Goods


class IsWhole(NamedTuple):
    """Something is not broken."""

    thing: Fixture


class InDirection(NamedTuple):
    """A place is in some direction of another."""

    place: Place
    direction: str
    other: Place


Claim = AtPlace | HasThing | LiesAt | HasLeft | HasMore | IsWhole | InDirection

OPPOSITE = {"north": "south", "east": "west", "south": "north", "west": "east"}


class Reader:
    """Someone who has read some events, and knows nothing else.

    What is kept back (`Hidden`) is not read; what comes out later (`Reveal`, `Tell`)
    is about before, and changes nothing of how things stand.
    """

    def __init__(self, events: Iterable[e.Event]):
        self.place: dict[Person, Place] = {}
        self.has: dict[Thing, Person | Spot] = {}
        self.stock: dict[tuple[Person, Goods], int] = {}
        self.least: dict[tuple[Person, Goods], int] = {}  # where it is not known: how many there are at least
        self.whole: dict[Fixture, bool] = {}
        self.beside: dict[tuple[Place, str], Place] = {}  # what stands next in a direction
        self.together: set[Person] = set()  # who has been with someone else, and so is about where they are
        self.sought: set[Thing] = set()  # things that are not where they were thought to be
        for event in events:
            read = _READ.get(event.__class__)
            if read is not None:
                read(self, event)

    def truth(self, claim: Claim) -> bool | None:
        """Tell whether a claim is true, false, or open."""
        if isinstance(claim, AtPlace):
            return self._same(self.place.get(claim.who), claim.place)
        if isinstance(claim, HasThing):
            return self._same(self.has.get(claim.thing), claim.who)
        if isinstance(claim, LiesAt):
            return self._same(self.has.get(claim.thing), claim.spot)
        if isinstance(claim, IsWhole):
            return self.whole.get(claim.thing)
        if isinstance(claim, InDirection):
            return self._in_direction(claim)
        left = self.stock.get((claim.who, claim.goods))
        if left is None:
            enough = self.least.get((claim.who, claim.goods), 0) > claim.number
            return isinstance(claim, HasMore) if enough else None
        return left == claim.number if isinstance(claim, HasLeft) else left > claim.number

    @staticmethod
    def _same(known: object, claimed: object) -> bool | None:
        return None if known is None else known is claimed

    def _in_direction(self, claim: InDirection) -> bool | None:
        """Tell by walking straight from one place; open where no straight way was told of."""
        for direction in OPPOSITE:
            at: Place | None = claim.other
            while at is not None:
                at = self.beside.get((at, direction))
                if at is claim.place:
                    return direction == claim.direction
        return None


def _lies(reader: Reader, event: e.Lies) -> None:
    reader.has[event.thing] = event.spot


def _went(reader: Reader, event: e.Go) -> None:
    for who in event.who.members:
        reader.place[who] = event.place


def _met(reader: Reader, event: e.Meet) -> None:
    reader.place[event.who] = reader.place[event.whom] = event.place


def _took(reader: Reader, event: e.Take | e.Find) -> None:
    reader.has[event.thing] = event.who
    reader.place[event.who] = event.spot.place


def _put(reader: Reader, event: e.Put | e.Lose) -> None:
    reader.has[event.thing] = event.spot
    reader.place[event.who] = event.spot.place


def _gave(reader: Reader, event: e.Give | e.Return) -> None:
    reader.has[event.thing] = event.whom
    reader.together |= {event.who, event.whom}


def _sought(reader: Reader, event: e.Seek) -> None:
    reader.place[event.who] = event.spot.place
    reader.sought.add(event.thing)


def _missed(reader: Reader, event: e.Miss) -> None:
    reader.sought.add(event.thing)


def _bought(reader: Reader, event: e.Buy) -> None:
    reader.has[event.thing] = event.who
    reader.together |= {event.who, event.whom}


def _has(reader: Reader, event: e.Has) -> None:
    reader.stock[event.who, event.goods] = event.number


def _more(reader: Reader, who: Person, goods: Goods, count: int) -> None:
    if (who, goods) in reader.stock:
        reader.stock[who, goods] += count
    else:
        reader.least[who, goods] = max(0, reader.least.get((who, goods), 0) + count)


def _bought_goods(reader: Reader, event: e.BuyGoods) -> None:
    _more(reader, event.who, event.goods, event.number)
    _more(reader, event.whom, event.goods, -event.number)
    reader.together |= {event.who, event.whom}


def _used(reader: Reader, event: e.Use) -> None:
    _more(reader, event.who, event.goods, -event.number)


def _shared(reader: Reader, event: e.Share) -> None:
    _more(reader, event.who, event.goods, -event.number)
    _more(reader, event.whom, event.goods, event.number)
    reader.together |= {event.who, event.whom}


def _broke(reader: Reader, event: e.Break) -> None:
    reader.whole[event.thing] = False


def _mended(reader: Reader, event: e.Mend) -> None:
    reader.whole[event.thing] = True


def _has_stall(reader: Reader, event: e.HasStall) -> None:
    reader.together.add(event.who)  # near it, presumably


def _told(reader: Reader, event: e.Tell | e.Ask) -> None:
    reader.together |= {event.who, event.whom}
    if isinstance(event, e.Ask):
        reader.sought.add(event.thing)


def _stands(reader: Reader, event: e.Near) -> None:
    reader.beside[event.other, event.direction] = event.place
    reader.beside[event.place, OPPOSITE[event.direction]] = event.other


_READ: dict[type, Callable[[Reader, Any], None]] = {
    e.Lies: _lies,
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
    e.Has: _has,
    e.Use: _used,
    e.Share: _shared,
    e.Break: _broke,
    e.Mend: _mended,
    e.HasStall: _has_stall,
    e.Tell: _told,
    e.Ask: _told,
    e.Near: _stands,
}

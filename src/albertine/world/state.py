"""The state of the world: the locations of persons and things, their owners, and the stocks of goods.

`WorldState.apply` raises an error for an impossible event, such as taking a thing from an
empty spot or giving away a thing that the giver does not hold. So a wrong plan fails when
its story is generated, and never becomes text.
"""

from collections.abc import Callable
from typing import Any

from albertine.world import events as e
from albertine.world.cast import Fixture, Goods, Person, Place, Spot, Thing


class ImpossibleEventError(Exception):
    """An event contradicts the state of the world, which is a bug in a genre."""


class WorldState:
    """The state of the world at one moment of a story."""

    __slots__ = ("broken", "holder_or_spot", "location", "owner", "stock")

    def __init__(self) -> None:
        self.location: dict[Person, Place] = {}  # only of persons whose place is known
        self.holder_or_spot: dict[Thing, Person | Spot] = {}  # the person or spot that has each thing
        self.owner: dict[Thing, Person] = {}
        self.stock: dict[tuple[Person, Goods], int] = {}  # how many goods each person has, if known
        self.broken: set[Fixture] = set()

    def apply(self, event: e.Event) -> None:
        """Update the state; raise ImpossibleEventError if the event cannot happen now."""
        transition = _TRANSITIONS.get(event.__class__)
        if transition is not None:
            transition(self, event)


def _require(possible: bool, event: e.Event) -> None:
    if not possible:
        raise ImpossibleEventError(event)


def _thing_at(state: WorldState, event: e.ThingAt) -> None:
    state.holder_or_spot[event.thing] = event.spot


def _owns(state: WorldState, event: e.Owns) -> None:
    state.holder_or_spot[event.thing] = state.owner[event.thing] = event.who


def _has_goods(state: WorldState, event: e.HasGoods) -> None:
    state.stock[event.who, event.goods] = event.number


def _has_stall(state: WorldState, event: e.HasStall) -> None:
    state.location[event.who] = event.place


def _go(state: WorldState, event: e.Go) -> None:
    who, place = event
    for member in who.members:
        _require(state.location.get(member) is not place, event)
        state.location[member] = place


def _meet(state: WorldState, event: e.Meet) -> None:
    _require(state.location.get(event.who) is event.place, event)
    state.location[event.whom] = event.place


def _take(state: WorldState, event: e.Take | e.Find) -> None:
    who, thing, spot = event
    _require(state.holder_or_spot.get(thing) is spot and state.location.get(who) is spot.place, event)
    state.holder_or_spot[thing] = who


def _put(state: WorldState, event: e.Put | e.Lose) -> None:
    who, thing, spot = event
    _require(state.holder_or_spot.get(thing) is who and state.location.get(who) is spot.place, event)
    state.holder_or_spot[thing] = spot


def _give(state: WorldState, event: e.Give | e.Return) -> None:
    who, thing, whom = event
    _require(
        state.holder_or_spot.get(thing) is who and state.location.get(who) is state.location.get(whom), event
    )
    _require(event.__class__ is e.Give or state.owner.get(thing) is whom, event)
    state.holder_or_spot[thing] = whom


def _seek(state: WorldState, event: e.Seek) -> None:
    who, thing, spot = event
    _require(state.holder_or_spot.get(thing) is not spot and state.location.get(who) is spot.place, event)


def _buy(state: WorldState, event: e.Buy) -> None:
    who, thing, _, whom = event
    _require(
        state.holder_or_spot.get(thing) is whom and state.location.get(who) is state.location.get(whom), event
    )
    state.holder_or_spot[thing] = state.owner[thing] = who


def _buy_goods(state: WorldState, event: e.BuyGoods) -> None:
    who, count, goods, _, whom = event
    _require(state.location.get(who) is state.location.get(whom), event)
    stock = state.stock
    if (whom, goods) in stock:  # a seller whose stock is unknown has enough
        _require(stock[whom, goods] >= count, event)
        stock[whom, goods] -= count
    stock[who, goods] = stock.get((who, goods), 0) + count


def _use_goods(state: WorldState, event: e.UseGoods) -> None:
    who, count, goods = event
    _require(state.stock.get((who, goods), 0) >= count, event)
    state.stock[who, goods] -= count


def _share_goods(state: WorldState, event: e.ShareGoods) -> None:
    who, count, goods, whom = event
    stock = state.stock
    _require(
        stock.get((who, goods), 0) >= count and state.location.get(who) is state.location.get(whom), event
    )
    stock[who, goods] -= count
    stock[whom, goods] = stock.get((whom, goods), 0) + count


def _break(state: WorldState, event: e.Break) -> None:
    _require(event.thing not in state.broken, event)
    _require(state.location.get(event.who) is event.thing.place, event)
    state.broken.add(event.thing)


def _repair(state: WorldState, event: e.Repair) -> None:
    _require(event.thing in state.broken, event)
    _require(state.location.get(event.who) is event.thing.place, event)
    state.broken.discard(event.thing)


def _hidden(state: WorldState, event: e.Hidden) -> None:
    state.apply(event.what)


_TRANSITIONS: dict[type, Callable[[WorldState, Any], None]] = {
    e.ThingAt: _thing_at,
    e.Owns: _owns,
    e.HasGoods: _has_goods,
    e.HasStall: _has_stall,
    e.Go: _go,
    e.Meet: _meet,
    e.Take: _take,
    e.Find: _take,
    e.Put: _put,
    e.Lose: _put,
    e.Give: _give,
    e.Return: _give,
    e.Seek: _seek,
    e.Buy: _buy,
    e.BuyGoods: _buy_goods,
    e.UseGoods: _use_goods,
    e.ShareGoods: _share_goods,
    e.Break: _break,
    e.Repair: _repair,
    e.Hidden: _hidden,
}

"""How the world stands: where everybody and everything is, who owns what, how much is left.

`State.after` takes an event and refuses what cannot be: nobody takes a thing from
where it is not, or gives away what they do not hold. So a story that was planned
wrongly fails when it is made, and is never told.
"""

from collections.abc import Callable
from typing import Any

from albertine.world import events as e
from albertine.world.cast import Fixture, Goods, Person, Place, Spot, Thing


class ImpossibleError(Exception):
    """An event that contradicts the world as it stands: a defect in a genre."""


class State:
    """The world at one moment of a story."""

    __slots__ = ("at", "broken", "owner", "stock", "where")

    def __init__(self) -> None:
        self.at: dict[Person, Place] = {}  # where a person is
        self.where: dict[Thing, Person | Spot] = {}  # who has a thing, or where it lies
        self.owner: dict[Thing, Person] = {}  # whose a thing is, whoever has it
        self.stock: dict[tuple[Person, Goods], int] = {}  # how many of some goods a person has
        self.broken: set[Fixture] = set()

    def after(self, event: e.Event) -> None:
        """Change as the event says."""
        change = _CHANGES.get(event.__class__)
        if change is not None:
            change(self, event)


def _need(possible: bool, event: e.Event) -> None:
    if not possible:
        raise ImpossibleError(event)


def _lies(state: State, event: e.Lies) -> None:
    state.where[event.thing] = event.spot


def _owns(state: State, event: e.Owns) -> None:
    state.where[event.thing] = state.owner[event.thing] = event.who


def _has(state: State, event: e.Has) -> None:
    state.stock[event.who, event.goods] = event.number


def _has_stall(state: State, event: e.HasStall) -> None:
    state.at[event.who] = event.place


def _go(state: State, event: e.Go) -> None:
    who, place = event
    for member in who.members:
        _need(state.at.get(member) is not place, event)
        state.at[member] = place


def _meet(state: State, event: e.Meet) -> None:
    _need(state.at.get(event.who) is event.place, event)
    state.at[event.whom] = event.place


def _take(state: State, event: e.Take | e.Find) -> None:
    who, thing, spot = event
    _need(state.where.get(thing) is spot and state.at.get(who) is spot.place, event)
    state.where[thing] = who


def _put(state: State, event: e.Put | e.Lose) -> None:
    who, thing, spot = event
    _need(state.where.get(thing) is who and state.at.get(who) is spot.place, event)
    state.where[thing] = spot


def _give(state: State, event: e.Give | e.Return) -> None:
    who, thing, whom = event
    _need(state.where.get(thing) is who and state.at.get(who) is state.at.get(whom), event)
    _need(event.__class__ is e.Give or state.owner.get(thing) is whom, event)
    state.where[thing] = whom


def _seek(state: State, event: e.Seek) -> None:
    who, thing, spot = event
    _need(state.where.get(thing) is not spot and state.at.get(who) is spot.place, event)


def _buy(state: State, event: e.Buy) -> None:
    who, thing, _, whom = event
    _need(state.where.get(thing) is whom and state.at.get(who) is state.at.get(whom), event)
    state.where[thing] = state.owner[thing] = who


def _buy_goods(state: State, event: e.BuyGoods) -> None:
    who, count, goods, _, whom = event
    _need(state.at.get(who) is state.at.get(whom), event)
    stock = state.stock
    if (whom, goods) in stock:
        _need(stock[whom, goods] >= count, event)
        stock[whom, goods] -= count
    if (who, goods) in stock:
        stock[who, goods] += count
    else:
        stock[who, goods] = count


def _use(state: State, event: e.Use) -> None:
    who, count, goods = event
    _need(state.stock.get((who, goods), 0) >= count, event)
    state.stock[who, goods] -= count


def _share(state: State, event: e.Share) -> None:
    who, count, goods, whom = event
    stock = state.stock
    _need(stock.get((who, goods), 0) >= count and state.at.get(who) is state.at.get(whom), event)
    stock[who, goods] -= count
    if (whom, goods) in stock:
        stock[whom, goods] += count
    else:
        stock[whom, goods] = count


def _break(state: State, event: e.Break) -> None:
    _need(event.thing not in state.broken, event)
    _need(state.at.get(event.who) is event.thing.place, event)
    state.broken.add(event.thing)


def _mend(state: State, event: e.Mend) -> None:
    _need(event.thing in state.broken, event)
    _need(state.at.get(event.who) is event.thing.place, event)
    state.broken.discard(event.thing)


def _hidden(state: State, event: e.Hidden) -> None:
    state.after(event.what)


_CHANGES: dict[type, Callable[[State, Any], None]] = {
    e.Lies: _lies,
    e.Owns: _owns,
    e.Has: _has,
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
    e.Use: _use,
    e.Share: _share,
    e.Break: _break,
    e.Mend: _mend,
    e.Hidden: _hidden,
}

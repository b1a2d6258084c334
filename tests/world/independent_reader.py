"""An independent reader of event logs, which shares no code with the package.

It uses only the names and fields of events. It follows a log event by event, rejects
impossible events and keeps the state, so that tests can look up any answer.
"""

from collections.abc import Sequence
from typing import Any

# The fields of the giver and of the taker.
TRANSFERS = {"Give": ("who", "whom"), "Return": ("who", "whom"), "Buy": ("whom", "who")}


class ReplayedState:
    """The state of the world after the events of a log, which are checked one by one.

    Args:
        log: the events.
        strict: fail at an impossible event.
        owners_hold_at_start: assume that owners hold their things at the start.

    Attributes:
        people: the place of each person.
        things: the holder or spot of each thing.
        stock: the number of goods of each person, if known.
        broken: whether each fixture is broken.
    """

    def __init__(self, log: Sequence[Any], *, strict: bool = True, owners_hold_at_start: bool = True):
        self.people: dict[str, str] = {}
        self.things: dict[str, str] = {}
        self.stock: dict[tuple[str, str], int | None] = {}
        self.broken: dict[str, bool] = {}
        self.strict = strict
        self.owners_hold_at_start = owners_hold_at_start
        for event in log:
            self.apply(event.what if type(event).__name__ == "Hidden" else event)

    def _check(self, condition: bool, event: Any) -> None:
        assert condition or not self.strict, f"impossible: {event}"

    def apply(self, event: Any) -> None:
        name = type(event).__name__
        fields = event._asdict()
        if name == "Go":
            for member in fields["who"].members:
                self._check(self.people.get(member.name) != fields["place"].the, event)
                self.people[member.name] = fields["place"].the
        elif name == "Meet":
            self._check(
                self.people.get(fields["who"].name, fields["place"].the) == fields["place"].the, event
            )
            self.people[fields["who"].name] = self.people[fields["whom"].name] = fields["place"].the
        elif name == "HasStall":
            self.people[fields["who"].name] = fields["place"].the
        elif name == "ThingAt":
            self.things[fields["thing"].name] = str(fields["spot"])
        elif name == "Owns" and self.owners_hold_at_start:
            self.things[fields["thing"].name] = fields["who"].name
        elif name in ("Take", "Find"):
            self._move_to_spot(fields, event)
            self._check(self.things.get(fields["thing"].name) == str(fields["spot"]), event)
            self.things[fields["thing"].name] = fields["who"].name
        elif name in ("Put", "Lose"):
            self._move_to_spot(fields, event)
            self._check(self.things.get(fields["thing"].name) == fields["who"].name, event)
            self.things[fields["thing"].name] = str(fields["spot"])
        elif name == "Seek":
            self._move_to_spot(fields, event)
            self._check(self.things.get(fields["thing"].name) != str(fields["spot"]), event)
        elif name in TRANSFERS:
            giver, taker = (fields[part].name for part in TRANSFERS[name])
            self._check(self.things.get(fields["thing"].name) == giver, event)
            places = self.people.get(giver), self.people.get(taker)
            self._check(None in places or places[0] == places[1], event)
            self.things[fields["thing"].name] = taker
        elif name == "HasGoods":
            self.stock[fields["who"].name, fields["goods"].many] = fields["number"]
        elif name in ("UseGoods", "ShareGoods", "BuyGoods"):
            self._count(name, fields, event)
        elif name in ("Break", "Repair"):
            self._check(self.broken.get(fields["thing"].name, False) is (name == "Repair"), event)
            self.broken[fields["thing"].name] = name == "Break"

    def _move_to_spot(self, fields: dict[str, Any], event: Any) -> None:
        place = fields["spot"].place.the
        self._check(self.people.get(fields["who"].name) == place, event)
        self.people[fields["who"].name] = place

    def _count(self, name: str, fields: dict[str, Any], event: Any) -> None:
        roles = {"UseGoods": ("who", ""), "ShareGoods": ("who", "whom"), "BuyGoods": ("whom", "who")}
        giver, taker = roles[name]
        for role, change in ((giver, -fields["number"]), (taker, fields["number"])):
            if role:
                key = fields[role].name, fields["goods"].many
                count = self.stock.get(key)
                if count is not None:
                    self._check(count + change >= 0, event)
                    self.stock[key] = count + change

"""An independent reader of event logs, which shares no code with the package.

It knows only the names and fields of events. It follows a log event by event, rejects
impossible events and keeps the state, so that tests can look up any answer.
"""

from collections.abc import Sequence
from typing import Any

TRANSFERS = {"Give": ("who", "whom"), "Return": ("who", "whom"), "Buy": ("whom", "who")}


class History:
    """The state of the world after the events of a log.

    Args:
        log: the events.
        strict: fail at an impossible event.
        known_at_start: assume that owners hold their things at the start.
    """

    def __init__(self, log: Sequence[Any], *, strict: bool = True, known_at_start: bool = True):
        self.people: dict[str, str] = {}
        self.things: dict[str, str] = {}
        self.stock: dict[tuple[str, str], int | None] = {}
        self.broken: dict[str, bool] = {}
        self.strict = strict
        self.owners_hold_at_start = known_at_start
        for event in log:
            self.apply(event.what if type(event).__name__ == "Hidden" else event)

    def _check(self, condition: bool, event: Any) -> None:
        assert condition or not self.strict, f"impossible: {event}"

    def apply(self, event: Any) -> None:
        name = type(event).__name__
        f = event._asdict()
        if name == "Go":
            for member in f["who"].members:
                self._check(self.people.get(member.name) != f["place"].the, event)
                self.people[member.name] = f["place"].the
        elif name == "Meet":
            self._check(self.people.get(f["who"].name, f["place"].the) == f["place"].the, event)
            self.people[f["who"].name] = self.people[f["whom"].name] = f["place"].the
        elif name == "HasStall":
            self.people[f["who"].name] = f["place"].the
        elif name == "Lies":
            self.things[f["thing"].name] = str(f["spot"])
        elif name == "Owns" and self.owners_hold_at_start:
            self.things[f["thing"].name] = f["who"].name
        elif name in ("Take", "Find"):
            self._move_to_spot(f, event)
            self._check(self.things.get(f["thing"].name) == str(f["spot"]), event)
            self.things[f["thing"].name] = f["who"].name
        elif name in ("Put", "Lose"):
            self._move_to_spot(f, event)
            self._check(self.things.get(f["thing"].name) == f["who"].name, event)
            self.things[f["thing"].name] = str(f["spot"])
        elif name == "Seek":
            self._move_to_spot(f, event)
            self._check(self.things.get(f["thing"].name) != str(f["spot"]), event)
        elif name in TRANSFERS:
            giver, taker = (f[part].name for part in TRANSFERS[name])
            self._check(self.things.get(f["thing"].name) == giver, event)
            where = self.people.get(giver), self.people.get(taker)
            self._check(None in where or where[0] == where[1], event)
            self.things[f["thing"].name] = taker
        elif name == "Has":
            self.stock[f["who"].name, f["goods"].many] = f["number"]
        elif name in ("UseGoods", "ShareGoods", "BuyGoods"):
            self._count(name, f, event)
        elif name in ("Break", "Mend"):
            self._check(self.broken.get(f["thing"].name, False) is (name == "Mend"), event)
            self.broken[f["thing"].name] = name == "Break"

    def _move_to_spot(self, f: dict[str, Any], event: Any) -> None:
        place = f["spot"].place.the
        self._check(self.people.get(f["who"].name) == place, event)
        self.people[f["who"].name] = place

    def _count(self, name: str, f: dict[str, Any], event: Any) -> None:
        parts = {"UseGoods": ("who", ""), "ShareGoods": ("who", "whom"), "BuyGoods": ("whom", "who")}
        loser, winner = parts[name]
        for part, change in ((loser, -f["number"]), (winner, f["number"])):
            if part:
                key = f[part].name, f["goods"].many
                left = self.stock.get(key)
                if left is not None:
                    self._check(left + change >= 0, event)
                    self.stock[key] = left + change

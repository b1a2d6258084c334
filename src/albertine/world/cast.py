"""Who and what a story is about: persons, things, places, goods.

All of them are compared by identity: two brass keys are two keys. They carry the
words that a language made for them, ready to be put into sentences.
"""

from typing import Final

WOMAN: Final = 0
MAN: Final = 1
SEVERAL: Final = 2


class Place:
    """Where persons can be: a room, a building, a village."""

    __slots__ = ("at", "away", "is_site", "name", "the", "to")

    def __init__(self, name: str, the: str, preposition: str, is_site: bool = True):
        self.name = name
        self.the = the
        self.at = f"{preposition} {the}"
        self.to = f"to {the}"
        self.away = f"from {the}"
        self.is_site = is_site  # a spot in it needs its name: "on the shelf in the kitchen"

    def __repr__(self) -> str:
        return self.the


class Trade:
    """What a person does for a living, and where."""

    __slots__ = ("name", "place", "work")

    def __init__(self, name: str, place: str, work: str):
        self.name, self.place, self.work = name, place, work

    def __repr__(self) -> str:
        return self.name


class Person:
    """Someone in a story; traits and trade stay what they are."""

    __slots__ = ("full_name", "gender", "members", "name", "trade")

    def __init__(self, name: str, family: str, gender: int, trade: Trade | None = None):
        self.name = name
        self.full_name = f"{name} {family}"
        self.gender = gender
        self.trade = trade
        self.members: tuple[Person, ...] = (self,)

    def __repr__(self) -> str:
        return self.name


class PersonGroup(Person):
    """Persons who do something together."""

    __slots__ = ()

    def __init__(self, *members: Person):
        self.name = self.full_name = " and ".join(member.name for member in members)
        self.gender = SEVERAL
        self.trade = None
        self.members = members


class Spot:
    """A piece of furniture or a vessel, in or on which a thing can lie."""

    __slots__ = ("at", "away", "name", "place")

    def __init__(self, name: str, preposition: str, place: Place):
        self.name = name
        self.place = place
        self.at = f"{preposition} the {name}"
        self.away = f"{'out of' if preposition == 'in' else 'from'} the {name}"

    def __repr__(self) -> str:
        return f"{self.at} {self.place.at}"


class Thing:
    """Something that can be carried."""

    __slots__ = ("a", "kind", "name")

    def __init__(self, kind: str, name: str, a: str):
        self.kind, self.name, self.a = kind, name, a

    def __repr__(self) -> str:
        return f"the {self.name}"


class Fixture(Thing):
    """Something that stands where it is, and can break and be mended."""

    __slots__ = ("breaks", "broken", "mends", "place")

    def __init__(self, kind: str, name: str, a: str, place: Place, breaks: str, broken: str, mends: str):
        super().__init__(kind, name, a)
        self.place = place
        self.breaks, self.broken, self.mends = breaks, broken, mends


class Goods:
    """Something that is counted: eggs, candles."""

    __slots__ = ("cheap", "dear", "many", "one", "use")

    def __init__(self, one: str, many: str, cheap: int, dear: int, use: str):
        self.one, self.many, self.cheap, self.dear, self.use = one, many, cheap, dear, use

    def __repr__(self) -> str:
        return self.many

"""The persons, things, places and goods of a story.

They are compared by identity: two brass keys are two different keys. Each object holds
the phrases that name it, ready to be inserted into sentences.
"""

from typing import Final

WOMAN: Final = 0
MAN: Final = 1
SEVERAL: Final = 2


class Place:
    """A place where persons can be: a room, a building or a village.

    Attributes:
        name: the noun alone, such as "mill".
        the: the noun with its article, "the mill".
        at: the place as a location, "at the mill".
        to: the place as a destination, "to the mill".
        away: the place as an origin, "from the mill".
    """

    __slots__ = ("at", "away", "name", "the", "to")

    def __init__(self, name: str, the: str, preposition: str):
        self.name = name
        self.the = the
        self.at = f"{preposition} {the}"
        self.to = f"to {the}"
        self.away = f"from {the}"

    def __repr__(self) -> str:
        return self.the


class Person:
    """A person in a story."""

    __slots__ = ("full_name", "gender", "members", "name")

    def __init__(self, name: str, family: str, gender: int):
        self.name = name
        self.full_name = f"{name} {family}"
        self.gender = gender
        self.members: tuple[Person, ...] = (self,)

    def __repr__(self) -> str:
        return self.name


class PersonGroup(Person):
    """Several persons who act together; has the interface of one person."""

    __slots__ = ()

    def __init__(self, *members: Person):
        self.name = self.full_name = " and ".join(member.name for member in members)
        self.gender = SEVERAL
        self.members = members


class Spot:
    """A piece of furniture or a vessel that can hold a thing."""

    __slots__ = ("at", "away", "name", "place")

    def __init__(self, name: str, preposition: str, place: Place):
        self.name = name
        self.place = place
        self.at = f"{preposition} the {name}"
        self.away = f"{'out of' if preposition == 'in' else 'from'} the {name}"

    def __repr__(self) -> str:
        return f"{self.at} {self.place.at}"


class Thing:
    """A thing that persons can carry."""

    __slots__ = ("a", "kind", "name")

    def __init__(self, kind: str, name: str, a: str):
        self.kind, self.name, self.a = kind, name, a

    def __repr__(self) -> str:
        return f"the {self.name}"


class Fixture(Thing):
    """A thing that nobody can carry, and that can be broken and repaired."""

    __slots__ = ("breaks", "broken", "place", "repairs")

    def __init__(self, kind: str, name: str, a: str, place: Place, breaks: str, broken: str, repairs: str):
        super().__init__(kind, name, a)
        self.place = place
        self.breaks, self.broken, self.repairs = breaks, broken, repairs


class Goods:
    """Goods that are counted, such as eggs or candles."""

    __slots__ = ("highest_price", "lowest_price", "many", "one", "use")

    def __init__(self, one: str, many: str, lowest_price: int, highest_price: int, use: str):
        self.one, self.many = one, many  # the noun in the singular and in the plural
        self.lowest_price, self.highest_price = lowest_price, highest_price  # of one item, in pence
        self.use = use  # the verb for using the goods, such as "eat"

    def __repr__(self) -> str:
        return self.many

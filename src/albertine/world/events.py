"""What can happen: small typed pieces, each a row of who and what took part.

A story is a list of these (its log) before it is words. All that is told and all
that is asked later comes from the log, so every question has a true answer.

`who` is the one who acts, `whom` the other one. The first group are facts, true
from the start; the second change the world; the third only pass through it.
"""

from typing import Final, NamedTuple

from albertine.world.cast import Fixture, Goods, Person, Place, Spot, Thing

# How an event hangs together with the one before it in a log: because of it, in spite of it.
SO: Final = 1
BUT: Final = 2

# --- facts


class Lives(NamedTuple):
    """Someone's home."""

    who: Person
    place: Place


class Works(NamedTuple):
    """Someone has a trade, at a place."""

    who: Person
    trade: str
    place: Place


class HasTrait(NamedTuple):
    """What someone is like, and how it shows."""

    who: Person
    trait: str
    habit: str


class IsKin(NamedTuple):
    """Who someone is to another."""

    who: Person
    relation: str
    whom: Person


class Owns(NamedTuple):
    """Whose a thing is, by its owner having it at hand."""

    who: Person
    thing: Thing


class Lies(NamedTuple):
    """Where a thing is."""

    thing: Thing
    spot: Spot


class Stands(NamedTuple):
    """Where something is that does not move."""

    thing: Fixture
    place: Place


class Has(NamedTuple):
    """How many of some goods someone has."""

    who: Person
    number: int
    goods: Goods


class HasStall(NamedTuple):
    """Where someone sells things, and stands."""

    who: Person
    place: Place


class Keeps(NamedTuple):
    """An animal in the house."""

    who: Person
    animal: str
    name: str


# --- what changes the world


class Go(NamedTuple):
    """Someone goes to a place."""

    who: Person
    place: Place


class Take(NamedTuple):
    """Someone takes a thing from where it lies."""

    who: Person
    thing: Thing
    spot: Spot


class Put(NamedTuple):
    """Someone puts down a thing they hold."""

    who: Person
    thing: Thing
    spot: Spot


class Give(NamedTuple):
    """Someone hands a thing they hold to another, who has it from then on."""

    who: Person
    thing: Thing
    whom: Person


class Return(NamedTuple):
    """Someone gives a thing back to its owner."""

    who: Person
    thing: Thing
    whom: Person


class Lose(NamedTuple):
    """Someone leaves a thing behind without knowing."""

    who: Person
    thing: Thing
    spot: Spot


class Find(NamedTuple):
    """Someone comes upon a thing, and has it."""

    who: Person
    thing: Thing
    spot: Spot


class Buy(NamedTuple):
    """Someone buys a thing, which is theirs from then on."""

    who: Person
    thing: Thing
    price: int
    whom: Person


class BuyGoods(NamedTuple):
    """Someone buys so many of some goods."""

    who: Person
    number: int
    goods: Goods
    price: int
    whom: Person


class UseGoods(NamedTuple):
    """Someone eats or uses up so many of their goods."""

    who: Person
    number: int
    goods: Goods


class ShareGoods(NamedTuple):
    """Someone gives so many of their goods to another."""

    who: Person
    number: int
    goods: Goods
    whom: Person


class Break(NamedTuple):
    """Someone breaks something."""

    who: Person
    thing: Fixture


class Mend(NamedTuple):
    """Someone mends what was broken."""

    who: Person
    thing: Fixture


# --- what leaves the world as it is


class Feel(NamedTuple):
    """How someone feels about what just happened."""

    who: Person
    mood: str


class Seek(NamedTuple):
    """Someone looks for a thing where it is not."""

    who: Person
    thing: Thing
    spot: Spot


class Miss(NamedTuple):
    """Someone notices that a thing is gone."""

    who: Person
    thing: Thing


class Meet(NamedTuple):
    """Someone comes upon another."""

    who: Person
    whom: Person
    place: Place


class Ask(NamedTuple):
    """Someone asks another whether they have seen a thing; they have not."""

    who: Person
    whom: Person
    thing: Thing


class Tell(NamedTuple):
    """Someone tells another of something that happened before."""

    who: Person
    whom: Person
    what: "Event"


class PlanErrand(NamedTuple):
    """Why someone will go to a place."""

    who: Person
    errand: str
    place: Place


class Want(NamedTuple):
    """Someone wishes for a thing."""

    who: Person
    thing: Thing


class Chore(NamedTuple):
    """Someone is busy with what leaves no trace."""

    who: Person
    chore: str


class AnimalAct(NamedTuple):
    """An animal does what it does."""

    name: str
    chore: str


class Sight(NamedTuple):
    """Something is seen or heard."""

    what: str


class Letter(NamedTuple):
    """Someone writes to another from a place; what follows is the letter."""

    who: Person
    whom: Person
    place: Place


class Aside(NamedTuple):
    """The writer of a letter turns to its reader."""

    what: str


class WeatherChange(NamedTuple):
    """The weather changes."""

    what: str


class TimeOfDay(NamedTuple):
    """It gets later; told before what happens next."""

    part: str
    phrase: str


class Remark(NamedTuple):
    """Someone says a word."""

    who: Person
    what: str


# --- how a story may keep something back


class Hidden(NamedTuple):
    """An event that happens here, but is not told yet."""

    what: "Event"


class Reveal(NamedTuple):
    """The telling of a hidden event, later."""

    what: "Event"


# --- a place and what is there


class VillageSite(NamedTuple):
    """Where a village lies."""

    place: Place
    river: str
    hill: str


class Near(NamedTuple):
    """A building stands in some direction of another."""

    place: Place
    direction: str
    other: Place


class BuiltOf(NamedTuple):
    """What a building is made of."""

    place: Place
    material: str


class HasOrnament(NamedTuple):
    """What a building has that others have not."""

    place: Place
    ornament: str


class RunsPlace(NamedTuple):
    """Who works in a building."""

    who: Person
    trade: str
    place: Place


class CountAtPlace(NamedTuple):
    """How many of something there are at a place."""

    place: Place
    number: int
    what: str


# fmt: off
Event = (
    Lives | Works | HasTrait | IsKin | Owns | Lies | Stands | Has | HasStall | Keeps
    | Go | Take | Put | Give | Return | Lose | Find | Buy | BuyGoods | UseGoods | ShareGoods | Break | Mend
    | Feel | Seek | Miss | Meet | Ask | Tell | PlanErrand | Want | Chore | AnimalAct | Sight | WeatherChange | TimeOfDay
    | Remark | Letter | Aside | Hidden | Reveal
    | VillageSite | Near | BuiltOf | HasOrnament | RunsPlace | CountAtPlace
)
# fmt: on

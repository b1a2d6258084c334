"""The events of a story: small named tuples of the persons and things that take part.

A story is a list of events (its log) before it is text. The text, the questions and the
gold answers all come from the log, so every question has a true answer.

`who` is the person who acts, `whom` the other person. Some events are facts, which are
true from the start; others change the state of the world or leave it unchanged.
"""

from typing import Final, NamedTuple

from albertine.world.cast import Fixture, Goods, Person, Place, Spot, Thing

# The link of an event to the event before it; 0 is no link.
SO: Final = 1  # a consequence
BUT: Final = 2  # a contrast

# --- facts


class Lives(NamedTuple):
    """A person lives in a place."""

    who: Person
    place: Place


class Works(NamedTuple):
    """A person works in a trade at a place."""

    who: Person
    trade: str
    place: Place


class HasTrait(NamedTuple):
    """A person has a trait, and a habit that shows it."""

    who: Person
    trait: str
    habit: str


class HasRelation(NamedTuple):
    """A person is a relative, neighbour or the like of another."""

    who: Person
    relation: str
    whom: Person


class Owns(NamedTuple):
    """A person owns a thing and holds it."""

    who: Person
    thing: Thing


class ThingAt(NamedTuple):
    """A thing is at a spot."""

    thing: Thing
    spot: Spot


class FixtureAt(NamedTuple):
    """A fixture is in a place."""

    thing: Fixture
    place: Place


class HasGoods(NamedTuple):
    """A person has a number of goods."""

    who: Person
    number: int
    goods: Goods


class HasStall(NamedTuple):
    """A person has a market stall at a place, and is there."""

    who: Person
    place: Place


class Keeps(NamedTuple):
    """A person keeps an animal."""

    who: Person
    animal: str
    name: str


# --- events that change the state


class Go(NamedTuple):
    """A person goes to a place."""

    who: Person
    place: Place


class Take(NamedTuple):
    """A person takes a thing from the spot where it is."""

    who: Person
    thing: Thing
    spot: Spot


class Put(NamedTuple):
    """A person puts a thing that they hold on a spot."""

    who: Person
    thing: Thing
    spot: Spot


class Give(NamedTuple):
    """A person gives a thing that they hold to another."""

    who: Person
    thing: Thing
    whom: Person


class Return(NamedTuple):
    """A person gives a thing back to its owner."""

    who: Person
    thing: Thing
    whom: Person


class Lose(NamedTuple):
    """A person leaves a thing behind without noticing."""

    who: Person
    thing: Thing
    spot: Spot


class Find(NamedTuple):
    """A person finds a thing and takes it."""

    who: Person
    thing: Thing
    spot: Spot


class Buy(NamedTuple):
    """A person buys a thing from another and owns it from then on."""

    who: Person
    thing: Thing
    price: int
    whom: Person


class BuyGoods(NamedTuple):
    """A person buys a number of goods from another."""

    who: Person
    number: int
    goods: Goods
    price: int
    whom: Person


class UseGoods(NamedTuple):
    """A person eats or uses up a number of their goods."""

    who: Person
    number: int
    goods: Goods


class ShareGoods(NamedTuple):
    """A person gives a number of their goods to another."""

    who: Person
    number: int
    goods: Goods
    whom: Person


class Break(NamedTuple):
    """A person breaks a fixture."""

    who: Person
    thing: Fixture


class Repair(NamedTuple):
    """A person repairs a broken fixture."""

    who: Person
    thing: Fixture


# --- events that leave the state unchanged, except that Meet sets the location of `whom`


class Feel(NamedTuple):
    """A person is in a mood because of the event before."""

    who: Person
    mood: str


class Seek(NamedTuple):
    """A person looks for a thing at a spot where it is not."""

    who: Person
    thing: Thing
    spot: Spot


class Miss(NamedTuple):
    """A person notices that a thing is gone."""

    who: Person
    thing: Thing


class Meet(NamedTuple):
    """A person meets another at a place."""

    who: Person
    whom: Person
    place: Place


class Ask(NamedTuple):
    """A person asks another about a thing that the other has not seen."""

    who: Person
    whom: Person
    thing: Thing


class Tell(NamedTuple):
    """A person tells another about an earlier event."""

    who: Person
    whom: Person
    what: "Event"


class PlanErrand(NamedTuple):
    """A person plans to go to a place for an errand."""

    who: Person
    errand: str
    place: Place


class Want(NamedTuple):
    """A person wants a thing."""

    who: Person
    thing: Thing


class Chore(NamedTuple):
    """A person does a chore that changes nothing."""

    who: Person
    chore: str


class Sight(NamedTuple):
    """Something is seen or heard."""

    what: str


class Letter(NamedTuple):
    """A person writes to another from a place.

    The events up to the next Letter, or to the end, are its content.
    """

    who: Person
    whom: Person
    place: Place


class Aside(NamedTuple):
    """The writer of a letter addresses its recipient."""

    what: str


class WeatherChange(NamedTuple):
    """The weather changes."""

    what: str


class TimeOfDay(NamedTuple):
    """A part of the day begins; `phrase` starts the sentence of the next event."""

    part: str
    phrase: str


class Remark(NamedTuple):
    """A person makes a remark."""

    who: Person
    what: str


# --- events that the text reveals later than they happen


class Hidden(NamedTuple):
    """An event that happens now, but that the text does not mention yet."""

    what: "Event"


class Reveal(NamedTuple):
    """The text reveals a hidden event."""

    what: "Event"


# --- facts about a village


class VillageSite(NamedTuple):
    """A village is between a river and a hill."""

    place: Place
    river: str
    hill: str


class Near(NamedTuple):
    """`place` is next to `other`, to the `direction` (such as north) of `other`."""

    place: Place
    direction: str
    other: Place


class BuiltOf(NamedTuple):
    """A building is made of a material."""

    place: Place
    material: str


class HasOrnament(NamedTuple):
    """A building has an ornament."""

    place: Place
    ornament: str


class HasWorker(NamedTuple):
    """A building has a person who works there."""

    who: Person
    trade: str
    place: Place


class CountAtPlace(NamedTuple):
    """There is a number of something at a place."""

    place: Place
    number: int
    what: str


# fmt: off
Event = (
    Lives | Works | HasTrait | HasRelation | Owns | ThingAt | FixtureAt | HasGoods | HasStall | Keeps
    | Go | Take | Put | Give | Return | Lose | Find | Buy | BuyGoods | UseGoods | ShareGoods | Break | Repair
    | Feel | Seek | Miss | Meet | Ask | Tell | PlanErrand | Want | Chore | Sight | WeatherChange
    | TimeOfDay | Remark | Letter | Aside | Hidden | Reveal
    | VillageSite | Near | BuiltOf | HasOrnament | HasWorker | CountAtPlace
)
# fmt: on

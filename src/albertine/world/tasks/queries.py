"""Questions on a story, each a pattern over its events: a kind of event, what is known of it, what is asked.

An answer is whatever stands in the asked field of the events that fit. A question is
only asked where exactly one answer fits, or, for what cannot be answered, where none
does, nor anything that could be read as an answer.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from albertine.world import events as e
from albertine.world.cast import Fixture, Goods, Person, Place, Spot, Thing
from albertine.world.english import words
from albertine.world.english.asking import sentence
from albertine.world.english.questions import QUESTIONS
from albertine.world.stories import Story

Random = Callable[[], float]


class Query(NamedTuple):
    """A question: which event of this kind has these known fields, and what is in its asked one."""

    model: Any  # an event with the known fields
    asked: str

    @property
    def known(self) -> tuple[str, ...]:
        """Return the fields that the wordings name."""
        return _KNOWN[self.model.__class__, self.asked]

    def fits(self, event: Any) -> bool:
        """Tell whether an event is one that is asked about."""
        if event.__class__ is not self.model.__class__:
            return False
        return all(_alike(getattr(event, name), getattr(self.model, name)) for name in self.known)

    def wording(self, choice: float) -> str:
        """Put the question; `choice`, from 0 up to 1, picks how."""
        texts = QUESTIONS[self.model.__class__][self.asked]
        return sentence(texts[int(choice * len(texts))], self.model)

    def wordings(self) -> list[str]:
        """Put the question in every way."""
        return [sentence(text, self.model) for text in QUESTIONS[self.model.__class__][self.asked]]


def _alike(one: object, other: object) -> bool:
    return one is other or (isinstance(one, (str, int)) and one == other)


def _known(kind: Any, texts: Sequence[str], asked: str) -> tuple[str, ...]:
    """Return the fields that any wording of a question names."""
    return tuple(
        name
        for name in kind._fields
        if name != asked and any(f"{{{name}" in text or f"{{a {name}" in text for text in texts)
    ) + (("thing",) if any("{thing.place}" in text for text in texts) and asked == "thing" else ())


_KNOWN = {
    (kind, asked): _known(kind, texts, asked)
    for kind, asks in QUESTIONS.items()
    for asked, texts in asks.items()
}
# Kinds of events that a question about one of them could be taken to mean.
_ALIKE: tuple[frozenset[type], ...] = (
    frozenset((e.Take, e.Find)),
    frozenset((e.Put, e.Lose)),
    frozenset((e.Give, e.Return, e.Share, e.Buy, e.BuyGoods)),
    frozenset((e.Has, e.Share, e.BuyGoods, e.Use)),
    frozenset((e.Lives, e.HasStall)),
)
# And kinds that tell something of the same all the same.
_BEARING = (*_ALIKE, frozenset((e.Lies, e.Take, e.Find, e.Put, e.Lose)), frozenset((e.Works, e.HasStall)))


def happenings(story: Story) -> list[Any]:
    """Return all that happened, what came out late too."""
    return [event.what if isinstance(event, e.Hidden) else event for event in story.log]


def queries(story: Story) -> list[Query]:
    """Return every question on a story that has exactly one answer."""
    events = happenings(story)
    found: list[Query] = []
    for event in dict.fromkeys(events):
        for asked in QUESTIONS.get(event.__class__, ()):
            query = Query(event, asked)
            if asked in ("number", "price") and sum(map(query.fits, events)) > 1:
                continue  # the numbers would have to be added up
            others = (other for other in events if not query.fits(other))
            if len(answers(query, events)) == 1 and not any(
                _may_mean(query, other, _ALIKE) for other in others
            ):
                found.append(query)
    return found


def answers(query: Query, events: Sequence[Any]) -> list[Any]:
    """Return the different answers that a question has in some events."""
    found: list[Any] = []
    for event in events:
        if query.fits(event) and not any(_alike(getattr(event, query.asked), value) for value in found):
            found.append(getattr(event, query.asked))
    return found


def changed(event: Any, story: Story, random: Random, keep: str = "") -> Any:
    """Return an event like one that happened: persons swapped, or one person or thing another."""
    fields: list[str] = [name for name in event._fields if name != keep]
    turned = swapped(event)
    if not keep and turned is not None and random() < 0.5:
        return turned
    choices = [(name, value) for name in fields for value in _others(getattr(event, name), event, story)]
    if not choices:
        return None
    name, value = choices[int(random() * len(choices))]
    return event._replace(**{name: value})


def swapped(event: Any) -> Any:
    """Return an event with its two persons in each other's part; None if that is not another event."""
    names = [name for name in event._fields if isinstance(getattr(event, name), Person)]
    if len(names) != 2 or isinstance(event, e.Meet):
        return None
    one, two = names
    return event._replace(**{one: getattr(event, two), two: getattr(event, one)})


def _others(value: object, event: Any, story: Story) -> list[Any]:
    """Return what else of the same sort a story speaks of."""
    pool: list[Any]
    if isinstance(value, Fixture):
        return []
    if isinstance(value, Person):
        pool = [who for who in spoken_of(story, Person) if len(who.members) == 1]
    elif isinstance(value, Thing):
        pool = [thing for thing in spoken_of(story, Thing) if not isinstance(thing, Fixture)]
    elif isinstance(value, Place):
        pool = [place for place in spoken_of(story, Place) if words.sort_of(place) == words.sort_of(value)]
    elif isinstance(value, (Spot, Goods)):
        pool = spoken_of(story, value.__class__)
    else:
        return []
    return [other for other in pool if other is not value and other not in event]


def spoken_of(story: Story, kind: type) -> list[Any]:
    """Return everyone or everything of a sort that occurs in a story."""
    found: dict[Any, None] = {}
    for event in happenings(story):
        for value in event:
            for each in value.members if isinstance(value, Person) else (value,):
                if isinstance(each, kind):
                    found[each] = None
    return list(found)


def unanswerable(story: Story, random: Random) -> tuple[Query, Query] | None:
    """Return a question that nothing in a story answers, and the answerable one that it was made from."""
    possible = queries(story)
    if not possible:
        return None
    query = possible[int(random() * len(possible))]
    asked = unanswered(query, story, random)
    return asked and (asked, query)


def unanswered(query: Query, story: Story, random: Random) -> Query | None:
    """Return a question like an answerable one, which nothing in the story answers; None where that fails."""
    turned = swapped(query.model)
    other = (
        turned
        if turned is not None and random() < 0.8
        else changed(query.model, story, random, keep=query.asked)
    )
    if other is None or other.__class__ in _NEVER_OPEN:
        return None
    if all(getattr(other, name) == getattr(query.model, name) for name in query.known):
        return None
    asked = Query(other, query.asked)
    return None if any(could_answer(asked, event) for event in happenings(story)) else asked


# What these say of one says something of others too: who lives together, who stands by at a meeting.
_NEVER_OPEN = frozenset((e.Near, e.Run, e.Stands, e.Lies, e.Has, e.Lives, e.Meet))


def could_answer(query: Query, event: Any) -> bool:
    """Tell whether an event, read with good will, bears on a question: it or its kin, between the same."""
    return query.fits(event) or _may_mean(query, event, _BEARING)


def _may_mean(query: Query, event: Any, kindred: tuple[frozenset[type], ...]) -> bool:
    """Tell whether an event of a kindred kind is between those that a question names."""
    kind = query.model.__class__
    if event.__class__ is kind and kind is not e.Meet:
        return False  # each in their own part; only a meeting is the same from either side
    if event.__class__ is not kind and not any({kind, event.__class__} <= kin for kin in kindred):
        return False
    named = [getattr(query.model, name) for name in query.known]
    return all(value in event for value in named if isinstance(value, (Person, Thing, Spot, Goods)))

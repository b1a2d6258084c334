"""Queries: questions about a story as patterns over its events.

A query has an event type, known fields and an asked field; its answers are the values of
the asked field in the events that match. An answerable query has exactly one answer. An
unanswerable one has none, and no event that a reader could take for an answer.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from albertine.randomness import UniformRandom
from albertine.world import events as e
from albertine.world.cast import Fixture, Goods, Person, Place, Spot, Thing
from albertine.world.english import words
from albertine.world.english.questions import QUESTIONS
from albertine.world.english.wording import sentence
from albertine.world.stories import Story

# The events that somebody does on purpose.
DEEDS = (e.Take, e.Put, e.Give, e.Return, e.Find, e.Buy, e.BuyGoods, e.ShareGoods, e.Break, e.Mend, e.Meet)


class EventQuery(NamedTuple):
    """A question for one field of the events that agree with a given event in the known fields."""

    event: Any  # supplies the known fields; its other fields are ignored
    asked_field: str

    @property
    def known_fields(self) -> tuple[str, ...]:
        """The fields that the wordings name."""
        return _KNOWN_FIELDS[self.event.__class__, self.asked_field]

    def fits(self, event: Any) -> bool:
        """Return whether an event matches the query."""
        if event.__class__ is not self.event.__class__:
            return False
        return all(_same_value(getattr(event, name), getattr(self.event, name)) for name in self.known_fields)

    def wording(self, choice: float) -> str:
        """Return one wording of the question, chosen by `choice` in [0, 1)."""
        texts = QUESTIONS[self.event.__class__][self.asked_field]
        return sentence(texts[int(choice * len(texts))], self.event)

    def wordings(self) -> list[str]:
        """Return all wordings of the question."""
        return [sentence(text, self.event) for text in QUESTIONS[self.event.__class__][self.asked_field]]


def _same_value(first: object, second: object) -> bool:
    return first is second or (isinstance(first, (str, int)) and first == second)


def _named_fields(event_type: Any, texts: Sequence[str], asked_field: str) -> tuple[str, ...]:
    """Return the fields that at least one wording of a question names."""
    return tuple(
        name
        for name in event_type._fields
        if name != asked_field and any(f"{{{name}" in text or f"{{a {name}" in text for text in texts)
    ) + (("thing",) if any("{thing.place}" in text for text in texts) and asked_field == "thing" else ())


_KNOWN_FIELDS = {
    (event_type, asked_field): _named_fields(event_type, texts, asked_field)
    for event_type, questions in QUESTIONS.items()
    for asked_field, texts in questions.items()
}
# Event types that a question about one of them could also mean.
_INTERCHANGEABLE_EVENTS: tuple[frozenset[type], ...] = (
    frozenset((e.Take, e.Find)),
    frozenset((e.Put, e.Lose)),
    frozenset((e.Give, e.Return, e.ShareGoods, e.Buy, e.BuyGoods)),
    frozenset((e.Has, e.ShareGoods, e.BuyGoods, e.UseGoods)),
    frozenset((e.Lives, e.HasStall)),
)
# Event types that say something about the same facts.
_RELATED_EVENTS = (
    *_INTERCHANGEABLE_EVENTS,
    frozenset((e.Lies, e.Take, e.Find, e.Put, e.Lose)),
    frozenset((e.Works, e.HasStall)),
)


def all_events(story: Story) -> list[Any]:
    """Return all events of a story, with hidden ones unwrapped."""
    return [event.what if isinstance(event, e.Hidden) else event for event in story.log]


def answerable_queries(story: Story) -> list[EventQuery]:
    """Return every query about a story that has exactly one answer."""
    events = all_events(story)
    queries: list[EventQuery] = []
    for event in dict.fromkeys(events):
        for asked_field in QUESTIONS.get(event.__class__, ()):
            query = EventQuery(event, asked_field)
            if asked_field in ("number", "price") and sum(map(query.fits, events)) > 1:
                continue  # the answer would be the sum of the numbers
            others = (other for other in events if not query.fits(other))
            if len(answers(query, events)) == 1 and not any(
                _is_related(query, other, _INTERCHANGEABLE_EVENTS) for other in others
            ):
                queries.append(query)
    return queries


def answers(query: EventQuery, events: Sequence[Any]) -> list[Any]:
    """Return the distinct answers that a query has in some events."""
    found: list[Any] = []
    for event in events:
        if query.fits(event) and not any(
            _same_value(getattr(event, query.asked_field), value) for value in found
        ):
            found.append(getattr(event, query.asked_field))
    return found


def perturbed(event: Any, story: Story, random: UniformRandom, keep: str = "") -> Any:
    """Return a variant of an event: its persons swapped or one field replaced; None if there is none.

    Args:
        event: an event of the story.
        story: supplies the values that replace others.
        random: returns numbers in [0, 1).
        keep: a field to leave unchanged; if it is given, persons are not swapped.
    """
    fields: list[str] = [name for name in event._fields if name != keep]
    swapped_event = with_persons_swapped(event)
    if not keep and swapped_event is not None and random() < 0.5:
        return swapped_event
    choices = [
        (name, value) for name in fields for value in _alternatives(getattr(event, name), event, story)
    ]
    if not choices:
        return None
    name, value = choices[int(random() * len(choices))]
    return event._replace(**{name: value})


def with_persons_swapped(event: Any) -> Any:
    """Return an event with its two persons swapped; None without two persons or for a meeting."""
    names = [name for name in event._fields if isinstance(getattr(event, name), Person)]
    if len(names) != 2 or isinstance(event, e.Meet):
        return None
    first, second = names
    return event._replace(**{first: getattr(event, second), second: getattr(event, first)})


def _alternatives(value: object, event: Any, story: Story) -> list[Any]:
    """Return other values of the same type that occur in a story."""
    pool: list[Any]
    if isinstance(value, Fixture):
        return []
    if isinstance(value, Person):
        pool = [who for who in mentioned(story, Person) if len(who.members) == 1]
    elif isinstance(value, Thing):
        pool = [thing for thing in mentioned(story, Thing) if not isinstance(thing, Fixture)]
    elif isinstance(value, Place):
        pool = [
            place for place in mentioned(story, Place) if words.place_type(place) == words.place_type(value)
        ]
    elif isinstance(value, (Spot, Goods)):
        pool = mentioned(story, value.__class__)
    else:
        return []
    return [other for other in pool if other is not value and other not in event]


def mentioned(story: Story, kind: type) -> list[Any]:
    """Return all values of a type that occur in a story, in order."""
    found: dict[Any, None] = {}
    for event in all_events(story):
        for value in event:
            for single in value.members if isinstance(value, Person) else (value,):
                if isinstance(single, kind):
                    found[single] = None
    return list(found)


def unanswerable_query(story: Story, random: UniformRandom) -> tuple[EventQuery, EventQuery] | None:
    """Return an unanswerable query and the answerable one that it varies; None if that fails."""
    possible = answerable_queries(story)
    if not possible:
        return None
    query = possible[int(random() * len(possible))]
    variant = unanswerable_variant(query, story, random)
    return variant and (variant, query)


def unanswerable_variant(query: EventQuery, story: Story, random: UniformRandom) -> EventQuery | None:
    """Return an unanswerable variant of an answerable query; None if that fails."""
    swapped_event = with_persons_swapped(query.event)
    event = (
        swapped_event
        if swapped_event is not None and random() < 0.8
        else perturbed(query.event, story, random, keep=query.asked_field)
    )
    if event is None or event.__class__ in _NEVER_UNANSWERABLE:
        return None
    if all(getattr(event, name) == getattr(query.event, name) for name in query.known_fields):
        return None
    variant = EventQuery(event, query.asked_field)
    return None if any(could_answer(variant, other) for other in all_events(story)) else variant


# These imply facts about others that the text omits, such as who lives together or attends a meeting.
_NEVER_UNANSWERABLE = frozenset((e.Near, e.RunsPlace, e.Stands, e.Lies, e.Has, e.Lives, e.Meet))


def could_answer(query: EventQuery, event: Any) -> bool:
    """Return whether a reader could take an event, or a related one with the same values, for an answer."""
    return query.fits(event) or _is_related(query, event, _RELATED_EVENTS)


def _is_related(query: EventQuery, event: Any, event_groups: tuple[frozenset[type], ...]) -> bool:
    """Return whether an event of a related type contains all values that a query names."""
    event_type = query.event.__class__
    if event.__class__ is event_type and event_type is not e.Meet:
        return False  # the values have other roles; only a meeting is symmetric
    if event.__class__ is not event_type and not any(
        {event_type, event.__class__} <= group for group in event_groups
    ):
        return False
    named = [getattr(query.event, name) for name in query.known_fields]
    return all(value in event for value in named if isinstance(value, (Person, Thing, Spot, Goods)))

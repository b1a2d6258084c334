"""Queries: questions about a story as patterns over its events.

A query is an event type with known fields and an answer field, such as Take with a known
thing and spot: "Who took the cup from the shelf?" An event matches if it has this type and
the values of the known fields. Its value of the answer field is an answer.

An answerable query has exactly one answer. An unanswerable query has no answer, and the
story has no event that a reader could take for one.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from albertine.randomness import UniformRandom
from albertine.world import events as e
from albertine.world.cast import Fixture, Goods, Person, Place, Spot, Thing
from albertine.world.english import words
from albertine.world.english.questions import QUESTIONS
from albertine.world.english.wording import sentence
from albertine.world.stories import Story

# The actions that RACE's options and the sentences of MRPC and STS-B are about. Stories have others too,
# such as going somewhere.
TASK_ACTIONS = (
    e.Take,
    e.Put,
    e.Give,
    e.Return,
    e.Find,
    e.Buy,
    e.BuyGoods,
    e.ShareGoods,
    e.Break,
    e.Repair,
    e.Meet,
)
# Events of the types in one group can be described by the same question: what somebody found, they also
# took. So a query is answerable only if no event of another type in its group mentions the same people and
# things.
_SAME_QUESTION_GROUPS: tuple[frozenset[type], ...] = (
    frozenset((e.Take, e.Find)),
    frozenset((e.Put, e.Lose)),
    frozenset((e.Give, e.Return, e.ShareGoods, e.Buy, e.BuyGoods)),
    frozenset((e.HasGoods, e.ShareGoods, e.BuyGoods, e.UseGoods)),
    frozenset((e.Lives, e.HasStall)),
)
# From an event of one type in a group, a reader can infer the answer to a question about another: a thing
# that was taken from a shelf was on it. Used only for unanswerable questions, where every event from which
# the answer can be inferred makes the label wrong.
_INFERENCE_GROUPS = (
    *_SAME_QUESTION_GROUPS,
    frozenset((e.ThingAt, e.Take, e.Find, e.Put, e.Lose)),
    frozenset((e.Works, e.HasStall)),
)


def _confusable_types(groups: Sequence[frozenset[type]]) -> dict[type, set[type]]:
    """Return, for each type of event, the other types in its groups.

    The type itself is not among them, because the same people in other roles do not answer a question; except
    for a meeting, which is symmetric.
    """
    return {
        event_type: {e.Meet} & {event_type}
        | {other for group in groups if event_type in group for other in group - {event_type}}
        for event_type in QUESTIONS
    }


_SAME_QUESTION_TYPES = _confusable_types(_SAME_QUESTION_GROUPS)
_INFERENCE_TYPES = _confusable_types(_INFERENCE_GROUPS)

# Types of events that a reader can infer although no sentence states them: the members of a family live
# together, and people who do something together have met. So no query about them is made unanswerable.
_NEVER_UNANSWERABLE = frozenset((e.Near, e.HasWorker, e.FixtureAt, e.ThingAt, e.HasGoods, e.Lives, e.Meet))


class EventQuery(NamedTuple):
    """A question about an event: the known fields are given, the answer field is asked for."""

    event: Any  # gives the event type and the values of the known fields; its other values are ignored
    answer_field: str

    @property
    def known_fields(self) -> tuple[str, ...]:
        """The fields whose values the question mentions."""
        return _KNOWN_FIELDS[self.event.__class__, self.answer_field]

    def matches(self, event: Any) -> bool:
        """Return whether an event matches, so that its value of the answer field is an answer."""
        if event.__class__ is not self.event.__class__:
            return False
        return all(_same_value(getattr(event, name), getattr(self.event, name)) for name in self.known_fields)

    def wording(self, choice: float) -> str:
        """Return one wording of the question, chosen by `choice` in [0, 1)."""
        texts = QUESTIONS[self.event.__class__][self.answer_field]
        return sentence(texts[int(choice * len(texts))], self.event)

    def wordings(self) -> list[str]:
        """Return all wordings of the question."""
        return [sentence(text, self.event) for text in QUESTIONS[self.event.__class__][self.answer_field]]


def _same_value(first: object, second: object) -> bool:
    return first is second or (isinstance(first, (str, int)) and first == second)


def _mentioned_fields(event_type: Any, wordings: Sequence[str], answer_field: str) -> tuple[str, ...]:
    """Return the fields that at least one wording of a question mentions."""
    mentioned = tuple(
        name
        for name in event_type._fields
        if name != answer_field and any(re.search(rf"\{{(a )?{name}\b", wording) for wording in wordings)
    )
    # "What did {who} damage {thing.place}?" mentions a place, which is not a field of Break. The thing is
    # compared instead, with the same result as long as no two fixtures of one place are broken. If two are,
    # a query can wrongly count as unanswerable (docs/decisions/little-world-log.md).
    asks_by_place = answer_field == "thing" and any("{thing.place}" in wording for wording in wordings)
    return (*mentioned, "thing") if asks_by_place else mentioned


_KNOWN_FIELDS = {
    (event_type, answer_field): _mentioned_fields(event_type, wordings, answer_field)
    for event_type, questions in QUESTIONS.items()
    for answer_field, wordings in questions.items()
}


def all_events(story: Story) -> list[Any]:
    """Return all events of a story, with hidden ones unwrapped."""
    return [event.what if isinstance(event, e.Hidden) else event for event in story.log]


def answerable_queries(story: Story) -> list[EventQuery]:
    """Return every query with exactly one answer, to which no event of a confusable type gives another."""
    events = all_events(story)
    events_by_type: dict[type, list[Any]] = {}
    for event in events:
        events_by_type.setdefault(event.__class__, []).append(event)
    queries: list[EventQuery] = []
    for event in dict.fromkeys(events):
        event_type = event.__class__
        for answer_field in QUESTIONS.get(event_type, ()):
            query = EventQuery(event, answer_field)
            same_type = events_by_type[event_type]
            if answer_field in ("number", "price") and sum(map(query.matches, same_type)) > 1:
                continue  # a reader would add the numbers up
            if len(answers(query, same_type)) == 1 and not any(
                _mentions_known_values(query, other) and not query.matches(other)
                for other_type in _SAME_QUESTION_TYPES[event_type]
                for other in events_by_type.get(other_type, ())
            ):
                queries.append(query)
    return queries


def answers(query: EventQuery, events: Sequence[Any]) -> list[Any]:
    """Return the distinct answers to a query among some events."""
    found: list[Any] = []
    for event in events:
        if query.matches(event) and not any(
            _same_value(getattr(event, query.answer_field), value) for value in found
        ):
            found.append(getattr(event, query.answer_field))
    return found


def perturbed(event: Any, story: Story, random: UniformRandom, keep: str = "") -> Any:
    """Return an event with its people swapped or one value replaced; None if neither is possible.

    Args:
        event: an event of the story.
        story: supplies the values that replace others.
        random: returns numbers in [0, 1).
        keep: a field to leave unchanged; if it is given, people are not swapped.
    """
    fields: list[str] = [name for name in event._fields if name != keep]
    swapped_event = with_people_swapped(event)
    if not keep and swapped_event is not None and random() < 0.5:
        return swapped_event
    choices = [
        (name, value) for name in fields for value in _alternatives(getattr(event, name), event, story)
    ]
    if not choices:
        return None
    name, value = choices[int(random() * len(choices))]
    return event._replace(**{name: value})


def with_people_swapped(event: Any) -> Any:
    """Return an event with its two people swapped.

    None unless it has exactly two people and their roles differ.
    """
    names = [name for name in event._fields if isinstance(getattr(event, name), Person)]
    if len(names) != 2 or isinstance(event, e.Meet):
        return None
    first, second = names
    return event._replace(**{first: getattr(event, second), second: getattr(event, first)})


def _alternatives(value: object, event: Any, story: Story) -> list[Any]:
    """Return values of the same type that occur in a story and not in the event."""
    pool: list[Any]
    if isinstance(value, Fixture):
        return []
    if isinstance(value, Person):
        pool = [person for person in values_in_log(story, Person) if len(person.members) == 1]
    elif isinstance(value, Thing):
        pool = [thing for thing in values_in_log(story, Thing) if not isinstance(thing, Fixture)]
    elif isinstance(value, Place):
        place_type = words.place_type(value)
        pool = [place for place in values_in_log(story, Place) if words.place_type(place) == place_type]
    elif isinstance(value, (Spot, Goods)):
        pool = values_in_log(story, value.__class__)
    else:
        return []
    return [other for other in pool if other is not value and other not in event]


def values_in_log(story: Story, kind: type) -> list[Any]:
    """Return all values of a type that occur in a story, in order."""
    found: dict[Any, None] = {}
    for event in all_events(story):
        for value in event:
            for single in value.members if isinstance(value, Person) else (value,):
                if isinstance(single, kind):
                    found[single] = None
    return list(found)


def unanswerable_query(story: Story, random: UniformRandom) -> tuple[EventQuery, EventQuery] | None:
    """Return an unanswerable query and the answerable one that it is a variant of; None if that fails."""
    answerable = answerable_queries(story)
    if not answerable:
        return None
    query = answerable[int(random() * len(answerable))]
    variant = unanswerable_variant(query, story, random)
    return variant and (variant, query)


def unanswerable_variant(query: EventQuery, story: Story, random: UniformRandom) -> EventQuery | None:
    """Return the query with other known values, which no event of the story answers.

    None if no such query is found.
    """
    swapped_event = with_people_swapped(query.event)
    event = (
        swapped_event
        if swapped_event is not None and random() < 0.8
        else perturbed(query.event, story, random, keep=query.answer_field)
    )
    if event is None or event.__class__ in _NEVER_UNANSWERABLE:
        return None
    if all(getattr(event, name) == getattr(query.event, name) for name in query.known_fields):
        return None
    variant = EventQuery(event, query.answer_field)
    return None if any(could_answer(variant, other) for other in all_events(story)) else variant


def could_answer(query: EventQuery, event: Any) -> bool:
    """Return whether an event answers a query, or a reader could infer an answer from it."""
    return (
        query.matches(event)
        or _names_what_is_counted(query.event, event)
        or (
            event.__class__ in _INFERENCE_TYPES[query.event.__class__]
            and _mentions_known_values(query, event)
        )
    )


def _names_what_is_counted(asked: Any, event: Any) -> bool:
    """Return whether a question asks for a number at a place that has an ornament of this kind."""
    return (
        isinstance(asked, e.CountAtPlace)
        and isinstance(event, e.HasOrnament)
        and event.place is asked.place
        and asked.what[:-1] in event.ornament  # in the singular, as "a lamp above the door"
    )


def _mentions_known_values(query: EventQuery, event: Any) -> bool:
    """Return whether an event mentions the known people, things, spots and goods of a query."""
    known_values = [getattr(query.event, name) for name in query.known_fields]
    return all(value in event for value in known_values if isinstance(value, (Person, Thing, Spot, Goods)))

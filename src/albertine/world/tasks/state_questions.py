"""Questions about the state of the world at the end of a story or before an event."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from albertine.randomness import UniformRandom, choose
from albertine.world import events as e
from albertine.world import facts
from albertine.world.cast import Goods, Person, Spot, Thing
from albertine.world.english.questions import BEFORE, LAST
from albertine.world.english.wording import clause, sentence
from albertine.world.stories import Story
from albertine.world.tasks.queries import all_events


class StateQuestion(NamedTuple):
    """A question about the state at one point of a story, and the event that determines the answer."""

    question: str
    claim: facts.Claim
    answer_field: str
    num_events: int  # number of events before that point
    deciding_event: int  # index of the event that determines the answer

    @property
    def answer(self) -> Any:
        """The value of the answer field."""
        return getattr(self.claim, self.answer_field)


def end_state_questions(story: Story, random: UniformRandom) -> list[StateQuestion]:
    """Return questions about the state at the end of a story; none for letters."""
    log = story.log
    if any(isinstance(event, e.Letter) for event in log):
        return []
    return [
        StateQuestion(
            _worded_question(LAST[claim.__class__], claim, random),
            claim,
            answer_field,
            len(log),
            deciding_event,
        )
        for claim, answer_field, deciding_event in _askable_claims(all_events(story), _secretly_moved(story))
    ]


def earlier_state_questions(story: Story, random: UniformRandom) -> list[StateQuestion]:
    """Return questions about the state before an event that occurs once in the story."""
    log = story.log
    if any(isinstance(event, (e.Letter, e.Hidden)) for event in log):
        return []
    unique_events = [
        index
        for index, event in enumerate(log)
        if isinstance(event, _DATING_EVENTS) and log.count(event) == 1 and index > 3
    ]
    if not unique_events:
        return []
    index = unique_events[int(random() * len(unique_events))]
    when = clause(log[index], random())
    return [
        StateQuestion(
            _worded_question(BEFORE[claim.__class__], claim, random) % when,
            claim,
            answer_field,
            index,
            deciding_event,
        )
        for claim, answer_field, deciding_event in _askable_claims(log[:index], set())
        if isinstance(claim, (facts.HasThing, facts.AtSpot)) and claim.thing not in log[index]
    ]


_DATING_EVENTS = (e.Break, e.Repair, e.Find, e.Meet, e.Buy, e.Give, e.Return)


def _worded_question(texts: Sequence[str], claim: facts.Claim, random: UniformRandom) -> str:
    return sentence(choose(texts, random), claim)


def _secretly_moved(story: Story) -> set[Person]:
    """Return the persons with hidden movements: a reader may not know where they are."""
    return {
        who
        for event in story.log
        if isinstance(event, e.Hidden) and isinstance(event.what, e.Go)
        for who in event.what.who.members
    }


def _askable_claims(events: Sequence[Any], uncertain: set[Person]) -> Iterator[tuple[facts.Claim, str, int]]:
    """Yield claims that a reader knows, with the field to ask for and the index of the deciding event."""
    reader = facts.ReaderKnowledge(events)
    for who, place in reader.place.items():
        if who not in uncertain:
            yield facts.AtPlace(who, place), "place", _last_index(events, _moves(who))
    for thing, holder_or_spot in reader.holder_or_spot.items():
        deciding_event = _last_index(events, _handles(thing))
        if isinstance(holder_or_spot, Spot):
            if not isinstance(events[deciding_event], e.ThingAt):
                yield facts.AtSpot(thing, holder_or_spot), "spot", deciding_event
        else:
            yield facts.HasThing(holder_or_spot, thing), "who", deciding_event
    for (who, goods), count in reader.stock.items():
        deciding_event = _last_index(events, _counts(who, goods))
        if not isinstance(events[deciding_event], e.HasGoods):
            yield facts.HasExactly(who, count, goods), "number", deciding_event


_HANDLING_EVENTS = (e.ThingAt, e.Take, e.Find, e.Put, e.Lose, e.Give, e.Return, e.Buy)
_LOCATING_EVENTS = (e.Take, e.Find, e.Put, e.Lose, e.Seek)


def _moves(who: Person) -> Callable[[Any], bool]:
    """Return a predicate for events that say where a person is."""

    def moves(event: Any) -> bool:
        if isinstance(event, e.Go):
            return who in event.who.members
        if isinstance(event, e.Meet):
            return who in event
        return isinstance(event, _LOCATING_EVENTS) and event.who is who

    return moves


def _handles(thing: Thing) -> Callable[[Any], bool]:
    """Return a predicate for events that say who holds a thing or where it is."""
    return lambda event: thing in event and isinstance(event, _HANDLING_EVENTS)


def _counts(who: Person, goods: Goods) -> Callable[[Any], bool]:
    """Return a predicate for events that set or change how many goods a person has."""
    return lambda event: who in event and goods in event


def _last_index(events: Sequence[Any], test: Callable[[Any], bool]) -> int:
    """Return the index of the last event that passes a test."""
    return next(index for index in range(len(events) - 1, -1, -1) if test(events[index]))

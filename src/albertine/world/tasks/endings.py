"""Questions about how things stand: at the end, or when something happened. They take more than one fact."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from albertine.world import events as e
from albertine.world import facts
from albertine.world.cast import Goods, Person, Spot, Thing
from albertine.world.english.asking import clause, sentence
from albertine.world.english.questions import BEFORE, LAST
from albertine.world.stories import Story
from albertine.world.tasks.queries import happenings

Random = Callable[[], float]


class Standing(NamedTuple):
    """A question on how things stood at some point of a story, and the event that decided it."""

    question: str
    claim: facts.Claim
    asked: str
    after: int  # how many events had happened
    decided: int  # which of them the answer comes from

    @property
    def answer(self) -> Any:
        """Return what the asked field is."""
        return getattr(self.claim, self.asked)


def endings(story: Story, random: Random) -> list[Standing]:
    """Return questions on how a story ends."""
    log = story.log
    if any(isinstance(event, e.Letter) for event in log):
        return []
    return [
        Standing(_put(LAST[claim.__class__], claim, random), claim, asked, len(log), decided)
        for claim, asked, decided in _known(happenings(story), _kept_back(story))
    ]


def befores(story: Story, random: Random) -> list[Standing]:
    """Return questions on how things stood before an event that is like no other."""
    log = story.log
    if any(isinstance(event, (e.Letter, e.Hidden)) for event in log):
        return []
    dated = [
        at for at, event in enumerate(log) if isinstance(event, _DATING) and log.count(event) == 1 and at > 3
    ]
    if not dated:
        return []
    at = dated[int(random() * len(dated))]
    when = clause(log[at], random())
    return [
        Standing(_put(BEFORE[claim.__class__], claim, random) % when, claim, asked, at, decided)
        for claim, asked, decided in _known(log[:at], set())
        if isinstance(claim, (facts.HasThing, facts.LiesAt)) and claim.thing not in log[at]
    ]


_DATING = (e.Break, e.Mend, e.Find, e.Meet, e.Buy, e.Give, e.Return)


def _any(choices: Sequence[Any], random: Random) -> Any:
    return choices[int(random() * len(choices))]


def _put(texts: Sequence[str], claim: facts.Claim, random: Random) -> str:
    return sentence(_any(texts, random), claim)


def _kept_back(story: Story) -> set[Person]:
    """Return those whose ways were kept back, so that a reader may not know where they are."""
    return {
        who
        for event in story.log
        if isinstance(event, e.Hidden) and isinstance(event.what, e.Go)
        for who in event.what.who.members
    }


def _known(events: Sequence[Any], unclear: set[Person]) -> Iterator[tuple[facts.Claim, str, int]]:
    """Yield what a reader of some events knows, what of it may be asked, and the event that tells."""
    reader = facts.Reader(events)
    for who, place in reader.place.items():
        if who not in unclear:
            yield facts.AtPlace(who, place), "place", _last(events, _moves(who))
    for thing, has in reader.has.items():
        decided = _last(events, _handles(thing))
        if isinstance(has, Spot):
            if not isinstance(events[decided], e.Lies):
                yield facts.LiesAt(thing, has), "spot", decided
        else:
            yield facts.HasThing(has, thing), "who", decided
    for (who, goods), left in reader.stock.items():
        decided = _last(events, _counts(who, goods))
        if not isinstance(events[decided], e.Has):
            yield facts.HasLeft(who, left, goods), "number", decided


_HANDLED = (e.Lies, e.Take, e.Find, e.Put, e.Lose, e.Give, e.Return, e.Buy)
_LOCATED = (e.Take, e.Find, e.Put, e.Lose, e.Seek)


def _moves(who: Person) -> Callable[[Any], bool]:
    """Return a test for events that say where someone is."""

    def moves(event: Any) -> bool:
        if isinstance(event, e.Go):
            return who in event.who.members
        if isinstance(event, e.Meet):
            return who in event
        return isinstance(event, _LOCATED) and event.who is who

    return moves


def _handles(thing: Thing) -> Callable[[Any], bool]:
    """Return a test for events that say who has a thing, or where it lies."""
    return lambda event: thing in event and isinstance(event, _HANDLED)


def _counts(who: Person, goods: Goods) -> Callable[[Any], bool]:
    """Return a test for events that say how many of some goods someone has."""
    return lambda event: who in event and goods in event


def _last(events: Sequence[Any], test: Callable[[Any], bool]) -> int:
    """Return the place of the last event that passes a test."""
    return next(at for at in range(len(events) - 1, -1, -1) if test(events[at]))

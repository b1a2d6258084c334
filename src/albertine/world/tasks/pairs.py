"""Pairs of sentences and of questions: MRPC, STS-B, QQP and QNLI.

Pairs that mean the same are two wordings of one event; those that do not have most
of their words in common all the same: persons swapped, order turned round, one thing
another. So what the words are tells little, and how they stand tells all.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from albertine.world import events as e
from albertine.world.english import claims
from albertine.world.english.asking import clause
from albertine.world.english.grammar import capital
from albertine.world.english.questions import QUESTIONS
from albertine.world.stories import Story
from albertine.world.tasks.queries import (
    Query,
    changed,
    could_answer,
    happenings,
    queries,
    swapped,
    unanswered,
)

Random = Callable[[], float]

_DEEDS = (e.Take, e.Put, e.Give, e.Return, e.Find, e.Buy, e.BuyGoods, e.Share, e.Break, e.Mend, e.Meet)
_TRIES = 6
_TWO_SIDED = 0.85  # share of questions that could be turned round
_EASY = 0.75  # how likely a pair of others is passed over: one is told from another by its words


class Pair(NamedTuple):
    """Two texts, what holds between them, and what they were made from."""

    first: str
    second: str
    label: int
    origins: tuple[Any, Any]


class Similar(NamedTuple):
    """Two sentences, and how much of what they say is the same, from 0 to 5."""

    first: str
    second: str
    score: float
    origins: tuple[Any, Any]


def _deeds(story: Story) -> list[Any]:
    return [event for event in dict.fromkeys(happenings(story)) if isinstance(event, _DEEDS)]


def _any(choices: list[Any], random: Random) -> Any:
    return choices[int(random() * len(choices))]


# --- MRPC


def paraphrase(story: Story, random: Random, same: bool) -> Pair | None:
    """Make two sentences of two deeds each, which say the same or not."""
    deeds = _deeds(story)
    if len(deeds) < 2:
        return None
    at = int(random() * (len(deeds) - 1))
    one, two = deeds[at], deeds[at + 1]
    if one.__class__ is two.__class__:
        return None
    first = _ordered(one, two, random)
    other = (one, two)
    if not same:
        turned = swapped(one), swapped(two)
        draw = random()
        if draw < 0.4:
            other = (two, one)
        elif draw < 0.7 and turned[0] is not None:
            other = (turned[0], two)
        elif draw < 0.85 and turned[1] is not None:
            other = (one, turned[1])
        else:
            replaced = changed(one, story, random)
            if replaced is None:
                return None
            other = (replaced, two)
    for _ in range(_TRIES):
        second = _ordered(*other, random)
        if second != first:
            return Pair(first, second, int(same), ((one, two), other))
    return None


def _ordered(one: Any, two: Any, random: Random) -> str:
    text: str = _any(list(claims.ORDER.affirmed), random)
    return capital(text.replace("{1}", clause(one, random())).replace("{2}", clause(two, random()))) + "."


# --- STS-B


def similar(story: Story, random: Random) -> Similar | None:
    """Make two sentences that share some of what they say; the score is the share, from 0 to 5."""
    deeds = _deeds(story)
    if not deeds:
        return None
    one = _any(deeds, random)
    two: Any = one
    draw = random()
    if draw < 0.2:
        two = _any(deeds, random)
    elif draw < 0.4 and (turned := swapped(one)) is not None:
        two = turned
    else:
        for _ in range(int(random() * len(one))):
            two = changed(two, story, random) or two
    first = capital(clause(one, random())) + "."
    for _ in range(_TRIES):
        second = capital(clause(two, random())) + "."
        if second != first:
            return Similar(first, second, shared(one, two), (one, two))
    return None


def shared(one: Any, two: Any) -> float:
    """Return 5 times the share of facts (kind of event, who and what in each part) that two events share."""
    facts = {"kind": one.__class__, **one._asdict()}
    others = {"kind": two.__class__, **two._asdict()}
    agreeing = sum(name in others and others[name] == value for name, value in facts.items())
    share: float = 5 * agreeing / len({*facts, *others})
    return round(share, 3)


# --- QQP


def duplicates(story: Story, random: Random, same: bool) -> Pair | None:
    """Make two questions that ask the same or not, never worded alike."""
    query = _query(story, random)
    if query is None or (swapped(query.model) is None and random() < _EASY):
        return None
    other = query if same else _other_question(query, story, random)
    if other is None:
        return None
    firsts, seconds = query.wordings(), other.wordings()
    at = int(random() * len(firsts))
    if query.asked == other.asked:
        del seconds[at]
    if not seconds:
        return None
    return Pair(firsts[at], _any(seconds, random), int(same), (query, other))


def _query(story: Story, random: Random) -> Query | None:
    """Return a question, mostly one with a person on either side, where the order of words is all."""
    possible = queries(story)
    two_sided = [query for query in possible if swapped(query.model) is not None]
    if not possible:
        return None
    return _any(two_sided if two_sided and random() < _TWO_SIDED else possible, random)  # type: ignore[no-any-return]


def _other_question(query: Query, story: Story, random: Random) -> Query | None:
    """Return a question that asks something else with nearly the same words."""
    turned = swapped(query.model)
    draw = random()
    if turned is not None and draw < 0.8 and set(query.known) & {"who", "whom"}:
        return Query(turned, query.asked)
    if draw < 0.95:
        asked = [name for name in QUESTIONS[query.model.__class__] if name != query.asked]
        if asked:
            model = turned if turned is not None and random() < 0.5 else query.model
            return Query(model, _any(asked, random))
    other = changed(query.model, story, random, keep=query.asked)
    if other is None or all(getattr(other, name) == getattr(query.model, name) for name in query.known):
        return None
    return Query(other, query.asked)


# --- QNLI


def answering(story: Story, random: Random, answered: bool) -> Pair | None:
    """Make a question and a sentence that answers it or not; the sentence is true of its story."""
    query = _query(story, random)
    if query is None:
        return None
    event = query.model
    if not answered:
        if random() < 0.8:
            query = unanswered(query, story, random)
        else:
            event = _beside(query, story, random)
        if query is None or event is None:
            return None
    lasting = isinstance(event, (e.Near, e.Built, e.Adorned, e.Run, e.Counted))
    sentence = capital(clause(event, random(), lasting=lasting)) + "."
    return Pair(query.wording(random()), sentence, int(answered), (query, event))


def _beside(query: Query, story: Story, random: Random) -> Any:
    """Return an event that has much in common with a question and does not answer it."""
    best: list[Any] = []
    most = 1
    for event in happenings(story):
        common = len(set(query.model).intersection(event))
        if event.__class__ not in QUESTIONS or could_answer(query, event):
            continue
        if common > most:
            best, most = [], common
        if common == most:
            best.append(event)
    return _any(best, random) if best else None

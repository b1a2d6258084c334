"""Pairs of sentences and of questions: MRPC, STS-B, QQP and QNLI.

Positive pairs are two wordings of the same events. Negative pairs share most of their
words too, because persons are swapped, the order is reversed or one thing is replaced.
So the set of words says little about the label, and their order decides.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from albertine.world import events as e
from albertine.world.english import claims
from albertine.world.english.grammar import capital
from albertine.world.english.questions import QUESTIONS
from albertine.world.english.wording import clause
from albertine.world.stories import Story
from albertine.world.tasks.queries import (
    EventQuery,
    all_events,
    answerable_queries,
    could_answer,
    perturbed,
    unanswerable_variant,
    with_persons_swapped,
)

UniformRandom = Callable[[], float]

_DEEDS = (e.Take, e.Put, e.Give, e.Return, e.Find, e.Buy, e.BuyGoods, e.ShareGoods, e.Break, e.Mend, e.Meet)
_MAX_ATTEMPTS = 6
_TWO_PERSON_SHARE = 0.85  # share of queries with two persons, which can be swapped
_SKIP_EASY_PROBABILITY = 0.75  # for queries without two persons, where words alone decide


class LabelledTextPair(NamedTuple):
    """Two texts, their label, and the events or queries that they were made from."""

    first: str
    second: str
    label: int
    origins: tuple[Any, Any]


class ScoredTextPair(NamedTuple):
    """Two sentences, the share of facts that they have in common from 0 to 5, and their events."""

    first: str
    second: str
    score: float
    origins: tuple[Any, Any]


def _deeds(story: Story) -> list[Any]:
    return [event for event in dict.fromkeys(all_events(story)) if isinstance(event, _DEEDS)]


def _choose(choices: list[Any], random: UniformRandom) -> Any:
    return choices[int(random() * len(choices))]


# --- MRPC


def paraphrase_pair(story: Story, random: UniformRandom, same: bool) -> LabelledTextPair | None:
    """Return two sentences of two deeds each that mean the same or not; None if the story has none."""
    deeds = _deeds(story)
    if len(deeds) < 2:
        return None
    at = int(random() * (len(deeds) - 1))
    one, two = deeds[at], deeds[at + 1]
    if one.__class__ is two.__class__:
        return None
    first = _two_event_sentence(one, two, random)
    other = (one, two)
    if not same:
        swapped_events = with_persons_swapped(one), with_persons_swapped(two)
        draw = random()
        if draw < 0.4:
            other = (two, one)
        elif draw < 0.7 and swapped_events[0] is not None:
            other = (swapped_events[0], two)
        elif draw < 0.85 and swapped_events[1] is not None:
            other = (one, swapped_events[1])
        else:
            replaced = perturbed(one, story, random)
            if replaced is None:
                return None
            other = (replaced, two)
    for _ in range(_MAX_ATTEMPTS):
        second = _two_event_sentence(*other, random)
        if second != first:
            return LabelledTextPair(first, second, int(same), ((one, two), other))
    return None


def _two_event_sentence(one: Any, two: Any, random: UniformRandom) -> str:
    text: str = _choose(list(claims.ORDER.affirmed), random)
    return capital(text.replace("{1}", clause(one, random())).replace("{2}", clause(two, random()))) + "."


# --- STS-B


def similarity_pair(story: Story, random: UniformRandom) -> ScoredTextPair | None:
    """Return two sentences with a similarity score from 0 to 5; None if the story has no deeds."""
    deeds = _deeds(story)
    if not deeds:
        return None
    one = _choose(deeds, random)
    two: Any = one
    draw = random()
    if draw < 0.2:
        two = _choose(deeds, random)
    elif draw < 0.4 and (turned := with_persons_swapped(one)) is not None:
        two = turned
    else:
        for _ in range(int(random() * len(one))):
            two = perturbed(two, story, random) or two
    first = capital(clause(one, random())) + "."
    for _ in range(_MAX_ATTEMPTS):
        second = capital(clause(two, random())) + "."
        if second != first:
            return ScoredTextPair(first, second, similarity_score(one, two), (one, two))
    return None


def similarity_score(one: Any, two: Any) -> float:
    """Return 5 times the share of facts (event type and fields) that two events have in common."""
    facts = {"kind": one.__class__, **one._asdict()}
    others = {"kind": two.__class__, **two._asdict()}
    agreeing = sum(name in others and others[name] == value for name, value in facts.items())
    share: float = 5 * agreeing / len({*facts, *others})
    return round(share, 3)


# --- QQP


def duplicate_pair(story: Story, random: UniformRandom, same: bool) -> LabelledTextPair | None:
    """Return two differently worded questions that ask the same or not; None if that fails."""
    query = _choose_query(story, random)
    if query is None or (with_persons_swapped(query.event) is None and random() < _SKIP_EASY_PROBABILITY):
        return None
    other = query if same else _other_question(query, story, random)
    if other is None:
        return None
    firsts, seconds = query.wordings(), other.wordings()
    at = int(random() * len(firsts))
    if query.asked_field == other.asked_field:
        del seconds[at]
    if not seconds:
        return None
    return LabelledTextPair(firsts[at], _choose(seconds, random), int(same), (query, other))


def _choose_query(story: Story, random: UniformRandom) -> EventQuery | None:
    """Return an answerable query, mostly one with two persons, whose meaning depends on word order."""
    possible = answerable_queries(story)
    two_sided = [query for query in possible if with_persons_swapped(query.event) is not None]
    if not possible:
        return None
    return _choose(two_sided if two_sided and random() < _TWO_PERSON_SHARE else possible, random)  # type: ignore[no-any-return]


def _other_question(query: EventQuery, story: Story, random: UniformRandom) -> EventQuery | None:
    """Return a query that asks something else with nearly the same words; None if there is none."""
    turned = with_persons_swapped(query.event)
    draw = random()
    if turned is not None and draw < 0.8 and set(query.known_fields) & {"who", "whom"}:
        return EventQuery(turned, query.asked_field)
    if draw < 0.95:
        asked = [name for name in QUESTIONS[query.event.__class__] if name != query.asked_field]
        if asked:
            model = turned if turned is not None and random() < 0.5 else query.event
            return EventQuery(model, _choose(asked, random))
    other = perturbed(query.event, story, random, keep=query.asked_field)
    if other is None or all(
        getattr(other, name) == getattr(query.event, name) for name in query.known_fields
    ):
        return None
    return EventQuery(other, query.asked_field)


# --- QNLI


def question_sentence_pair(story: Story, random: UniformRandom, is_answered: bool) -> LabelledTextPair | None:
    """Return a question and a true sentence of its story that answers it or not; None if that fails."""
    query = _choose_query(story, random)
    if query is None:
        return None
    event = query.event
    if not is_answered:
        if random() < 0.8:
            query = unanswerable_variant(query, story, random)
        else:
            event = _related_event(query, story, random)
        if query is None or event is None:
            return None
    lasting = isinstance(event, (e.Near, e.BuiltOf, e.HasOrnament, e.RunsPlace, e.CountAtPlace))
    sentence = capital(clause(event, random(), lasting=lasting)) + "."
    return LabelledTextPair(query.wording(random()), sentence, int(is_answered), (query, event))


def _related_event(query: EventQuery, story: Story, random: UniformRandom) -> Any:
    """Return an event that shares many values with a query and does not answer it; None if none does."""
    best: list[Any] = []
    most = 1
    for event in all_events(story):
        common = len(set(query.event).intersection(event))
        if event.__class__ not in QUESTIONS or could_answer(query, event):
            continue
        if common > most:
            best, most = [], common
        if common == most:
            best.append(event)
    return _choose(best, random) if best else None

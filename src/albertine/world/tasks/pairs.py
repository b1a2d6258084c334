"""Pairs of sentences and of questions: MRPC, STS-B, QQP and QNLI.

Positive pairs are two wordings of the same events. Negative pairs share most of their
words too, because persons are swapped, the order is reversed or one thing is replaced.
So the label depends on the order of the words and hardly on the set of words.
"""

from typing import Any, NamedTuple

from albertine.randomness import UniformRandom, choose
from albertine.world import events as e
from albertine.world.english import claims
from albertine.world.english.grammar import capital
from albertine.world.english.questions import QUESTIONS
from albertine.world.english.wording import clause
from albertine.world.stories import Story
from albertine.world.tasks.queries import (
    TASK_ACTIONS,
    EventQuery,
    all_events,
    answerable_queries,
    could_answer,
    perturbed,
    unanswerable_variant,
    with_people_swapped,
)

_MAX_ATTEMPTS = 6
_TWO_PERSON_SHARE = 0.85  # probability of a query with two persons, which can be swapped, if there is one
_SKIP_EASY_PROBABILITY = 0.75  # for queries without two persons: their set of words predicts the label


class LabelledTextPair(NamedTuple):
    """Two texts, their label, and the events or queries of which they are wordings."""

    first: str
    second: str
    label: int
    origins: tuple[Any, Any]


class ScoredTextPair(NamedTuple):
    """Two sentences, their similarity from 0 to 5, and their events."""

    first: str
    second: str
    score: float
    origins: tuple[Any, Any]


def _actions(story: Story) -> list[Any]:
    return [event for event in dict.fromkeys(all_events(story)) if isinstance(event, TASK_ACTIONS)]


# --- MRPC


def paraphrase_pair(story: Story, random: UniformRandom, same: bool) -> LabelledTextPair | None:
    """Return two sentences, each of two actions, that mean the same or not; None if that fails."""
    actions = _actions(story)
    if len(actions) < 2:
        return None
    index = int(random() * (len(actions) - 1))
    first_action, second_action = actions[index], actions[index + 1]
    if first_action.__class__ is second_action.__class__:
        return None
    first = _two_event_sentence(first_action, second_action, random)
    variant = (first_action, second_action)
    if not same:
        swapped_events = with_people_swapped(first_action), with_people_swapped(second_action)
        draw = random()
        if draw < 0.4:
            variant = (second_action, first_action)
        elif draw < 0.7 and swapped_events[0] is not None:
            variant = (swapped_events[0], second_action)
        elif draw < 0.85 and swapped_events[1] is not None:
            variant = (first_action, swapped_events[1])
        else:
            replaced = perturbed(first_action, story, random)
            if replaced is None:
                return None
            variant = (replaced, second_action)
    for _ in range(_MAX_ATTEMPTS):
        second = _two_event_sentence(*variant, random)
        if second != first:
            return LabelledTextPair(first, second, int(same), ((first_action, second_action), variant))
    return None


def _two_event_sentence(first: Any, second: Any, random: UniformRandom) -> str:
    text: str = choose(list(claims.ORDER.affirmed), random)
    return (
        capital(text.replace("{1}", clause(first, random())).replace("{2}", clause(second, random()))) + "."
    )


# --- STS-B


def similarity_pair(story: Story, random: UniformRandom) -> ScoredTextPair | None:
    """Return two sentences with a similarity score from 0 to 5; None if the story has no actions."""
    actions = _actions(story)
    if not actions:
        return None
    action = choose(actions, random)
    variant: Any = action
    draw = random()
    if draw < 0.2:
        variant = choose(actions, random)
    elif draw < 0.4 and (swapped := with_people_swapped(action)) is not None:
        variant = swapped
    else:
        for _ in range(int(random() * len(action))):
            variant = perturbed(variant, story, random) or variant
    first = capital(clause(action, random())) + "."
    for _ in range(_MAX_ATTEMPTS):
        second = capital(clause(variant, random())) + "."
        if second != first:
            return ScoredTextPair(first, second, similarity_score(action, variant), (action, variant))
    return None


def similarity_score(first: Any, second: Any) -> float:
    """Return 5 times the share of facts (event type and fields) that two events have in common."""
    first_facts = {"kind": first.__class__, **first._asdict()}
    second_facts = {"kind": second.__class__, **second._asdict()}
    agreeing = sum(
        name in second_facts and second_facts[name] == value for name, value in first_facts.items()
    )
    score: float = 5 * agreeing / len({*first_facts, *second_facts})
    return round(score, 3)


# --- QQP


def duplicate_pair(story: Story, random: UniformRandom, same: bool) -> LabelledTextPair | None:
    """Return two questions that ask for the same or not, in different words; None if that fails."""
    query = _choose_query(story, random)
    if query is None or (with_people_swapped(query.event) is None and random() < _SKIP_EASY_PROBABILITY):
        return None
    other = query if same else _other_question(query, story, random)
    if other is None:
        return None
    firsts, seconds = query.wordings(), other.wordings()
    index = int(random() * len(firsts))
    if query.answer_field == other.answer_field:
        del seconds[index]
    if not seconds:
        return None
    return LabelledTextPair(firsts[index], choose(seconds, random), int(same), (query, other))


def _choose_query(story: Story, random: UniformRandom) -> EventQuery | None:
    """Return an answerable query, mostly one with two persons, whose meaning depends on word order."""
    possible = answerable_queries(story)
    swappable = [query for query in possible if with_people_swapped(query.event) is not None]
    if not possible:
        return None
    return choose(swappable if swappable and random() < _TWO_PERSON_SHARE else possible, random)  # type: ignore[no-any-return]


def _other_question(query: EventQuery, story: Story, random: UniformRandom) -> EventQuery | None:
    """Return a query that asks something else with nearly the same words; None if there is none."""
    swapped = with_people_swapped(query.event)
    draw = random()
    if swapped is not None and draw < 0.8 and set(query.known_fields) & {"who", "whom"}:
        return EventQuery(swapped, query.answer_field)
    if draw < 0.95:
        other_fields = [name for name in QUESTIONS[query.event.__class__] if name != query.answer_field]
        if other_fields:
            event = swapped if swapped is not None and random() < 0.5 else query.event
            return EventQuery(event, choose(other_fields, random))
    other = perturbed(query.event, story, random, keep=query.answer_field)
    if other is None or all(
        getattr(other, name) == getattr(query.event, name) for name in query.known_fields
    ):
        return None
    return EventQuery(other, query.answer_field)


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
    lasting = isinstance(event, (e.Near, e.BuiltOf, e.HasOrnament, e.HasWorker, e.CountAtPlace))
    sentence = capital(clause(event, random(), lasting=lasting)) + "."
    return LabelledTextPair(query.wording(random()), sentence, int(is_answered), (query, event))


def _related_event(query: EventQuery, story: Story, random: UniformRandom) -> Any:
    """Return an event that does not answer a query but shares many values with it; None without one."""
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
    return choose(best, random) if best else None

"""RACE: articles and questions with four options; level middle needs one fact, high two or more.

The wrong options have the same type as the answer and come from the same story if it
has enough of them.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

from albertine.randomness import UniformRandom, choose
from albertine.world import events as e
from albertine.world.cast import Fixture, Person, Place, Spot, Thing
from albertine.world.english import lexicon, words
from albertine.world.english.grammar import number_in_words, with_article
from albertine.world.english.speaker import price_in_words
from albertine.world.english.wording import clause, predicate
from albertine.world.stories import CORPUS_GENRES, Story, make_story
from albertine.world.tasks.queries import (
    TASK_ACTIONS,
    EventQuery,
    all_events,
    answerable_queries,
    answers,
    perturbed,
    values_in_log,
)
from albertine.world.tasks.state_questions import StateQuestion, earlier_state_questions, end_state_questions


class RaceQuestion(NamedTuple):
    """A question, its four options, the index of the answer, and its origin."""

    question: str
    options: tuple[str, ...]
    answer_index: int
    origin: Any  # the query, state question or actions that it was made from


def middle_question(story: Story, random: UniformRandom) -> RaceQuestion | None:
    """Return a question about one fact that the text states in full; None if there is none."""
    possible = _stated_queries(story)
    if not possible:
        return None
    query = choose(possible, random)
    return _query_question(query, query.wording(random()), story, random)


def _query_question(
    query: EventQuery, question: str, story: Story, random: UniformRandom
) -> RaceQuestion | None:
    """Return a query as a multiple-choice question; the question names none of the distractors."""
    value = getattr(query.event, query.answer_field)
    correct_values = answers(query, all_events(story))
    distractors = [
        other
        for other in _distractors(value, query.answer_field, story, random)
        if other not in correct_values and not (isinstance(other, (Person, Place)) and other in query.event)
    ]
    field = "what" if isinstance(query.event, (e.Near, e.HasOrnament)) else query.answer_field
    return _multiple_choice(question, value, distractors, field, random, query)


def high_question(story: Story, random: UniformRandom) -> RaceQuestion | None:
    """Return a question of a random kind that needs two or more facts; None if the story has none."""
    make_question: Callable[[Story, UniformRandom], RaceQuestion | None] = choose(
        _HIGH_QUESTION_MAKERS, random
    )
    return make_question(story, random)


@lru_cache(maxsize=1)  # the questions of one story are made one after the other
def _stated_queries(story: Story) -> tuple[EventQuery, ...]:
    """Return the answerable queries that the text states in full."""
    return tuple(query for query in answerable_queries(story) if _is_stated(query, story))


def _is_stated(query: EventQuery, story: Story) -> bool:
    """Return whether the text of an event names all known fields of a query and the answer field."""
    fields = [*query.known_fields, query.answer_field]
    return any(
        form is not None
        and query.matches(event)
        and all(event._fields.index(name) in form.fields for name in fields)
        for event, form in zip(story.log, story.rendered.form_of_event, strict=True)
    )


def _multiple_choice(
    question: str, answer: Any, distractors: Sequence[Any], field: str, random: UniformRandom, origin: Any
) -> RaceQuestion | None:
    """Return a question with the answer among three distractors; None if there are too few."""
    answer_text = _option_text(answer, field)
    wrong_texts = list(
        dict.fromkeys(
            wrong_text
            for distractor in distractors
            if not _overlap(wrong_text := _option_text(distractor, field), answer_text)
        )
    )[:3]
    if len(wrong_texts) < 3:
        return None
    answer_index = int(random() * 4)
    return RaceQuestion(
        question,
        (*wrong_texts[:answer_index], answer_text, *wrong_texts[answer_index:]),
        answer_index,
        origin,
    )


def _overlap(one: str, other: str) -> bool:
    """Return whether one option contains the other: at the mill, at the mill in the valley."""
    return f" {one} " in f" {other} " or f" {other} " in f" {one} "


def _option_text(value: Any, field: str) -> str:
    """Return the text of an option."""
    if isinstance(value, str):
        return with_article(value) if field == "trade" else value
    if isinstance(value, int):
        return price_in_words(value) if field == "price" else number_in_words(value)
    if isinstance(value, Person):
        return value.name
    if isinstance(value, Thing):
        return f"the {value.name}"
    if isinstance(value, Spot):
        return f"{value.at} {value.place.at}"
    assert isinstance(value, Place)
    return value.the if field == "what" else value.at


def _distractors(value: Any, field: str, story: Story, random: UniformRandom) -> list[Any]:
    """Return possible wrong answers: values of the same type as the right one, those of the story first."""
    if isinstance(value, str):
        return _shuffled(_WORD_POOLS[field], random)
    if isinstance(value, int):
        nearby = [value + step for step in (-3, -2, -1, 1, 2, 3, 5) if value + step > 0]
        return _shuffled(nearby, random)
    if isinstance(value, Person):
        people = [who for who in values_in_log(story, Person) if len(who.members) == 1]
        names = {who.name for who in people}
        more = [name for name in _shuffled((*words.WOMEN, *words.MEN), random) if name not in names]
        return [*_shuffled(people, random), *more]
    if isinstance(value, Fixture):
        fixtures = [
            template.fixture(value.place) for kind in words.fixtures_in(value.place) for template in kind
        ]
        return [fixture for fixture in _shuffled(fixtures, random) if fixture.kind != value.kind]
    if isinstance(value, Thing):
        things = [thing for thing in values_in_log(story, Thing) if not isinstance(thing, Fixture)]
        used_names = {thing.name for thing in things}
        new_things = [
            template.thing() for kind in words.THINGS for template in kind if template.name not in used_names
        ]
        return [*_shuffled(things, random), *_shuffled(new_things, random)]
    if isinstance(value, Spot):
        spots = values_in_log(story, Spot)
        return [*_shuffled(spots, random), *_shuffled(words.spots_in(value.place), random)]
    places = [
        place for place in values_in_log(story, Place) if words.place_type(place) == words.place_type(value)
    ]
    pool = {"village": words.VILLAGES, "room": words.ROOMS}.get(words.place_type(value), words.SITES)
    return [*_shuffled(places, random), *_shuffled(pool, random)]


_WORD_POOLS: dict[str, tuple[str, ...]] = {
    "trade": tuple(trade for trade, _ in words.TRADES),
    "direction": ("north", "east", "south", "west"),
    "material": lexicon.MATERIALS,
    "name": tuple(name for animal in words.ANIMALS for name in animal.names),
}


def _shuffled(values: Sequence[Any], random: UniformRandom) -> list[Any]:
    left = list(values)
    return [left.pop(int(random() * len(left))) for _ in range(len(left))]


# --- questions that need more than one fact


def _end_state_question(story: Story, random: UniformRandom) -> RaceQuestion | None:
    return _state_question(end_state_questions(story, random), story, random)


def _earlier_state_question(story: Story, random: UniformRandom) -> RaceQuestion | None:
    return _state_question(earlier_state_questions(story, random), story, random)


def _state_question(
    possible: Sequence[StateQuestion], story: Story, random: UniformRandom
) -> RaceQuestion | None:
    possible = [
        state_question
        for state_question in possible
        if story.rendered.sentence_of_event[state_question.deciding_event] >= 0
    ]
    if not possible:
        return None
    state_question = choose(possible, random)
    distractors = [
        value
        for value in _distractors(state_question.answer, state_question.answer_field, story, random)
        if value != state_question.answer
    ]
    return _multiple_choice(
        state_question.question,
        state_question.answer,
        distractors,
        state_question.answer_field,
        random,
        state_question,
    )


def _unique_actions(story: Story) -> list[Any]:
    """Return the actions that happen exactly once."""
    log = story.log
    return [event for event in log if isinstance(event, TASK_ACTIONS) and log.count(event) == 1]


def _event_order_question(story: Story, random: UniformRandom) -> RaceQuestion | None:
    """Return a question about which of four actions came first or last."""
    actions = _unique_actions(story)
    if len(actions) < 4:
        return None
    chosen = [actions[index] for index in sorted(_shuffled(range(len(actions)), random)[:4])]
    asks_first = random() < 0.5
    answer = chosen[0 if asks_first else -1]
    texts = {event: clause(event, random()) for event in chosen}
    question = f"Which of these happened {'first' if asks_first else 'last'}?"
    wrong_texts = [texts[event] for event in _shuffled(chosen, random) if event is not answer]
    return _multiple_choice(question, texts[answer], wrong_texts, "action", random, (answer, chosen))


def _what_happened_question(story: Story, random: UniformRandom) -> RaceQuestion | None:
    """Return a question with four actions as options: which did not happen, or which is the one that did."""
    actions = _unique_actions(story)
    if len(actions) < 3:
        return None
    true = _shuffled(actions, random)
    false: list[Any] = []
    for event in true:
        other = perturbed(event, story, random)
        if other is not None and not isinstance(other, e.Meet) and not _may_have_happened(other, story):
            false.append(other)
    if random() < 0.5:
        question, answers, wrong_actions = "Which of these did not happen?", false[:1], true[:3]
    else:
        question, answers, wrong_actions = "Which of these is true?", true[:1], false[:3]
    if not answers or len(wrong_actions) < 3:
        return None
    texts = [clause(event, random()) for event in wrong_actions]
    return _multiple_choice(
        question, clause(answers[0], random()), texts, "action", random, (question, answers[0], wrong_actions)
    )


def _may_have_happened(invented: Any, story: Story) -> bool:
    """Return whether an invented action happened, or a reader could infer it from a related event."""
    participants = {value for value in invented if isinstance(value, (Person, Thing))}
    for event in all_events(story):
        are_transfers = event.__class__ in _TRANSFER_EVENTS and invented.__class__ in _TRANSFER_EVENTS
        if event == invented or (
            are_transfers and event.__class__ is not invented.__class__ and participants <= set(event)
        ):
            return True
    return False


_TRANSFER_EVENTS = (e.Give, e.Return, e.ShareGoods, e.Buy, e.BuyGoods)


def _two_hop_question(story: Story, random: UniformRandom) -> RaceQuestion | None:
    """Return a question that describes its person by another action in place of the name."""
    stated = _stated_queries(story)
    usable = [query for query in stated if "who" in query.known_fields and len(query.event.who.members) == 1]
    if not usable:
        return None
    query = choose(usable, random)
    who = query.event.who
    actions = [
        other.event
        for other in stated
        if other.answer_field == "who" and other.event.who is who and other.event != query.event
    ]
    actions = [action for action in actions if not isinstance(action, e.HasWorker) and predicate(action, 0.0)]
    if not actions:
        return None
    described = Person(f"the person who {predicate(choose(actions, random), random())}", "", who.gender)
    questions = [
        text
        for text in EventQuery(query.event._replace(who=described), query.answer_field).wordings()
        if "'s" not in text
    ]
    return _query_question(query, choose(questions, random), story, random) if questions else None


_HIGH_QUESTION_MAKERS = (
    _end_state_question,
    _end_state_question,
    _earlier_state_question,
    _event_order_question,
    _what_happened_question,
    _two_hop_question,
)


# --- the files

_LEVELS: dict[str, tuple[Callable[[Story, UniformRandom], RaceQuestion | None], int, int]] = {
    "middle": (middle_question, 10, 30),  # the maker of questions, and the range of sentences
    "high": (high_question, 14, 60),
}
LEVELS = tuple(_LEVELS)
_MAX_QUESTIONS_PER_ARTICLE = 4
_MAX_ATTEMPTS = 12


class RaceArticle(NamedTuple):
    """A story and its questions."""

    number: int
    story: Story
    questions: list[RaceQuestion]


def make_articles(level: str, split: str, count: int, seed: int) -> list[RaceArticle]:
    """Return articles with `count` questions in total."""
    make_question, shortest, longest = _LEVELS[level]
    articles: list[RaceArticle] = []
    remaining = count
    number = 0
    while remaining > 0:
        story = make_story(seed, f"RACE {level} {split}", number, CORPUS_GENRES)
        random = Random(f"{seed} RACE {level} {split} {number} questions").random
        questions: dict[Any, RaceQuestion] = {}
        if shortest <= len(story.sentences) <= longest:
            limit = min(_MAX_QUESTIONS_PER_ARTICLE, remaining)
            for _ in range(_MAX_ATTEMPTS):
                question = make_question(story, random)
                if question is not None:
                    questions.setdefault(_topic(question), question)
                if len(questions) == limit:
                    break
        if questions:
            articles.append(RaceArticle(number, story, list(questions.values())))
            remaining -= len(questions)
        number += 1
    return articles


def _topic(question: RaceQuestion) -> Any:
    """Return a key for the content of a question, independent of its wording and options."""
    origin = question.origin
    if isinstance(origin, StateQuestion):
        return origin.claim.__class__, origin.claim[0], origin.num_events
    return origin if isinstance(origin, EventQuery) else question.question


def race_json(article: RaceArticle, level: str) -> dict[str, Any]:
    """Return the content of the article's JSON file."""
    return {
        "answers": ["ABCD"[question.answer_index] for question in article.questions],
        "options": [list(question.options) for question in article.questions],
        "questions": [question.question for question in article.questions],
        "article": " ".join(article.story.sentences),
        "id": f"{level}{article.number}.txt",
    }

"""RACE: an article and questions with four options; middle asks for one fact, high for two or more.

Wrong options are of the same sort as the right one, from the same story where it has
enough of them.
"""

from collections.abc import Callable, Sequence
from random import Random as Chance
from typing import Any, NamedTuple

from albertine.world import events as e
from albertine.world.cast import Fixture, Person, Place, Spot, Thing
from albertine.world.english import lexicon, words
from albertine.world.english.asking import clause, predicate
from albertine.world.english.grammar import a, number
from albertine.world.english.speaker import price_in_words
from albertine.world.stories import Story, story
from albertine.world.tasks.endings import Standing, befores, endings
from albertine.world.tasks.queries import Query, answers, changed, happenings, queries, spoken_of

Random = Callable[[], float]


class Choice(NamedTuple):
    """A question, four options, which of them is right, and what it was made from."""

    question: str
    options: tuple[str, ...]
    right: int
    origin: Any


def middle(story: Story, random: Random) -> Choice | None:
    """Ask for one fact that the text tells in full."""
    possible = [query for query in queries(story) if _is_told(query, story)]
    if not possible:
        return None
    query = _any(possible, random)
    return _asking(query, query.wording(random()), story, random)


def _asking(query: Query, question: str, story: Story, random: Random) -> Choice | None:
    """Put a query's answer among others of its sort that the question does not name."""
    value = getattr(query.model, query.asked)
    fitting = answers(query, happenings(story))
    wrong = [
        other
        for other in _sort_of(value, query.asked, story, random)
        if other not in fitting and not (isinstance(other, (Person, Place)) and other in query.model)
    ]
    asked = "what" if isinstance(query.model, (e.Near, e.Adorned)) else query.asked
    return _choice(question, value, wrong, asked, random, query)


def high(story: Story, random: Random) -> Choice | None:
    """Ask for what takes two facts or more."""
    ask: Callable[[Story, Random], Choice | None] = _any(_HIGH, random)
    return ask(story, random)


def _is_told(query: Query, story: Story) -> bool:
    fields = [*query.known, query.asked]
    return any(
        form is not None
        and query.fits(event)
        and all(event._fields.index(name) in form.fields for name in fields)
        for event, form in zip(story.log, story.telling.form_of, strict=True)
    )


def _any(choices: Sequence[Any], random: Random) -> Any:
    return choices[int(random() * len(choices))]


def _choice(
    question: str, right: Any, wrong: Sequence[Any], asked: str, random: Random, origin: Any
) -> Choice | None:
    """Put a right option among three wrong ones."""
    text = _text(right, asked)
    others = list(dict.fromkeys(other for each in wrong if not _overlap(other := _text(each, asked), text)))[
        :3
    ]
    if len(others) < 3:
        return None
    at = int(random() * 4)
    return Choice(question, (*others[:at], text, *others[at:]), at, origin)


def _overlap(one: str, other: str) -> bool:
    """Tell whether one option is the other, or part of it: at the mill, at the mill in the valley."""
    return f" {one} " in f" {other} " or f" {other} " in f" {one} "


def _text(value: Any, asked: str) -> str:
    """Write an option."""
    if isinstance(value, str):
        return a(value) if asked == "trade" else value
    if isinstance(value, int):
        return price_in_words(value) if asked == "price" else number(value)
    if isinstance(value, Person):
        return value.name
    if isinstance(value, Thing):
        return f"the {value.name}"
    if isinstance(value, Spot):
        return f"{value.at} {value.place.at}"
    assert isinstance(value, Place)
    return value.the if asked == "what" else value.at


def _sort_of(value: Any, asked: str, story: Story, random: Random) -> list[Any]:
    """Return things of the sort of a value, those of the story first."""
    if isinstance(value, str):
        return _shuffled(_WORDS[asked], random)
    if isinstance(value, int):
        near = [value + step for step in (-3, -2, -1, 1, 2, 3, 5) if value + step > 0]
        return _shuffled(near, random)
    if isinstance(value, Person):
        people = [who for who in spoken_of(story, Person) if len(who.members) == 1]
        names = {who.name for who in people}
        more = [name for name in _shuffled((*words.WOMEN, *words.MEN), random) if name not in names]
        return [*_shuffled(people, random), *more]
    if isinstance(value, Fixture):
        fixtures = [make.fixture(value.place) for kind in words.fixtures_in(value.place) for make in kind]
        return [fixture for fixture in _shuffled(fixtures, random) if fixture.kind != value.kind]
    if isinstance(value, Thing):
        things = [thing for thing in spoken_of(story, Thing) if not isinstance(thing, Fixture)]
        taken = {thing.name for thing in things}
        makes = [make.thing() for kind in words.THINGS for make in kind if make.name not in taken]
        return [*_shuffled(things, random), *_shuffled(makes, random)]
    if isinstance(value, Spot):
        spots = spoken_of(story, Spot)
        return [*_shuffled(spots, random), *_shuffled(words.spots_in(value.place), random)]
    places = [place for place in spoken_of(story, Place) if words.sort_of(place) == words.sort_of(value)]
    pool = {"village": words.VILLAGES, "room": words.ROOMS}.get(words.sort_of(value), words.SITES)
    return [*_shuffled(places, random), *_shuffled(pool, random)]


_WORDS: dict[str, tuple[str, ...]] = {
    "trade": tuple(trade.name for trade, _ in words.TRADES),
    "direction": ("north", "east", "south", "west"),
    "material": lexicon.MATERIALS,
    "name": tuple(name for animal in words.ANIMALS for name in animal.names),
}


def _shuffled(values: Sequence[Any], random: Random) -> list[Any]:
    left = list(values)
    return [left.pop(int(random() * len(left))) for _ in range(len(left))]


# --- what takes more than one fact


def _how_it_ends(story: Story, random: Random) -> Choice | None:
    return _standing(endings(story, random), story, random)


def _how_it_stood(story: Story, random: Random) -> Choice | None:
    return _standing(befores(story, random), story, random)


def _standing(possible: Sequence[Any], story: Story, random: Random) -> Choice | None:
    possible = [each for each in possible if story.telling.place_of[each.decided] >= 0]
    if not possible:
        return None
    standing = _any(possible, random)
    wrong = [
        value
        for value in _sort_of(standing.answer, standing.asked, story, random)
        if value != standing.answer
    ]
    return _choice(standing.question, standing.answer, wrong, standing.asked, random, standing)


_DEEDS = (e.Take, e.Put, e.Give, e.Return, e.Find, e.Buy, e.BuyGoods, e.Share, e.Break, e.Mend, e.Meet)


def _told_once(story: Story) -> list[Any]:
    """Return the deeds that happen once, and are told as they happen."""
    log = story.log
    return [event for event in log if isinstance(event, _DEEDS) and log.count(event) == 1]


def _in_order(story: Story, random: Random) -> Choice | None:
    """Ask which of four deeds came first, or last."""
    deeds = _told_once(story)
    if len(deeds) < 4:
        return None
    chosen = [deeds[at] for at in sorted(_shuffled(range(len(deeds)), random)[:4])]
    first = random() < 0.5
    right = chosen[0 if first else -1]
    texts = {event: clause(event, random()) for event in chosen}
    question = f"Which of these happened {'first' if first else 'last'}?"
    wrong = [texts[event] for event in _shuffled(chosen, random) if event is not right]
    return _choice(question, texts[right], wrong, "deed", random, (right, chosen))


def _what_did_not_happen(story: Story, random: Random) -> Choice | None:
    """Ask which of four deeds did not happen, or which alone did."""
    deeds = _told_once(story)
    if len(deeds) < 3:
        return None
    true = _shuffled(deeds, random)
    false: list[Any] = []
    for event in true:
        other = changed(event, story, random)
        if other is not None and not isinstance(other, e.Meet) and not _may_have_happened(other, story):
            false.append(other)
    if random() < 0.5:
        question, right, wrong = "Which of these did not happen?", false[:1], true[:3]
    else:
        question, right, wrong = "Which of these is true?", true[:1], false[:3]
    if not right or len(wrong) < 3:
        return None
    texts = [clause(event, random()) for event in wrong]
    return _choice(question, clause(right[0], random()), texts, "deed", random, (question, right[0], wrong))


def _may_have_happened(other: Any, story: Story) -> bool:
    """Tell whether a made-up deed could be read into a story."""
    concerned = {value for value in other if isinstance(value, (Person, Thing))}
    for event in happenings(story):
        handed = event.__class__ in _HANDING and other.__class__ in _HANDING
        if event == other or (handed and event.__class__ is not other.__class__ and concerned <= set(event)):
            return True
    return False


_HANDING = (e.Give, e.Return, e.Share, e.Buy, e.BuyGoods)


def _over_two_steps(story: Story, random: Random) -> Choice | None:
    """Ask about a person who is named by what they did."""
    told = [query for query in queries(story) if _is_told(query, story)]
    about = [query for query in told if "who" in query.known and len(query.model.who.members) == 1]
    if not about:
        return None
    query = _any(about, random)
    who = query.model.who
    deeds = [
        each.model
        for each in told
        if each.asked == "who" and each.model.who is who and each.model != query.model
    ]
    deeds = [deed for deed in deeds if not isinstance(deed, e.Run) and predicate(deed, 0.0)]
    if not deeds:
        return None
    named = Person(f"the person who {predicate(_any(deeds, random), random())}", "", who.gender)
    questions = [
        text for text in Query(query.model._replace(who=named), query.asked).wordings() if "'s" not in text
    ]
    return _asking(query, _any(questions, random), story, random) if questions else None


_HIGH = (_how_it_ends, _how_it_ends, _how_it_stood, _in_order, _what_did_not_happen, _over_two_steps)


# --- the files

_GENRES = ("household", "journey", "market", "letters", "mystery", "place")
_LEVELS: dict[str, tuple[Callable[[Story, Random], Choice | None], int, int]] = {
    "middle": (middle, 10, 30),  # what asks, and the sentences of an article
    "high": (high, 14, 60),
}
LEVELS = tuple(_LEVELS)
_ON_ONE = 4
_TRIES = 12


class Article(NamedTuple):
    """A story and the questions on it."""

    number: int
    story: Story
    asked: list[Choice]


def articles(level: str, split: str, count: int, seed: int) -> list[Article]:
    """Make articles until they have so many questions."""
    ask, shortest, longest = _LEVELS[level]
    made: list[Article] = []
    left = count
    number = 0
    while left > 0:
        tale = story(seed, f"RACE {level} {split}", number, _GENRES)
        random = Chance(f"{seed} RACE {level} {split} {number} questions").random
        asked: dict[Any, Choice] = {}
        if shortest <= len(tale.sentences) <= longest:
            for _ in range(_TRIES):
                choice = ask(tale, random)
                if choice is not None and len(asked) < min(_ON_ONE, left):
                    asked.setdefault(_matter(choice), choice)
        if asked:
            made.append(Article(number, tale, list(asked.values())))
            left -= len(asked)
        number += 1
    return made


def _matter(choice: Choice) -> Any:
    """Return what a question is about, however it is worded."""
    origin = choice.origin
    if isinstance(origin, Standing):
        return origin.claim.__class__, origin.claim[0], origin.after
    return origin if isinstance(origin, Query) else choice.question


def file_of(article: Article, level: str) -> dict[str, Any]:
    """Lay out a file of RACE."""
    return {
        "answers": ["ABCD"[choice.right] for choice in article.asked],
        "options": [list(choice.options) for choice in article.asked],
        "questions": [choice.question for choice in article.asked],
        "article": " ".join(article.story.sentences),
        "id": f"{level}{article.number}.txt",
    }

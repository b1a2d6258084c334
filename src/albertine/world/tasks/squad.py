"""SQuAD, 1.1 and 2.0: questions whose answer is a span of a story, and some that only look so.

A span is looked for in the sentence that tells the answering event; a person or thing
that is a pronoun there is answered by their last mention by name before.
"""

import hashlib
import re
from collections.abc import Callable
from random import Random as Chance
from typing import Any, NamedTuple

from albertine.world.cast import Person, Place, Spot, Thing
from albertine.world.english.grammar import number
from albertine.world.english.speaker import price_in_words
from albertine.world.stories import Story, story
from albertine.world.tasks.endings import endings
from albertine.world.tasks.queries import Query, queries, unanswerable

Random = Callable[[], float]


class Span(NamedTuple):
    """A piece of a text and where it starts."""

    text: str
    start: int


class Asked(NamedTuple):
    """A question on a text, its answers (none if it has none), and what looks like one."""

    question: str
    answers: tuple[Span, ...]
    plausible: tuple[Span, ...]
    origin: Any  # the query or the standing that it was made from


def context_of(story: Story) -> str:
    """Return a story as one paragraph."""
    return " ".join(story.sentences)


def questions_on(story: Story, random: Random, most: int) -> list[Asked]:
    """Return some questions that a story answers in so many words."""
    asked = []
    for query in queries(story):
        spans = _answers(query, story)
        if spans:
            asked.append(Asked(query.wording(random()), spans, (), query))
    asked += [
        Asked(standing.question, spans, (), standing)
        for standing in endings(story, random)
        if standing.asked != "number"
        and (spans := _spans(standing.answer, story, standing.decided, standing.asked))
    ]
    return [asked.pop(int(random() * len(asked))) for _ in range(min(most, len(asked)))]


def open_questions_on(story: Story, random: Random, most: int) -> list[Asked]:
    """Return some questions that a story does not answer, though something in it looks as if it did."""
    asked: dict[str, Asked] = {}
    for _ in range(3 * most):
        made = unanswerable(story, random)
        if made is not None and (spans := _answers(made[1], story)):
            question = made[0].wording(random())
            asked[question] = Asked(question, (), spans, made[0])
    return list(asked.values())[:most]


def _answers(query: Query, story: Story) -> tuple[Span, ...]:
    """Find the answer to a query where the text says all that is asked."""
    fields = [*query.known, query.asked]
    for at, event in enumerate(story.log):
        form = story.telling.form_of[at]
        if not query.fits(event) or form is None:
            continue
        if all(event._fields.index(name) in form.fields for name in fields):
            return _spans(getattr(event, query.asked), story, at, query.asked)
    return ()


def _spans(value: Any, story: Story, at: int, asked: str) -> tuple[Span, ...]:
    """Find a value where event `at` is told, by its fullest name there; then what else it is called."""
    place = story.telling.place_of[at]
    if place < 0:
        return ()
    names = [re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])") for name in _names(value, asked)]
    earliest = 0 if isinstance(value, (Person, Thing)) else place
    for sentence in range(place, earliest - 1, -1):
        start = sum(len(each) + 1 for each in story.sentences[:sentence])
        found = [
            Span(m.group(), start + m.start())
            for name in names
            for m in name.finditer(story.sentences[sentence])
        ]
        if found:
            return _others(found[0], names, context_of(story))
    return ()


def _others(first: Span, names: list[re.Pattern[str]], text: str) -> tuple[Span, ...]:
    """Add other names of an answer, as they first occur, to the one that was found."""
    spans = [first]
    for name in names:
        found = name.search(text)
        if found and found.group() not in (span.text for span in spans):
            spans.append(Span(found.group(), found.start()))
    return tuple(spans)


def _names(value: Any, asked: str) -> list[str]:
    if isinstance(value, Person):
        return [value.full, value.name]
    if isinstance(value, Thing):
        return [value.name, value.kind]
    if isinstance(value, Spot):
        return [f"the {value.name}"]
    if isinstance(value, Place):
        return [value.the]
    if isinstance(value, int):
        return [price_in_words(value) if asked == "price" else number(value)]
    return [str(value)]


# --- the files

_GENRES = ("household", "journey", "market", "letters", "mystery", "place")
_ON_ONE = 5  # answered questions on a story
_OPEN_ON_ONE = {"train": 2, "dev": 4}  # as in SQuAD 2.0: a third of the training part, half of the rest
_MOST_GOLD = 3


class Paragraph(NamedTuple):
    """A story and the questions on it."""

    number: int
    story: Story
    asked: list[Asked]  # answered
    open: list[Asked]  # not answered; only in version 2.0


def paragraphs(split: str, count: int, seed: int) -> list[Paragraph]:
    """Make stories until they have so many answered questions."""
    made: list[Paragraph] = []
    left = count
    number = 0
    while left > 0:
        tale = story(seed, f"SQuAD {split}", number, _GENRES)
        random = Chance(f"{seed} SQuAD {split} {number} questions").random
        asked = questions_on(tale, random, min(_ON_ONE, left))
        if asked:
            made.append(Paragraph(number, tale, asked, open_questions_on(tale, random, _OPEN_ON_ONE[split])))
            left -= len(asked)
        number += 1
    return made


def file_of(made: list[Paragraph], split: str, version: str) -> dict[str, Any]:
    """Lay out a file of SQuAD, version "1.1" or "v2.0"."""
    return {
        "version": version,
        "data": [
            {
                "title": paragraph.story.scene.title,
                "paragraphs": [
                    {
                        "context": context_of(paragraph.story),
                        "qas": [
                            _laid_out(asked, f"{split} {paragraph.number} {at}", split, version)
                            for at, asked in enumerate(paragraph.asked + paragraph.open * (version == "v2.0"))
                        ],
                    }
                ],
            }
            for paragraph in made
        ],
    }


def _laid_out(asked: Asked, name: str, split: str, version: str) -> dict[str, Any]:
    most = 1 if split == "train" else _MOST_GOLD
    laid_out: dict[str, Any] = {
        "id": hashlib.blake2b(name.encode(), digest_size=12).hexdigest(),
        "question": asked.question,
        "answers": _listed(asked.answers[:most]),
    }
    if version == "v2.0":
        laid_out["is_impossible"] = not asked.answers
        if not asked.answers:
            laid_out["plausible_answers"] = _listed(asked.plausible[:1])
    return laid_out


def _listed(spans: tuple[Span, ...]) -> list[dict[str, Any]]:
    return [{"text": span.text, "answer_start": span.start} for span in spans]

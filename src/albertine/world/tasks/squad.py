"""SQuAD 1.1 and 2.0: questions whose answers are spans of a story, and unanswerable ones.

The span is searched in the sentence that tells the answering event. If a person or thing
is a pronoun there, the span is the last mention by name before it.
"""

import hashlib
import re
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from albertine.world.cast import Person, Place, Spot, Thing
from albertine.world.english.grammar import number
from albertine.world.english.speaker import price_in_words
from albertine.world.stories import Story, make_story
from albertine.world.tasks.queries import EventQuery, answerable_queries, unanswerable_query
from albertine.world.tasks.state_questions import end_state_questions

UniformRandom = Callable[[], float]


class AnswerSpan(NamedTuple):
    """A span of a text and its start offset in characters."""

    text: str
    start: int


class SquadQuestion(NamedTuple):
    """A question, its answers (empty if it is unanswerable), and plausible but wrong answers."""

    question: str
    answers: tuple[AnswerSpan, ...]
    plausible_answers: tuple[AnswerSpan, ...]
    origin: Any  # the query or state question that it was made from


def context_text(story: Story) -> str:
    """Return the text of a story as one paragraph."""
    return " ".join(story.sentences)


def answerable_questions(story: Story, random: UniformRandom, max_questions: int) -> list[SquadQuestion]:
    """Return up to `max_questions` random questions whose answers are spans of the story."""
    questions = []
    for query in answerable_queries(story):
        spans = _answers(query, story)
        if spans:
            questions.append(SquadQuestion(query.wording(random()), spans, (), query))
    questions += [
        SquadQuestion(standing.question, spans, (), standing)
        for standing in end_state_questions(story, random)
        if standing.asked_field != "number"
        and (spans := _spans(standing.answer, story, standing.deciding_event, standing.asked_field))
    ]
    return [questions.pop(int(random() * len(questions))) for _ in range(min(max_questions, len(questions)))]


def unanswerable_questions(story: Story, random: UniformRandom, max_questions: int) -> list[SquadQuestion]:
    """Return up to `max_questions` questions that the story does not answer, with plausible answers."""
    questions: dict[str, SquadQuestion] = {}
    for _ in range(3 * max_questions):
        made = unanswerable_query(story, random)
        if made is not None and (spans := _answers(made[1], story)):
            question = made[0].wording(random())
            questions[question] = SquadQuestion(question, (), spans, made[0])
    return list(questions.values())[:max_questions]


def _answers(query: EventQuery, story: Story) -> tuple[AnswerSpan, ...]:
    """Return the answer spans of a query, from a sentence that names all its fields."""
    fields = [*query.known_fields, query.asked_field]
    for at, event in enumerate(story.log):
        form = story.rendered.form_of_event[at]
        if not query.fits(event) or form is None:
            continue
        if all(event._fields.index(name) in form.fields for name in fields):
            return _spans(getattr(event, query.asked_field), story, at, query.asked_field)
    return ()


def _spans(value: Any, story: Story, at: int, asked: str) -> tuple[AnswerSpan, ...]:
    """Return the span of a value in the sentence of event `at`, and spans of its other names."""
    place = story.rendered.sentence_of_event[at]
    if place < 0:
        return ()
    names = [re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])") for name in _surface_forms(value, asked)]
    earliest = 0 if isinstance(value, (Person, Thing)) else place
    for sentence in range(place, earliest - 1, -1):
        start = sum(len(each) + 1 for each in story.sentences[:sentence])
        found = [
            AnswerSpan(m.group(), start + m.start())
            for name in names
            for m in name.finditer(story.sentences[sentence])
        ]
        if found:
            return _with_other_names(found[0], names, context_text(story))
    return ()


def _with_other_names(first: AnswerSpan, names: list[re.Pattern[str]], text: str) -> tuple[AnswerSpan, ...]:
    """Return the span and the first occurrence of every other name of the answer."""
    spans = [first]
    for name in names:
        found = name.search(text)
        if found and found.group() not in (span.text for span in spans):
            spans.append(AnswerSpan(found.group(), found.start()))
    return tuple(spans)


def _surface_forms(value: Any, asked: str) -> list[str]:
    if isinstance(value, Person):
        return [value.full_name, value.name]
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
_QUESTIONS_PER_STORY = 5  # answerable ones
# As in SQuAD 2.0: about a third of the training questions, half of the others.
_UNANSWERABLE_PER_STORY = {"train": 2, "dev": 4}
_MAX_ANSWERS = 3


class SquadParagraph(NamedTuple):
    """A story and its questions."""

    number: int
    story: Story
    answerable: list[SquadQuestion]
    unanswerable: list[SquadQuestion]  # only in version 2.0


def make_paragraphs(split: str, count: int, seed: int) -> list[SquadParagraph]:
    """Return stories with `count` answerable questions in total."""
    made: list[SquadParagraph] = []
    left = count
    number = 0
    while left > 0:
        story = make_story(seed, f"SQuAD {split}", number, _GENRES)
        random = Random(f"{seed} SQuAD {split} {number} questions").random
        questions = answerable_questions(story, random, min(_QUESTIONS_PER_STORY, left))
        if questions:
            made.append(
                SquadParagraph(
                    number,
                    story,
                    questions,
                    unanswerable_questions(story, random, _UNANSWERABLE_PER_STORY[split]),
                )
            )
            left -= len(questions)
        number += 1
    return made


def squad_file(made: list[SquadParagraph], split: str, version: str) -> dict[str, Any]:
    """Return the content of a JSON file of SQuAD, version "1.1" or "v2.0"."""
    return {
        "version": version,
        "data": [
            {
                "title": paragraph.story.scene.title,
                "paragraphs": [
                    {
                        "context": context_text(paragraph.story),
                        "qas": [
                            _question_json(asked, f"{split} {paragraph.number} {at}", split, version)
                            for at, asked in enumerate(
                                paragraph.answerable + paragraph.unanswerable * (version == "v2.0")
                            )
                        ],
                    }
                ],
            }
            for paragraph in made
        ],
    }


def _question_json(question: SquadQuestion, name: str, split: str, version: str) -> dict[str, Any]:
    most = 1 if split == "train" else _MAX_ANSWERS
    laid_out: dict[str, Any] = {
        "id": hashlib.blake2b(name.encode(), digest_size=12).hexdigest(),
        "question": question.question,
        "answers": _spans_json(question.answers[:most]),
    }
    if version == "v2.0":
        laid_out["is_impossible"] = not question.answers
        if not question.answers:
            laid_out["plausible_answers"] = _spans_json(question.plausible_answers[:1])
    return laid_out


def _spans_json(spans: tuple[AnswerSpan, ...]) -> list[dict[str, Any]]:
    return [{"text": span.text, "answer_start": span.start} for span in spans]

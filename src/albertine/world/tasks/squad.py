"""SQuAD 1.1 and 2.0: questions whose answers are spans of a story, and unanswerable ones.

The span is searched for in the sentence of the event that has the answer. If a person or
thing is mentioned by a pronoun there, the span is the last mention by name before it.
"""

import hashlib
import re
from random import Random
from typing import Any, NamedTuple

from albertine.randomness import UniformRandom
from albertine.world.cast import Person, Place, Spot, Thing
from albertine.world.english.grammar import number_in_words
from albertine.world.english.speaker import price_in_words
from albertine.world.stories import CORPUS_GENRES, Story, make_story
from albertine.world.tasks.queries import EventQuery, answerable_queries, unanswerable_query
from albertine.world.tasks.state_questions import end_state_questions


class AnswerSpan(NamedTuple):
    """A span of a text and its start offset in characters."""

    text: str
    start: int


class SquadQuestion(NamedTuple):
    """A question, its answers (empty if it is unanswerable), and plausible but wrong answers."""

    question: str
    answers: tuple[AnswerSpan, ...]
    plausible_answers: tuple[AnswerSpan, ...]
    origin: Any  # the query or state question that this question was generated from


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
        SquadQuestion(state_question.question, spans, (), state_question)
        for state_question in end_state_questions(story, random)
        if state_question.answer_field != "number"
        and (
            spans := _spans(
                state_question.answer, story, state_question.deciding_event, state_question.answer_field
            )
        )
    ]
    return [questions.pop(int(random() * len(questions))) for _ in range(min(max_questions, len(questions)))]


def unanswerable_questions(story: Story, random: UniformRandom, max_questions: int) -> list[SquadQuestion]:
    """Return up to `max_questions` questions that the story does not answer, with plausible answers."""
    questions: dict[str, SquadQuestion] = {}
    for _ in range(3 * max_questions):
        query_and_original = unanswerable_query(story, random)
        if query_and_original is None:
            continue
        query, original = query_and_original
        if spans := _answers(original, story):
            question = query.wording(random())
            questions[question] = SquadQuestion(question, (), spans, query)
    return list(questions.values())[:max_questions]


def _answers(query: EventQuery, story: Story) -> tuple[AnswerSpan, ...]:
    """Return the answer spans of a query, from a sentence that names all its fields."""
    fields = [*query.known_fields, query.answer_field]
    for index, event in enumerate(story.log):
        form = story.rendered.form_of_event[index]
        if not query.matches(event) or form is None:
            continue
        if all(event._fields.index(name) in form.fields for name in fields):
            return _spans(getattr(event, query.answer_field), story, index, query.answer_field)
    return ()


def _spans(value: Any, story: Story, event_index: int, answer_field: str) -> tuple[AnswerSpan, ...]:
    """Return the spans of a value in the text of a story; empty if none is found.

    The first span is in the sentence of the event. For a person or thing that this sentence does not name, it
    is in the last sentence before it that does. The others are the first occurrences of its other names.
    """
    sentence_index = story.rendered.sentence_of_event[event_index]
    if sentence_index < 0:
        return ()
    end = _NOT_A_COUNT if isinstance(value, int) and answer_field != "price" else r"(?![\w-])"
    names = [re.compile(rf"(?<![\w-]){re.escape(name)}{end}") for name in _surface_forms(value, answer_field)]
    earliest_index = 0 if isinstance(value, (Person, Thing)) else sentence_index
    for index in range(sentence_index, earliest_index - 1, -1):
        start = sum(len(previous) + 1 for previous in story.sentences[:index])
        spans = [
            AnswerSpan(match.group(), start + match.start())
            for name in names
            for match in name.finditer(story.sentences[index])
        ]
        if spans:
            return _with_other_names(spans[0], names, context_text(story))
    return ()


# The same number may be a price or the time of day.
_NOT_A_COUNT = r"(?![\w-])(?! (?:pence|o'clock|ounces|minutes)\b)"


def _with_other_names(first: AnswerSpan, names: list[re.Pattern[str]], text: str) -> tuple[AnswerSpan, ...]:
    """Return the span and the first occurrence of every other name of the answer."""
    spans = [first]
    for name in names:
        match = name.search(text)
        if match and match.group() not in (span.text for span in spans):
            spans.append(AnswerSpan(match.group(), match.start()))
    return tuple(spans)


def _surface_forms(value: Any, answer_field: str) -> list[str]:
    if isinstance(value, Person):
        return [value.full_name, value.name]
    if isinstance(value, Thing):
        return [value.name, value.kind]
    if isinstance(value, Spot):
        return [f"the {value.name}"]
    if isinstance(value, Place):
        return [value.the]
    if isinstance(value, int):
        return [price_in_words(value) if answer_field == "price" else number_in_words(value)]
    return [str(value)]


# --- the files

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
    paragraphs: list[SquadParagraph] = []
    remaining = count
    number = 0
    while remaining > 0:
        story = make_story(seed, f"SQuAD {split}", number, CORPUS_GENRES)
        random = Random(f"{seed} SQuAD {split} {number} questions").random
        questions = answerable_questions(story, random, min(_QUESTIONS_PER_STORY, remaining))
        if questions:
            paragraphs.append(
                SquadParagraph(
                    number,
                    story,
                    questions,
                    unanswerable_questions(story, random, _UNANSWERABLE_PER_STORY[split]),
                )
            )
            remaining -= len(questions)
        number += 1
    return paragraphs


def squad_json(paragraphs: list[SquadParagraph], split: str, version: str) -> dict[str, Any]:
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
                            _question_json(question, f"{split} {paragraph.number} {index}", split, version)
                            for index, question in enumerate(
                                paragraph.answerable + paragraph.unanswerable * (version == "v2.0")
                            )
                        ],
                    }
                ],
            }
            for paragraph in paragraphs
        ],
    }


def _question_json(question: SquadQuestion, name: str, split: str, version: str) -> dict[str, Any]:
    max_answers = 1 if split == "train" else _MAX_ANSWERS
    content: dict[str, Any] = {
        "id": hashlib.blake2b(name.encode(), digest_size=12).hexdigest(),
        "question": question.question,
        "answers": _spans_json(question.answers[:max_answers]),
    }
    if version == "v2.0":
        content["is_impossible"] = not question.answers
        if not question.answers:
            content["plausible_answers"] = _spans_json(question.plausible_answers[:1])
    return content


def _spans_json(spans: tuple[AnswerSpan, ...]) -> list[dict[str, Any]]:
    return [{"text": span.text, "answer_start": span.start} for span in spans]

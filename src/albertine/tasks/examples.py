"""Examples as people know them, before any tokenizer: four kinds, whatever file they came from.

Each knows where it stood (`place`), so that whatever is wrong with it can be told.
What is to be found out is None where the file does not say it.
"""

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class TextExample:
    """One text or two, with a label or a number.

    Attributes:
        location: file and line, to name when something is wrong with it.
        example_id: what the file calls it, or its number there.
        texts: one or two.
        label: of classification; as written in the file.
        value: of regression.
    """

    location: str
    example_id: str
    texts: tuple[str, ...]
    label: str | None = None
    value: float | None = None


@dataclass(frozen=True)
class TaggedExample:
    """Words, each with a tag."""

    location: str
    example_id: str
    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None


@dataclass(frozen=True)
class MultipleChoiceExample:
    """A question with options, one of them right; the passage may be empty.

    Attributes:
        group: what its score is also told by, as "middle" and "high" of RACE.
    """

    location: str
    example_id: str
    context: str
    question: str
    options: tuple[str, ...]
    correct_option: int | None = None
    group: str = ""


@dataclass(frozen=True)
class AnswerText:
    """A piece of a passage, and the character where it starts."""

    text: str
    start: int


@dataclass(frozen=True)
class QuestionExample:
    """A question on a passage, whose answer is a piece of it; with no answer, there is none to be found.

    Attributes:
        answers: those that count as right; None where the file does not say.
    """

    location: str
    example_id: str
    question: str
    context: str
    answers: tuple[AnswerText, ...] | None = field(default=None)


Example: TypeAlias = TextExample | TaggedExample | MultipleChoiceExample | QuestionExample

"""Examples as read from data, before tokenization."""

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True)
class Example(ABC):
    """Base class of all examples.

    Attributes:
        location: where it is in the data, such as file and line; for error messages.
        example_id: id in the data; if it has none, the number of the example in the data.
    """

    location: str
    example_id: str

    @property
    @abstractmethod
    def is_labelled(self) -> bool:
        """Whether the data contains the right answer, such as a label, tags or answers."""

    @property
    def num_options(self) -> int | None:
        """Number of options of a multiple-choice question; None for the other types of examples."""
        return None


@dataclass(frozen=True)
class TextExample(Example):
    """One text or a pair of texts, with a label or a number.

    Attributes:
        texts: one or two texts.
        label: label for classification, as written in the data; None if unknown.
        value: number for regression; None if unknown.
    """

    texts: tuple[str, ...]
    label: str | None = None
    value: float | None = None

    @property
    def is_labelled(self) -> bool:
        """Whether there is a label or a number."""
        return self.label is not None or self.value is not None


@dataclass(frozen=True)
class TaggedExample(Example):
    """A sentence as words, with a tag for each word; `tags` is None if they are unknown."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None

    @property
    def is_labelled(self) -> bool:
        """Whether there are tags."""
        return self.tags is not None


@dataclass(frozen=True)
class MultipleChoiceExample(Example):
    """A question with options, one of them correct.

    Attributes:
        context: the passage; may be empty.
        question: the question; may be empty.
        options: at least two options.
        correct_option: index of the correct option; None if unknown.
        group: name of a group of examples whose accuracy is also reported, such as "middle" or "high" in
            RACE; empty if there are no groups.
    """

    context: str
    question: str
    options: tuple[str, ...]
    correct_option: int | None = None
    group: str = ""

    @property
    def is_labelled(self) -> bool:
        """Whether the correct option is known."""
        return self.correct_option is not None

    @property
    def num_options(self) -> int:
        """Number of options."""
        return len(self.options)


@dataclass(frozen=True)
class AnswerText:
    """An answer that is a span of a passage.

    Attributes:
        text: the text of the span.
        start: index of its first character in the passage.
    """

    text: str
    start: int


@dataclass(frozen=True)
class QuestionExample(Example):
    """A question about a passage.

    Attributes:
        question: the question.
        context: the passage.
        answers: correct answers; empty if the question has no answer, None if unknown.
    """

    question: str
    context: str
    answers: tuple[AnswerText, ...] | None = None

    @property
    def is_labelled(self) -> bool:
        """Whether the answers are known."""
        return self.answers is not None

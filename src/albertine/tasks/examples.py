"""Examples as files hold them, before tokenization.

An example keeps its location in the data, for error messages. Its label is None if the
data does not give it.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass


@dataclass(frozen=True)
class Example(ABC):
    """Base class of all examples.

    Attributes:
        location: file and line, or their equivalent, for error messages.
        example_id: id in the file, or its number there.
    """

    location: str
    example_id: str

    @property
    @abstractmethod
    def is_labelled(self) -> bool:
        """Whether the data gives the label."""

    @property
    def num_options(self) -> int | None:
        """Number of options of a question; None for other examples."""
        return None


@dataclass(frozen=True)
class TextExample(Example):
    """One text or a pair, with a label or a number.

    Attributes:
        texts: one or two.
        label: label of classification, as written in the file.
        value: number of regression.
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
    """Words, each with a tag."""

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
        question: may be empty.
        options: at least two.
        correct_option: index of the correct option.
        group: group that accuracy is also reported for, as "middle" and "high" of RACE.
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
    """A span of a passage.

    Attributes:
        text: its characters.
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
        answers: correct answers; empty if the question has no answer, None if the data does not say.
    """

    question: str
    context: str
    answers: tuple[AnswerText, ...] | None = None

    @property
    def is_labelled(self) -> bool:
        """Whether the answers are known."""
        return self.answers is not None

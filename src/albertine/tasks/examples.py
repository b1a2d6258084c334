"""Examples as read from data, before tokenization."""

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

E = TypeVar("E", bound="Example")

_CHUNK_LENGTH = 2 << 20  # characters; encoding takes up to 400 bytes for each
_KEPT_CHUNK_LENGTH = 32 << 20  # characters of kept values, which are not encoded


@dataclass(frozen=True)
class Example(ABC):
    """Base class of all examples.

    Attributes:
        location: where it is in the data, such as file and line; for error messages.
        example_id: id in the data; if it has none, the number of the example in the data.
        kept: values of the columns to keep in a table of predictions; None if none are to be kept.
    """

    location: str
    example_id: str
    kept: Mapping[str, Any] | None = field(default=None, kw_only=True)

    @property
    @abstractmethod
    def right_answers(self) -> tuple[str, ...] | None:
        """Its label, number, tags or answers as text, maybe none of them; None if the data lacks them."""

    @property
    def is_labeled(self) -> bool:
        """Whether the data has the right answer."""
        return self.right_answers is not None

    @property
    @abstractmethod
    def all_texts(self) -> tuple[str, ...]:
        """All texts or words that a model reads of it."""

    @property
    def passage(self) -> str:
        """The passage that a question is about; empty if there is none."""
        return ""

    @property
    def label_names(self) -> tuple[str, ...]:
        """Its labels, if it is a text with labels."""
        return ()

    @property
    def length(self) -> int:
        """Number of characters of its texts."""
        return sum(map(len, self.all_texts))

    @property
    def kept_length(self) -> int:
        """Number of characters of its kept values."""
        values = (self.kept or {}).values()
        return sum(len(value if isinstance(value, str) else json.dumps(value)) for value in values)

    @property
    def num_options(self) -> int | None:
        """Number of options of a multiple-choice question; None for the other types of examples."""
        return None


def examples_checksum(examples: Iterable[Example]) -> str:
    """Return the checksum of the texts and right answers of examples, in their order."""
    digest = hashlib.sha256()
    for example in examples:
        digest.update(json.dumps((example.all_texts, example.right_answers)).encode())
    return digest.hexdigest()


def example_chunks(examples: Iterable[E], size: int) -> Iterator[list[E]]:
    """Yield examples in lists of at most `size`, shorter ones if the texts are long, to bound memory."""
    chunk: list[E] = []
    length = kept_length = 0
    for example in examples:
        is_long = length + example.length > _CHUNK_LENGTH or kept_length > _KEPT_CHUNK_LENGTH
        if chunk and (len(chunk) == size or is_long):
            yield chunk
            chunk, length, kept_length = [], 0, 0
        chunk.append(example)
        length += example.length
        kept_length += example.kept_length
    if chunk:
        yield chunk


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
    def right_answers(self) -> tuple[str, ...] | None:
        """The label or the number, if it is known."""
        if self.label is not None:
            return (self.label,)
        return None if self.value is None else (str(self.value),)

    @property
    def all_texts(self) -> tuple[str, ...]:
        """The one text, or both."""
        return self.texts

    @property
    def label_names(self) -> tuple[str, ...]:
        """The label, if it is known."""
        return () if self.label is None else (self.label,)


@dataclass(frozen=True)
class MultiLabelExample(TextExample):
    """One text or a pair of texts with any number of labels; `labels` is None if they are unknown."""

    labels: tuple[str, ...] | None = None

    @property
    def right_answers(self) -> tuple[str, ...] | None:
        """The labels, of which there may be none; None if they are unknown."""
        return self.labels

    @property
    def label_names(self) -> tuple[str, ...]:
        """The labels, if they are known."""
        return self.labels or ()


@dataclass(frozen=True)
class TaggedExample(Example):
    """A sentence as words, with a tag for each word; `tags` is None if they are unknown."""

    words: tuple[str, ...]
    tags: tuple[str, ...] | None = None

    @property
    def right_answers(self) -> tuple[str, ...] | None:
        """The tags, if they are known."""
        return self.tags

    @property
    def all_texts(self) -> tuple[str, ...]:
        """Its words."""
        return self.words


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
    def right_answers(self) -> tuple[str, ...] | None:
        """The text of the correct option, if it is known."""
        return None if self.correct_option is None else (self.options[self.correct_option],)

    @property
    def all_texts(self) -> tuple[str, ...]:
        """Passage, question and options."""
        return (self.context, self.question, *self.options)

    @property
    def passage(self) -> str:
        """The passage."""
        return self.context

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
    def right_answers(self) -> tuple[str, ...] | None:
        """The texts of the answers, none if the question has no answer; None if they are unknown."""
        return None if self.answers is None else tuple(answer.text for answer in self.answers)

    @property
    def all_texts(self) -> tuple[str, ...]:
        """Question and passage."""
        return self.question, self.context

    @property
    def passage(self) -> str:
        """The passage."""
        return self.context

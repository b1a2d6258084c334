"""The base class of classification and regression: one text or a pair, encoded as one sequence."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from albertine.display import counted
from albertine.errors import InputError
from albertine.tasks.card import TaskCard
from albertine.tasks.examples import Example, TextExample
from albertine.tasks.formats.columns import KeepRequest
from albertine.tasks.formats.glue import GLUE
from albertine.tasks.formats.texts import has_texts_as_lines, read_texts
from albertine.tasks.outcomes import ShownText, excerpt
from albertine.tasks.sequences import EncodedExample, Ids, SequenceBuilder, TaskSample
from albertine.tasks.settings import DataSettings
from albertine.tasks.types.inputs import InputField, input_location, input_rows
from albertine.tasks.types.task_type import TaskType, column_options
from albertine.text.read_errors import ReadErrors
from albertine.text.tokenizer import Tokenizer


class TextTask(TaskType):
    """Base class of classification and regression.

    Attributes:
        num_texts: number of texts of an example, 1 or 2; None if unknown.
    """

    column_settings: ClassVar[tuple[str, ...]] = ("text", "text_pair", "label", "id")
    joinable_columns: ClassVar[tuple[str, ...]] = ("text", "text_pair")

    def __init__(self, tokenizer: Tokenizer, max_length: int, num_texts: int | None):
        self._builder = SequenceBuilder(tokenizer, max_length)
        self.num_texts = num_texts

    @classmethod
    def read_examples(
        cls,
        source: str,
        columns: DataSettings,
        errors: ReadErrors,
        *,
        require_labels: bool,
        require_ids: bool,
        keep: KeepRequest | None = None,
    ) -> Iterator[Example]:
        """Yield the examples of a table, or the lines of a file of texts, which have no labels."""
        if not has_texts_as_lines(source):
            yield from super().read_examples(
                source, columns, errors, require_labels=require_labels, require_ids=require_ids, keep=keep
            )
            return
        missing = "labels" if require_labels else "second texts" if columns.text_pair else None
        if missing is not None:
            raise InputError(f"{source}: lines of text, which have no {missing}; give a table, such as .csv")
        yield from read_texts(source, DataSettings(), errors)

    @classmethod
    def required_columns(cls, columns: DataSettings, *, require_labels: bool) -> dict[str, str]:
        """Return the columns of text, text pair and label, each with its command-line option.

        Args:
            columns: settings that hold the names of the columns.
            require_labels: whether the table must have a column of labels.
        """
        pair = ["text_pair"] if columns.text_pair else []
        return column_options(columns, "text", *pair, *(["label"] if require_labels else []))

    def encode(self, examples: Sequence[TextExample]) -> list[EncodedExample]:
        """Return each example as one sample of one sequence.

        As in the reference code, a second text without tokens is left out with its separator.
        """
        token_ids = iter(self._builder.encode([text for example in examples for text in example.texts]))
        encoded = []
        for example in examples:
            self._check_number_of_texts(example)
            first, *rest = (next(token_ids) for _ in example.texts)
            parts: tuple[Ids, ...] = (first[: self._builder.max_length - 2],)
            if rest and len(rest[0]):
                parts = self._builder.truncated_pair(first, rest[0])
            ids, segments = self._builder.build(*parts)
            num_truncated = sum(map(len, (first, *rest))) - sum(map(len, parts))
            sample = TaskSample((ids,), (segments,), self.label_target(example))
            encoded.append(EncodedExample((sample,), num_truncated_tokens=num_truncated))
        return encoded

    def _check_number_of_texts(self, example: TextExample) -> None:
        if self.num_texts not in (None, len(example.texts)):
            pairs = (
                "pairs of texts; give a table with two, and name the column of the second with --text-pair"
            )
            judged = pairs if self.num_texts == 2 else "single texts; leave out --text-pair"
            given = counted(len(example.texts), "text")
            raise InputError(f"{example.location}: {given}, but the model judges {judged}")

    @abstractmethod
    def label_target(self, example: TextExample) -> Any:
        """Return the training target of an example; None if it is unlabeled."""

    def target_counts(self, samples: Sequence[TaskSample]) -> Sequence[int]:
        """Return the number of targets of the only objective: one per sample."""
        return (len(samples),)

    def parse_inputs(self, inputs: Mapping[str, Any]) -> tuple[list[TextExample], bool]:
        """Return the examples in a pipeline's arguments, and whether they were given as lists.

        Args:
            inputs: `text` and optionally `text_pair`, each one text or a list of texts.
        """
        names = ("text",) if inputs.get("text_pair") is None else ("text", "text_pair")
        rows, is_batch = input_rows(**{name: inputs.get(name) for name in names})
        examples = [TextExample(input_location(index), str(index), row) for index, row in enumerate(rows)]
        return examples, is_batch

    def input_fields(self) -> tuple[InputField, ...]:
        """Return the fields of a request: `text`, and `text_pair` unless examples have only one text."""
        text = InputField("text", "The garden was a joy to see.")
        match self.num_texts:
            case 1:
                return (text,)
            case 2:
                return text, InputField("text_pair", "Somebody saw a garden.")
        return text, InputField("text_pair", "", required=False)


def shown_texts(example: TextExample) -> tuple[ShownText, ...]:
    """Return the texts of an example for reports; two texts have names."""
    names = ("",) if len(example.texts) == 1 else ("first text", "second text")
    return tuple(excerpt(name, text) for name, text in zip(names, example.texts, strict=True))


def num_texts_of(card: TaskCard) -> int | None:
    """Return the number of texts of an example; None if the card does not determine it."""
    if card.task in GLUE:
        return len(GLUE[card.task].text_columns)
    if not card.columns:
        return None
    return 2 if card.columns.get("text_pair") else 1

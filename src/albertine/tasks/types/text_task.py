"""What classification and regression share: one text or a pair, encoded as one sequence."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from albertine.tasks.card import TaskCard
from albertine.tasks.examples import TextExample
from albertine.tasks.formats.glue import GLUE
from albertine.tasks.sequences import EncodedExample, SequenceBuilder, TaskSample
from albertine.tasks.settings import DataSettings
from albertine.tasks.types.inputs import InputField, input_location, input_rows
from albertine.tasks.types.task_type import TaskType, column_options
from albertine.text.tokenizer import Tokenizer


class TextTask(TaskType):
    """Base class of classification and regression.

    Attributes:
        num_texts: texts of an example, 1 or 2; None if the card does not say.
    """

    def __init__(self, tokenizer: Tokenizer, max_length: int, num_texts: int | None):
        self._builder = SequenceBuilder(tokenizer, max_length)
        self.num_texts = num_texts

    @classmethod
    def required_columns(cls, columns: DataSettings, *, require_labels: bool) -> dict[str, str]:
        """Return the columns of text, text pair and label."""
        pair = ["text_pair"] if columns.text_pair else []
        return column_options(columns, "text", *pair, *(["label"] if require_labels else []))

    def encode(self, examples: Sequence[TextExample]) -> list[EncodedExample]:
        """Return one sample of one sequence for each example."""
        token_ids = iter(self._builder.encode([text for one in examples for text in one.texts]))
        encoded = []
        for example in examples:
            first, *rest = (next(token_ids) for _ in example.texts)
            if rest:
                ids, segments = self._builder.build(*self._builder.truncated_pair(first, rest[0]))
            else:
                ids, segments = self._builder.build(first[: self._builder.max_length - 2])
            encoded.append(EncodedExample((TaskSample((ids,), (segments,), self.label_target(example)),)))
        return encoded

    @abstractmethod
    def label_target(self, example: TextExample) -> Any:
        """Return the target of an example; None if it is unlabelled."""

    def target_counts(self, samples: Sequence[TaskSample]) -> Sequence[int]:
        """Return the number of samples."""
        return (len(samples),)

    def parse_inputs(self, inputs: Mapping[str, Any]) -> tuple[list[TextExample], bool]:
        """Return examples from `text` and maybe `text_pair`, each one text or a list."""
        names = ("text",) if inputs.get("text_pair") is None else ("text", "text_pair")
        rows, several = input_rows(**{name: inputs.get(name) for name in names})
        return [TextExample(input_location(at), str(at), row) for at, row in enumerate(rows)], several

    def input_fields(self) -> tuple[InputField, ...]:
        """Return the field of the text, and of the text pair if there may be one."""
        text = InputField("text", "The garden was a joy to see.")
        match self.num_texts:
            case 1:
                return (text,)
            case 2:
                return text, InputField("text_pair", "Somebody saw a garden.")
        return text, InputField("text_pair", "", required=False)


def num_texts_of(card: TaskCard) -> int | None:
    """Return the number of texts of an example; None if the card does not say."""
    if card.task in GLUE:
        return len(GLUE[card.task].text_columns)
    return (2 if card.columns.get("text_pair") else 1) if card.columns else None

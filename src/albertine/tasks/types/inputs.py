"""Inputs of predictions from memory: the fields of a request, and the arguments of a pipeline as rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from albertine.errors import InputError
from albertine.text.unicode_check import check_text

FieldType = Literal["text", "words", "texts"]
_FIELD_TYPE_DESCRIPTIONS = {
    "text": "a text",
    "words": "a text, or a list of its words",
    "texts": "a list of texts",
}
EXAMPLE_CONTEXT = "Ida put the key in the drawer. Then she went to the market and bought a pear."
EXAMPLE_QUESTION = "Where is the key?"


@dataclass(frozen=True)
class InputField:
    """A field of a request.

    Attributes:
        name: key in JSON.
        example: initial value on the server's web page.
        type: type of the value.
        required: whether a request must have it.
        count: number of texts that a list must have; None if any number is valid.
    """

    name: str
    example: str
    type: FieldType = "text"
    required: bool = True
    count: int | None = None

    @property
    def description(self) -> str:
        """The type in words."""
        return _FIELD_TYPE_DESCRIPTIONS[self.type]

    def check(self, value: Any) -> None:
        """Raise `InputError` if a value has another type."""
        is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
        is_valid = {
            "text": isinstance(value, str),
            "texts": is_list,
            "words": is_list or isinstance(value, str),
        }
        if not is_valid[self.type]:
            raise InputError(f"{self.name}: must be {self.description}")


def is_list(value: Any) -> bool:
    """Return whether a value is a list and not one text."""
    return isinstance(value, Sequence) and not isinstance(value, str)


def input_rows(**inputs: Any) -> tuple[list[tuple[str, ...]], bool]:
    """Return inputs as rows, and whether lists were given.

    Args:
        inputs: one text each, which gives one row, or lists of the same length.
    """
    is_batch = any(is_list(value) for value in inputs.values())
    single = next((name for name, value in inputs.items() if is_batch and not is_list(value)), None)
    if single is not None:
        first = next(name for name, value in inputs.items() if is_list(value))
        raise InputError(f"{single}: must be a list, as {first} is")
    columns = []
    for name, value in inputs.items():
        texts = list(value) if is_list(value) else [value]
        check_texts(name, texts)
        columns.append(texts)
    if len({len(column) for column in columns}) > 1:
        raise InputError(f"{', '.join(inputs)}: lists of different lengths")
    return list(zip(*columns, strict=True)), is_batch


def check_texts(name: str, texts: Sequence[Any]) -> None:
    """Raise `InputError` if an item is not text or not valid Unicode."""
    for text in texts:
        check_text(text, name)


def input_location(index: int) -> str:
    """Return the location of an example among the inputs, for error messages."""
    return f"example {index}"

"""A finding: what is wrong in the data, how often, an example with its place, and what to do."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Protocol

from albertine.display import display_text

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True)
class Finding:
    """One kind of problem.

    Attributes:
        severity: "error" if the data should not be used as it is, "warning" if results will suffer, "note"
            for a fact.
        kind: stable name of the kind, for programs.
        message: what was found.
        count: how many lines, rows, texts or labels have it.
        example: one of them.
        location: file and line of the example.
        advice: what to do.
    """

    severity: Severity
    kind: str
    message: str
    count: int = 0
    example: str = ""
    location: str = ""
    advice: str = ""


@dataclass
class Tally:
    """How many places have a problem, and the first of them."""

    count: int = 0
    example: str = ""
    location: str = ""

    def add(self, location: str, example: str, count: int = 1) -> None:
        """Count one or more places."""
        if not self.count:
            self.example, self.location = display_text(example), location
        self.count += count

    def add_all(self, other: "Tally") -> None:
        """Count the places of another tally, which come after those of this one."""
        if not self.count:
            self.example, self.location = other.example, other.location
        self.count += other.count


@dataclass(frozen=True)
class DataItem:
    """A row of a table, or a document of a text source.

    Attributes:
        location: file and line, or file and number of the document.
        texts: one text, or two; of a question with options, its passage and itself, as far as it has them.
        labels: the label as text, or for multi-label rows any number of them; of a question, its answers;
            None if there is no label column or its cell is empty.
        split: "train" or "dev".
        sentences: sentences of a document; empty for a row of a table with a label column, with a second
            text, or that is compared with a dev table.
        has_label: whether there is a label column, with classes or numbers.
        is_multi_label: whether the label is a list, or several columns of 0 and 1.
        are_tags: whether each word has one of the labels.
        has_decimal_commas: whether numbers of its table may have a decimal comma.
        options: the options of a question, of which a sequence has one at a time.
        passage: the passage that a question is about, one of `texts`; empty if there is none.
    """

    location: str
    texts: tuple[str, ...]
    labels: tuple[str, ...] | None
    split: Literal["train", "dev"]
    sentences: tuple[str, ...] = ()
    has_label: bool = False
    is_multi_label: bool = False
    are_tags: bool = False
    has_decimal_commas: bool = False
    options: tuple[str, ...] = ()
    passage: str = ""

    @property
    def all_texts(self) -> tuple[str, ...]:
        """Its texts and options."""
        return self.texts + self.options


class Check(Protocol):
    """Collects one kind of problem from all items."""

    def observe(self, item: DataItem) -> None:
        """Look at an item; the memory that this takes is bounded."""

    def findings(self) -> Iterable[Finding]:
        """Yield what was found, after the last item."""

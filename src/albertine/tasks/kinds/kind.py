"""What every kind of task can do, and what it works on.

An example becomes a sheet: one or more samples to learn from, each of one or more
sequences. A long passage makes several samples, a question with options one sample of
several sequences. A head's scores of a sample are a row of numbers; those of several
models can be averaged as they are, and an answer is read from them.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray

from albertine.errors import InputError
from albertine.model.strip import Strip
from albertine.settings import HeadSettings
from albertine.text.tokenizer import Tokenizer
from albertine.text.words import WordEncoder
from albertine.train.work import Part

Ids: TypeAlias = NDArray[np.int32]
Row: TypeAlias = NDArray[np.float32]
Metrics: TypeAlias = dict[str, float]

_ENOUGH = 20  # answers to judge by
_NEARLY = 0.9


@dataclass(frozen=True)
class Sample:
    """What is learned from as one.

    Attributes:
        ids: of each of its sequences.
        types: the segment of each token of each sequence.
        target: what is to be found out; None where nobody says it.
    """

    ids: tuple[Ids, ...]
    types: tuple[Ids, ...]
    target: Any = None

    @property
    def tokens(self) -> int:
        """How many tokens its sequences have."""
        return sum(map(len, self.ids))


@dataclass(frozen=True)
class Sheet:
    """An example in the form that a network takes; `notes` are for whoever reads the answer."""

    samples: tuple[Sample, ...]
    notes: Any = None


class Kind(Protocol):
    """A kind of task, for one task.

    Attributes:
        head: the head it needs.
        parts: the names of its objectives.
    """

    head: HeadSettings
    parts: tuple[str, ...]

    def sheets(self, examples: Sequence[Any]) -> list[Sheet]:
        """Encode examples."""

    def targets(self, samples: Sequence[Sample]) -> Any:
        """Return what the head is to find out about samples, as it takes it."""

    def counts(self, samples: Sequence[Sample]) -> Sequence[int]:
        """Return how many things each objective's mean is over."""

    def measured(self, output: Any, targets: Any, strip: Strip) -> Sequence[Part]:
        """Return each objective's loss, and how much was right."""

    def rows(self, output: Any, strip: Strip) -> list[Row]:
        """Return the scores of each sample, ready to be averaged with those of other models."""

    def answer(self, example: Any, sheet: Sheet, rows: Sequence[Row]) -> dict[str, Any]:
        """Return what the scores of an example's samples say, as JSON would have it."""

    def assess(self, examples: Sequence[Any], answers: Sequence[Mapping[str, Any]]) -> Metrics:
        """Score answers as the task's official script does."""

    def settle(self, examples: Sequence[Any], answers: Sequence[Mapping[str, Any]]) -> bool:  # noqa: ARG002
        """Find what only examples with answers can tell; say whether answers are to be read anew."""
        return False

    def collapsed(self, examples: Sequence[Any], answers: Sequence[Mapping[str, Any]]) -> str | None:
        """Say so if all answers are one and the same, where what is right is not."""


class Frames:
    """Puts texts into frames: [CLS] text [SEP], or [CLS] text [SEP] other [SEP]."""

    def __init__(self, tokenizer: Tokenizer, max_length: int):
        self.tokenizer, self.max_length = tokenizer, max_length
        self._encoder = WordEncoder(tokenizer)

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of texts, without special pieces."""
        flat, counts = self._encoder.encode(texts)
        return np.split(flat.astype(np.int32), counts.cumsum()[:-1]) if len(texts) else []

    def without_special(self, ids: Ids) -> Ids:
        """Take special pieces that a text spells out for what they are there, unknown."""
        special = self.tokenizer.special
        mine = [one for one in vars(special).values() if one != special.unknown]
        return np.where(np.isin(ids, mine), np.int32(special.unknown), ids).astype(np.int32)

    def framed(self, first: Ids, second: Ids | None = None) -> tuple[Ids, Ids]:
        """Return ids and types of a frame."""
        opening, closing = self.tokenizer.special.opening, self.tokenizer.special.closing
        parts: list[Any] = [[opening], first, [closing]]
        if second is not None:
            parts += [second, [closing]]
        ids = np.concatenate(parts).astype(np.int32)
        types = np.zeros(len(ids), np.int32)
        types[len(first) + 2 :] = 1
        return ids, types

    def fitted(self, first: Ids, second: Ids) -> tuple[Ids, Ids]:
        """Cut the ends of two texts, of the longer one first, so that they fit into a frame."""
        room = self.max_length - 3
        over = len(first) + len(second) - room
        if over > 0:
            # Down to equal lengths only the longer one loses pieces; then they take turns.
            small = min(len(first), len(second), room // 2)
            large = room - small
            if len(first) > len(second):
                return first[:large], second[:small]
            return first[:small], second[:large]
        return first, second


def strip_of(samples: Sequence[Sample]) -> Strip:
    """Lay the sequences of samples end to end."""
    sequences = [one for sample in samples for one in sample.ids]
    types = [one for sample in samples for one in sample.types]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in sequences], dtype=np.int64)])
    return Strip(_row(sequences), _row(types), torch.from_numpy(offsets.astype(np.int64)))


def _row(parts: Sequence[Ids]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64))


def in_chunks(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Yield items so many at a time."""
    for at in range(0, len(items), size):
        yield items[at : at + size]


def require(value: Any, place: str, what: str) -> Any:
    """Return what an example must have to be learned from or scored."""
    if value is None:
        raise InputError(f"{place}: has no {what}, which training and scoring need")
    return value


def all_the_same(answers: Sequence[Any], truths: Sequence[Any], say: Callable[[Any], str]) -> str | None:
    """Say so if all answers are one, where what is right is not nearly always one."""
    commonest = max(Counter(truths).values(), default=0)
    if len(answers) < _ENOUGH or commonest > _NEARLY * len(truths) or len(set(answers)) > 1:
        return None
    return f"every answer is {say(answers[0])}"

"""Encoded examples: samples with their token ids, sequences with special tokens, strips, micro-batches."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray

from albertine.model.strip import Strip
from albertine.text.tokenizer import Tokenizer
from albertine.text.word_encoder import WordEncoder

T = TypeVar("T")
Ids: TypeAlias = NDArray[np.int32]


@dataclass(frozen=True)
class TaskSample:
    """The unit of training and scoring.

    A long passage gives several samples; a question with options gives one sample of several sequences.

    Attributes:
        ids: token ids of each sequence, each `[tokens]`.
        segments: segment of each token of each sequence, each `[tokens]`.
        target: what the head is to predict; None if unknown.
    """

    ids: tuple[Ids, ...]
    segments: tuple[Ids, ...]
    target: Any = None

    @property
    def num_tokens(self) -> int:
        """Number of tokens of all its sequences."""
        return sum(map(len, self.ids))


@dataclass(frozen=True)
class EncodedExample:
    """An example as the model takes it.

    Attributes:
        samples: its samples, at least one.
        details: what the task type needs besides to turn scores into a prediction.
    """

    samples: tuple[TaskSample, ...]
    details: Any = None


class SequenceBuilder:
    """Builds `[CLS] text [SEP]` and `[CLS] text [SEP] text [SEP]`."""

    def __init__(self, tokenizer: Tokenizer, max_length: int):
        self.tokenizer, self.max_length = tokenizer, max_length
        self._encoder = WordEncoder(tokenizer)

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Return the token ids of texts, without special tokens."""
        flat, counts = self._encoder.encode(texts)
        return np.split(flat.astype(np.int32), counts.cumsum()[:-1]) if len(texts) else []

    def without_special_tokens(self, ids: Ids) -> Ids:
        """Replace special tokens that a text spells out by the unknown token."""
        special = self.tokenizer.special_ids
        special_ids = [one for one in vars(special).values() if one != special.unk]
        return np.where(np.isin(ids, special_ids), np.int32(special.unk), ids).astype(np.int32)

    def build(self, first: Ids, second: Ids | None = None) -> tuple[Ids, Ids]:
        """Return token ids and segments of a sequence, each `[tokens]`."""
        cls, sep = self.tokenizer.special_ids.cls, self.tokenizer.special_ids.sep
        parts: list[Any] = [[cls], first, [sep]]
        if second is not None:
            parts += [second, [sep]]
        ids = np.concatenate(parts).astype(np.int32)
        segments = np.zeros(len(ids), np.int32)
        segments[len(first) + 2 :] = 1
        return ids, segments

    def truncated_pair(self, first: Ids, second: Ids) -> tuple[Ids, Ids]:
        """Truncate the ends of two texts, the longer one first, so that the pair fits into a sequence."""
        max_tokens = self.max_length - 3
        excess = len(first) + len(second) - max_tokens
        if excess > 0:
            # Only the longer text loses tokens until both are equally long; then both lose them in turn.
            shorter_length = min(len(first), len(second), max_tokens // 2)
            longer_length = max_tokens - shorter_length
            if len(first) > len(second):
                return first[:longer_length], second[:shorter_length]
            return first[:shorter_length], second[:longer_length]
        return first, second


def strip_from_samples(samples: Sequence[TaskSample]) -> Strip:
    """Return a strip of all sequences of some samples, in order."""
    sequences = [one for sample in samples for one in sample.ids]
    segments = [one for sample in samples for one in sample.segments]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in sequences], dtype=np.int64)])
    return Strip(_flat_tensor(sequences), _flat_tensor(segments), torch.from_numpy(offsets.astype(np.int64)))


def _flat_tensor(parts: Sequence[Ids]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64))


def split_by_tokens(items: Iterable[T], num_tokens: Callable[[T], int], max_tokens: int) -> Iterator[list[T]]:
    """Yield consecutive items in groups of at most `max_tokens`; a longer item is a group by itself."""
    group: list[T] = []
    total = 0
    for item in items:
        count = num_tokens(item)
        if group and total + count > max_tokens:
            yield group
            group, total = [], 0
        group.append(item)
        total += count
    if group:
        yield group

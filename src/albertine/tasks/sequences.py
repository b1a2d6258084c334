"""Encoded examples: samples of token ids, the builder of their sequences, and strips of samples."""

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

    An example with a long passage has several samples. A multiple-choice question is one sample with a
    sequence for each option, or a sample for each option if it may have any number of them.

    Attributes:
        ids: token ids of each sequence, each `[tokens]`.
        segments: segment of each token of each sequence, each `[tokens]`.
        target: what the head should predict, in a form that depends on the task type; None if unknown.
        parts: start and end of each part of each sequence, each `[parts, 2]`, see `Strip`; empty if the
            task type has no parts.
    """

    ids: tuple[Ids, ...]
    segments: tuple[Ids, ...]
    target: Any = None
    parts: tuple[Ids, ...] = ()

    @property
    def num_tokens(self) -> int:
        """Number of tokens of all its sequences."""
        return sum(map(len, self.ids))


@dataclass(frozen=True)
class EncodedExample:
    """An example as token ids.

    Attributes:
        samples: its samples, at least one.
        details: further data with which the task type turns scores into a prediction, such as the windows
            of a passage.
        num_truncated_tokens: number of tokens that did not fit into the longest sequence.
    """

    samples: tuple[TaskSample, ...]
    details: Any = None
    num_truncated_tokens: int = 0

    @property
    def num_tokens(self) -> int:
        """Number of tokens of all its samples."""
        return sum(sample.num_tokens for sample in self.samples)


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
        """Return token ids of a text, with the unknown token for each special token that it spells out."""
        special = self.tokenizer.special_ids
        replaced_ids = [token_id for token_id in vars(special).values() if token_id != special.unk]
        return np.where(np.isin(ids, replaced_ids), np.int32(special.unk), ids).astype(np.int32)

    def build(self, first: Ids, second: Ids | None = None) -> tuple[Ids, Ids]:
        """Return token ids and segments of a sequence of one or two texts, each `[tokens]`."""
        cls, sep = self.tokenizer.special_ids.cls, self.tokenizer.special_ids.sep
        parts: list[Any] = [[cls], first, [sep]]
        if second is not None:
            parts += [second, [sep]]
        ids = np.concatenate(parts).astype(np.int32)
        segments = np.zeros(len(ids), np.int32)
        segments[len(first) + 2 :] = 1
        return ids, segments

    def truncated_pair(self, first: Ids, second: Ids) -> tuple[Ids, Ids]:
        """Return two texts, truncated at their ends, the longer one first, to fit into one sequence."""
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
    """Return a strip of all sequences of the samples, in order."""
    sequences = [ids for sample in samples for ids in sample.ids]
    segments = [sequence_segments for sample in samples for sequence_segments in sample.segments]
    offsets = np.concatenate([[0], np.cumsum([len(ids) for ids in sequences], dtype=np.int64)])
    parts = [sequence_parts for sample in samples for sequence_parts in sample.parts]
    return Strip(
        _flat_tensor(sequences),
        _flat_tensor(segments),
        torch.from_numpy(offsets.astype(np.int64)),
        torch.from_numpy(np.stack(parts).astype(np.int64)) if parts else None,
    )


def _flat_tensor(parts: Sequence[Ids]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64))


def longest_first_groups(samples: Sequence[TaskSample], max_tokens: int) -> Iterator[list[int]]:
    """Yield the indices of all samples in groups of at most `max_tokens`, the longest samples first."""
    longest_first = sorted(range(len(samples)), key=lambda index: -samples[index].num_tokens)
    return split_by_tokens(longest_first, lambda index: samples[index].num_tokens, max_tokens)


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

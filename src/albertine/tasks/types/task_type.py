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
from albertine.text.word_encoder import WordEncoder
from albertine.train.trainable import ObjectiveLoss

Ids: TypeAlias = NDArray[np.int32]
SampleScores: TypeAlias = NDArray[np.float32]
Metrics: TypeAlias = dict[str, float]

_MIN_PREDICTIONS = 20  # answers to judge by
_MAJORITY_SHARE = 0.9


@dataclass(frozen=True)
class TaskSample:
    """What is learned from as one.

    Attributes:
        ids: of each of its sequences.
        segments: the segment of each token of each sequence.
        target: what is to be found out; None where nobody says it.
    """

    ids: tuple[Ids, ...]
    segments: tuple[Ids, ...]
    target: Any = None

    @property
    def num_tokens(self) -> int:
        """How many tokens its sequences have."""
        return sum(map(len, self.ids))


@dataclass(frozen=True)
class EncodedExample:
    """An example in the form that a network takes; `details` are for whoever reads the answer."""

    samples: tuple[TaskSample, ...]
    details: Any = None


class TaskType(Protocol):
    """A kind of task, for one task.

    Attributes:
        head_settings: the head it needs.
        objectives: the names of its objectives.
    """

    head_settings: HeadSettings
    objectives: tuple[str, ...]

    def encode(self, examples: Sequence[Any]) -> list[EncodedExample]:
        """Encode examples."""

    def targets(self, samples: Sequence[TaskSample]) -> Any:
        """Return what the head is to find out about samples, as it takes it."""

    def target_counts(self, samples: Sequence[TaskSample]) -> Sequence[int]:
        """Return how many things each objective's mean is over."""

    def objective_losses(self, output: Any, targets: Any, strip: Strip) -> Sequence[ObjectiveLoss]:
        """Return each objective's loss, and how much was right."""

    def sample_scores(self, output: Any, strip: Strip) -> list[SampleScores]:
        """Return the scores of each sample, ready to be averaged with those of other models."""

    def prediction(
        self, example: Any, encoded: EncodedExample, scores: Sequence[SampleScores]
    ) -> dict[str, Any]:
        """Return what the scores of an example's samples say, as JSON would have it."""

    def compute_metrics(self, examples: Sequence[Any], predictions: Sequence[Mapping[str, Any]]) -> Metrics:
        """Score answers as the task's official script does."""

    def fit_threshold(self, examples: Sequence[Any], predictions: Sequence[Mapping[str, Any]]) -> bool:  # noqa: ARG002
        """Find what only examples with answers can tell; say whether answers are to be read anew."""
        return False

    def collapse_reason(
        self, examples: Sequence[Any], predictions: Sequence[Mapping[str, Any]]
    ) -> str | None:
        """Say so if all answers are one and the same, where what is right is not."""


class SequenceBuilder:
    """Puts texts into frames: [CLS] text [SEP], or [CLS] text [SEP] other [SEP]."""

    def __init__(self, tokenizer: Tokenizer, max_length: int):
        self.tokenizer, self.max_length = tokenizer, max_length
        self._encoder = WordEncoder(tokenizer)

    def encode(self, texts: Sequence[str]) -> list[Ids]:
        """Return the ids of texts, without special pieces."""
        flat, counts = self._encoder.encode(texts)
        return np.split(flat.astype(np.int32), counts.cumsum()[:-1]) if len(texts) else []

    def without_special_tokens(self, ids: Ids) -> Ids:
        """Take special pieces that a text spells out for what they are there, unknown."""
        special = self.tokenizer.special_ids
        special_ids = [one for one in vars(special).values() if one != special.unk]
        return np.where(np.isin(ids, special_ids), np.int32(special.unk), ids).astype(np.int32)

    def build(self, first: Ids, second: Ids | None = None) -> tuple[Ids, Ids]:
        """Return ids and types of a frame."""
        cls, sep = self.tokenizer.special_ids.cls, self.tokenizer.special_ids.sep
        parts: list[Any] = [[cls], first, [sep]]
        if second is not None:
            parts += [second, [sep]]
        ids = np.concatenate(parts).astype(np.int32)
        segments = np.zeros(len(ids), np.int32)
        segments[len(first) + 2 :] = 1
        return ids, segments

    def truncated_pair(self, first: Ids, second: Ids) -> tuple[Ids, Ids]:
        """Cut the ends of two texts, of the longer one first, so that they fit into a frame."""
        max_tokens = self.max_length - 3
        excess = len(first) + len(second) - max_tokens
        if excess > 0:
            # Down to equal lengths only the longer one loses pieces; then they take turns.
            shorter_length = min(len(first), len(second), max_tokens // 2)
            longer_length = max_tokens - shorter_length
            if len(first) > len(second):
                return first[:longer_length], second[:shorter_length]
            return first[:shorter_length], second[:longer_length]
        return first, second


def strip_from_samples(samples: Sequence[TaskSample]) -> Strip:
    """Lay the sequences of samples end to end."""
    sequences = [one for sample in samples for one in sample.ids]
    segments = [one for sample in samples for one in sample.segments]
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in sequences], dtype=np.int64)])
    return Strip(_flat_tensor(sequences), _flat_tensor(segments), torch.from_numpy(offsets.astype(np.int64)))


def _flat_tensor(parts: Sequence[Ids]) -> torch.Tensor:
    return torch.from_numpy(np.concatenate([np.empty(0, np.int64), *parts]).astype(np.int64))


def batched(items: Sequence[Any], size: int) -> Iterator[Sequence[Any]]:
    """Yield items so many at a time."""
    for at in range(0, len(items), size):
        yield items[at : at + size]


def require_label(value: Any, place: str, what: str) -> Any:
    """Return what an example must have to be learned from or scored."""
    if value is None:
        raise InputError(f"{place}: has no {what}, which training and scoring need")
    return value


def identical_predictions(
    predictions: Sequence[Any], labels: Sequence[Any], describe: Callable[[Any], str]
) -> str | None:
    """Say so if all answers are one, where what is right is not nearly always one."""
    most_frequent_count = max(Counter(labels).values(), default=0)
    if (
        len(predictions) < _MIN_PREDICTIONS
        or most_frequent_count > _MAJORITY_SHARE * len(labels)
        or len(set(predictions)) > 1
    ):
        return None
    return f"every answer is {describe(predictions[0])}"

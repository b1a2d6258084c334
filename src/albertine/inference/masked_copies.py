"""The masked copies of texts from which pseudo-log-likelihoods are computed, each different one once."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from albertine.model.strip import Strip
from albertine.tasks.sequences import Ids

ScoringMethod = Literal["word-l2r", "token", "left-to-right"]
SCORING_METHODS: tuple[ScoringMethod, ...] = get_args(ScoringMethod)
MASKED_METHODS: tuple[ScoringMethod, ...] = ("word-l2r", "token")

_MAX_COPIES = 1 << 16  # that are compared and sorted by length together


@dataclass(frozen=True)
class EncodedText:
    """A text as a sequence of token ids.

    Attributes:
        ids: ids of [CLS], the tokens and [SEP], [tokens + 2].
        word_ends: index in `ids` after the last token of the word of each token, [tokens].
        num_words: number of words.
    """

    ids: Ids
    word_ends: NDArray[np.int64]
    num_words: int

    def __len__(self) -> int:
        """Return the number of tokens without [CLS] and [SEP]."""
        return len(self.word_ends)


def text_groups(texts: Iterable[EncodedText], num_methods: int) -> Iterator[list[EncodedText]]:
    """Yield consecutive texts in groups of bounded size; a longer text is a group by itself."""
    group: list[EncodedText] = []
    num_copies = 0
    for text in texts:
        count = num_methods * len(text)
        if group and num_copies + count > _MAX_COPIES:
            yield group
            group, num_copies = [], 0
        group.append(text)
        num_copies += count
    if group:
        yield group


class _MaskedCopy(NamedTuple):
    """A text of which the tokens from `start` up to `end` are masked."""

    text: EncodedText
    start: int
    end: int

    def tokens(self, mask_id: int) -> NDArray[np.int64]:
        """Return the token ids, [tokens + 2]."""
        tokens = self.text.ids.astype(np.int64)
        tokens[self.start : self.end] = mask_id
        return tokens


@dataclass(frozen=True)
class CopyBatch:
    """A strip of masked copies, and the targets that are predicted from them.

    Attributes:
        strip: the masked copies.
        mask_indices: index in the strip of the first masked token of each copy, [copies].
        rows: copy of each target, [batch targets].
        labels: token id of each target, [batch targets].
        targets: index of each target among all targets, [batch targets].
    """

    strip: Strip
    mask_indices: Tensor
    rows: Tensor
    labels: Tensor
    targets: NDArray[np.int64]


class MaskedCopies:
    """The different masked copies of some texts, sorted by length; a copy is formed when its strip is.

    A target is a token of a text, to be predicted by one method from one copy. Targets are in the order
    of the texts, then of the methods, then of the tokens.

    Attributes:
        num_targets: number of targets.
    """

    def __init__(self, texts: Sequence[EncodedText], methods: Sequence[ScoringMethod], mask_id: int):
        self._mask_id = mask_id
        copies, copy_of_target = _find_copies(texts, methods, mask_id)
        self.num_targets = len(copy_of_target)
        order = sorted(range(len(copies)), key=lambda index: len(copies[index].text.ids))
        self._copies = [copies[index] for index in order]
        # The targets in the order of their copies, so that those of a strip are consecutive.
        ranks = np.argsort(np.array(order, np.int64))[np.array(copy_of_target, np.int64)]
        self._targets = ranks.argsort(kind="stable")
        self._ranks = ranks[self._targets]
        labels = [text.ids[1:-1] for text in texts for _ in methods]
        self._labels = np.concatenate([np.empty(0, np.int32), *labels])[self._targets].astype(np.int64)

    def batches(self, max_tokens: int, max_copies: int) -> Iterator[CopyBatch]:
        """Yield strips of at most this many tokens and copies; a longer copy is a strip by itself."""
        first, num_tokens = 0, 0
        for index, copy in enumerate(self._copies):
            length = len(copy.text.ids)
            if index > first and (num_tokens + length > max_tokens or index - first == max_copies):
                yield self._batch(first, index)
                first, num_tokens = index, 0
            num_tokens += length
        if first < len(self._copies):
            yield self._batch(first, len(self._copies))

    def _batch(self, first: int, stop: int) -> CopyBatch:
        copies = self._copies[first:stop]
        tokens = [copy.tokens(self._mask_id) for copy in copies]
        offsets = np.cumsum([0, *map(len, tokens)], dtype=np.int64)
        flat_tokens = torch.from_numpy(np.concatenate(tokens))
        low, high = np.searchsorted(self._ranks, [first, stop])
        return CopyBatch(
            Strip(flat_tokens, torch.zeros_like(flat_tokens), torch.from_numpy(offsets)),
            torch.from_numpy(offsets[:-1] + np.array([copy.start for copy in copies])),
            torch.from_numpy(self._ranks[low:high] - first),
            torch.from_numpy(self._labels[low:high]),
            self._targets[low:high],
        )


def _find_copies(
    texts: Sequence[EncodedText], methods: Sequence[ScoringMethod], mask_id: int
) -> tuple[list[_MaskedCopy], list[int]]:
    """Return the different masked copies, and for each target the index of its copy.

    Copies are compared by hashes of their tokens, which need little memory even if texts are long. No text
    has a mask of its own, so equal tokens have the same first mask.
    """
    copies: list[_MaskedCopy] = []
    copy_of_target: list[int] = []
    index_by_digest: dict[bytes, int] = {}
    for text in texts:
        index_by_span: dict[tuple[int, int], int] = {}
        for method in methods:
            for start, word_end in enumerate(text.word_ends.tolist(), start=1):
                span = start, start + 1 if method == "token" else word_end
                if span not in index_by_span:
                    copy = _MaskedCopy(text, *span)
                    digest = blake2b(copy.tokens(mask_id).tobytes(), digest_size=16).digest()
                    index_by_span[span] = index_by_digest.setdefault(digest, len(copies))
                    if index_by_span[span] == len(copies):
                        copies.append(copy)
                copy_of_target.append(index_by_span[span])
    return copies, copy_of_target

"""Samples whose second segment is a noisy copy of the first: a reason to compare two texts.

Each segment has other masks, so most masked tokens are visible in the other segment, beside the same
words but at another position.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset, PretrainSample
from albertine.corpus.masking import mask_tokens, prediction_count
from albertine.corpus.settings import ObjectiveSettings
from albertine.randomness import RandomStream

IGNORED_PAIR = -100  # label of these pairs, as the cross-entropy of PyTorch ignores it
_DROPPED, _REPLACED, _ROTATED = 0.1, 0.1, 0.5


class CopiedPairsDataset(PretrainDataset):
    """A dataset in which some samples are pairs of a text and its noisy copy."""

    def __init__(self, corpus: Corpus, objective: ObjectiveSettings, share: float):
        super().__init__(corpus, objective)
        self._share = share

    def draw(self, indices: NDArray[np.int64]) -> list[PretrainSample]:
        """Return the samples at some indices."""
        samples = super().draw(indices)
        streams = [
            RandomStream(int(index) ^ 0x5EED << 40, 16 * self.objective.max_length) for index in indices
        ]
        return [
            self._copied_pair(sample, rng) if _uniform(rng, 1)[0] < self._share else sample
            for sample, rng in zip(samples, streams, strict=True)
        ]

    def _copied_pair(self, sample: PretrainSample, rng: RandomStream) -> PretrainSample:
        tokens = sample.original_tokens()
        text = tokens[(tokens != self._cls) & (tokens != self._sep)][: (self.objective.max_length - 3) // 2]
        copy = text[_uniform(rng, len(text)) >= _DROPPED]
        is_replaced = _uniform(rng, len(copy)) < _REPLACED
        others = self._ordinary_ids[(_uniform(rng, len(copy)) * len(self._ordinary_ids)).astype(np.int64)]
        copy = np.where(is_replaced, others, copy)
        if _uniform(rng, 1)[0] < _ROTATED and len(copy):
            copy = np.roll(copy, int(_uniform(rng, 1)[0] * len(copy)))
        first, second = (text, copy) if _uniform(rng, 1)[0] < 0.5 else (copy, text)
        cls, sep = [self._cls], [self._sep]
        tokens = np.concatenate([cls, first, sep, second, sep]).astype(np.int32)
        segments = np.repeat([0, 1], [len(first) + 2, len(second) + 1]).astype(np.int32)
        is_word = np.ones(len(tokens), np.bool_)
        is_word[[0, len(first) + 1, -1]] = False
        words = np.flatnonzero(is_word)
        chosen = np.argsort(_uniform(rng, len(words)))[: prediction_count(len(tokens), self.objective)]
        positions = np.sort(words[chosen])
        labels = tokens[positions]
        mask_tokens(tokens, positions, self._mask, self._ordinary_ids, rng)
        return PretrainSample(tokens, segments, positions, labels, IGNORED_PAIR)


def _uniform(rng: RandomStream, count: int) -> NDArray[Any]:
    return (rng.next_bits(count) >> np.uint64(11)) / 2.0**53

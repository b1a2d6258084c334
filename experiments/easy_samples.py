"""Samples of frequent words: of each two samples, the one with the more frequent tokens is taken.

With a share of one, this filters the text: half of the samples, those of rarer words, are never read.
With a share that falls, it orders the text: easy samples first.
"""

import numpy as np
from numpy.typing import NDArray

from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainSample
from albertine.corpus.settings import ObjectiveSettings
from albertine.randomness import RandomStream
from experiments.copied_pairs import CopiedPairsDataset


class EasySamplesDataset(CopiedPairsDataset):
    """A dataset in which some samples are the easier one of two.

    Sample `i` is sample `2i` or `2i + 1` of the corpus, so one epoch chooses from two of the corpus.
    """

    def __init__(
        self,
        corpus: Corpus,
        objective: ObjectiveSettings,
        copies: float,
        share: float,
        log_probabilities: NDArray[np.float64],
    ):
        super().__init__(corpus, objective, copies)
        self._easy_share, self._log_probabilities = share, log_probabilities

    def max_lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the length of the longer sample of both."""
        return np.maximum(super().max_lengths(2 * indices), super().max_lengths(2 * indices + 1))

    def draw(self, indices: NDArray[np.int64]) -> list[PretrainSample]:
        """Return the samples at some indices."""
        firsts, seconds = super().draw(2 * indices), super().draw(2 * indices + 1)
        return [
            max(first, second, key=self._mean_log_probability) if self._is_chosen(int(index)) else first
            for index, first, second in zip(indices, firsts, seconds, strict=True)
        ]

    def _is_chosen(self, index: int) -> bool:
        bits = RandomStream(index ^ 0xEA5E << 40, 1).next_bits(1)
        return bool((bits[0] >> np.uint64(11)) / 2.0**53 < self._easy_share)

    def _mean_log_probability(self, sample: PretrainSample) -> float:
        return float(self._log_probabilities[sample.original_tokens()].mean())

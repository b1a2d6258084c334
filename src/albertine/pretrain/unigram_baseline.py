"""The unigram baseline: what a model can predict from token frequencies alone.

A new model spends its first steps learning token frequencies, and its hidden states all
turn in the direction of the frequent tokens. If the bias of the MLM head contains the
frequencies from the start, every gradient is about context.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset

_MAX_COUNTED_TOKENS = 50_000_000
_BASELINE_SAMPLES = 512


@dataclass(frozen=True)
class TokenFrequencies:
    """Token frequencies of the training split, `counts[token id]`, from its first 50 million tokens."""

    counts: NDArray[np.int64]

    @classmethod
    def from_corpus(cls, corpus: Corpus) -> "TokenFrequencies":
        """Count the tokens of a corpus, shard by shard."""
        counts = np.zeros(len(corpus.tokenizer), np.int64)
        left = _MAX_COUNTED_TOKENS
        for shard in corpus.shards("train"):
            corpus.check_ids(shard.tokens[:left])
            counts += np.bincount(shard.tokens[:left], minlength=len(counts))
            left -= min(left, len(shard.tokens))
        return cls(counts)

    def frequency(self, token_id: int) -> float:
        """Return the relative frequency of a token."""
        return float(self.counts[token_id] / max(1, self.counts.sum()))

    @property
    def log_probabilities(self) -> NDArray[np.float64]:
        """Logarithm of the relative frequency of each token; tokens that never occur count one half."""
        smoothed = np.maximum(self.counts, 0.5)
        log_probabilities: NDArray[np.float64] = np.log(smoothed / smoothed.sum())
        return log_probabilities

    def baseline_loss(self, sampler: PretrainDataset, samples: int = _BASELINE_SAMPLES) -> float:
        """Return the MLM loss of predicting by frequency, on the masked tokens of the first samples.

        It differs a little from the unigram entropy, because whole words are masked.
        """
        drawn = sampler.draw(np.arange(min(len(sampler), samples)))
        labels = np.concatenate([sample.labels for sample in drawn])
        return float(-self.log_probabilities[labels].mean())


def no_context_baseline(unigram_baseline: float) -> float:
    """Return the loss of a model that sees the token at a masked position, but nothing around it.

    Of ten masked tokens, eight become [MASK], one stays and one becomes a random token. A token
    that is not [MASK] is the label with probability one half. A model learns this before any context.
    """
    return 0.9 * unigram_baseline + 0.2 * math.log(2)


def set_unigram_bias(model: Any, frequencies: TokenFrequencies) -> None:
    """Set the bias of the MLM head to the logarithms of the token frequencies."""
    bias: torch.Tensor = model.head.masked.bias
    logs = frequencies.log_probabilities
    padded = np.full(len(bias), logs.min())  # also for rows beyond the vocabulary
    padded[: len(logs)] = logs
    with torch.no_grad():
        bias.copy_(torch.from_numpy(padded))

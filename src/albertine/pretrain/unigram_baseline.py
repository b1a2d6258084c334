"""The unigram baseline: the MLM loss of a model that knows only token frequencies.

A new model spends its first steps learning token frequencies, which moves all hidden states
towards the frequent tokens. If the bias of the MLM head contains the frequencies from the
start, the gradients teach context from the first step on.
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
_BLOCK_TOKENS = 1 << 16
_BASELINE_SAMPLES = 512


@dataclass(frozen=True)
class TokenFrequencies:
    """Counts of the tokens of the training split, at most of some 50 million of them, `[vocabulary]`."""

    counts: NDArray[np.int64]

    @classmethod
    def from_corpus(cls, corpus: Corpus) -> "TokenFrequencies":
        """Count the tokens of a corpus; of a large one, those of blocks at equal distances."""
        counts = np.zeros(len(corpus.tokenizer), np.int64)
        shards = corpus.shards("train")
        total = sum(len(shard.tokens) for shard in shards)
        distance = _BLOCK_TOKENS * max(1, -(-total // _MAX_COUNTED_TOKENS))
        for shard in shards:
            for start in range(0, len(shard.tokens), distance):
                tokens = shard.tokens[start : start + _BLOCK_TOKENS]
                corpus.check_token_ids(tokens)
                counts += np.bincount(tokens, minlength=len(counts))
        return cls(counts)

    def frequency(self, token_id: int) -> float:
        """Return the relative frequency of a token."""
        return float(self.counts[token_id] / max(1, self.counts.sum()))

    @property
    def log_probabilities(self) -> NDArray[np.float64]:
        """Logarithms of the relative frequencies, `[vocabulary]`; tokens that never occur count one half."""
        smoothed = np.maximum(self.counts, 0.5)
        log_probabilities: NDArray[np.float64] = np.log(smoothed / smoothed.sum())
        return log_probabilities

    def baseline_loss(self, dataset: PretrainDataset, sample_count: int = _BASELINE_SAMPLES) -> float:
        """Return the MLM loss of predicting by frequency, on the masked tokens of the first samples.

        It differs a little from the unigram entropy, because whole words are masked.
        """
        samples = dataset.draw(np.arange(min(len(dataset), sample_count)))
        labels = np.concatenate([sample.labels for sample in samples])
        return float(-self.log_probabilities[labels].mean())


def no_context_baseline(unigram_baseline: float) -> float:
    """Return the loss of a model that sees the token at a masked position, but nothing around it.

    Of ten masked tokens, eight become [MASK], one stays and one becomes a random token. If the token
    at a masked position is not [MASK], it is the label with probability one half.
    """
    return 0.9 * unigram_baseline + 0.2 * math.log(2)


def set_unigram_bias(model: Any, frequencies: TokenFrequencies) -> None:
    """Set the bias of the MLM head to the logarithms of the token frequencies."""
    bias: torch.Tensor = model.head.masked.bias
    log_probabilities = frequencies.log_probabilities
    padded = np.full(len(bias), log_probabilities.min())  # the model may have more tokens than the corpus
    padded[: len(log_probabilities)] = log_probabilities
    with torch.no_grad():
        bias.copy_(torch.from_numpy(padded))

"""What is known without any context: how often each piece occurs.

A fresh network spends its first steps on nothing else, and pays for it: hidden states
all turn the same way to say "the common pieces". The bias of the MLM head can say it
from the start, and then every gradient is about context.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset

_MAX_COUNTED_TOKENS = 50_000_000  # pieces
_BASELINE_SAMPLES = 512


@dataclass(frozen=True)
class TokenFrequencies:
    """How often each piece occurs in train, counted over as much of it as is enough."""

    counts: NDArray[np.int64]

    @classmethod
    def from_corpus(cls, corpus: Corpus) -> "TokenFrequencies":
        """Count, in the order of the shards."""
        counts = np.zeros(len(corpus.tokenizer), np.int64)
        left = _MAX_COUNTED_TOKENS
        for shard in corpus.shards("train"):
            corpus.check_ids(shard.tokens[:left])
            counts += np.bincount(shard.tokens[:left], minlength=len(counts))
            left -= min(left, len(shard.tokens))
        return cls(counts)

    def frequency(self, token_id: int) -> float:
        """Return the share of a piece."""
        return float(self.counts[token_id] / max(1, self.counts.sum()))

    @property
    def log_probabilities(self) -> NDArray[np.float64]:
        """The logarithm of each share; a piece that was never seen counts as seen half a time."""
        smoothed = np.maximum(self.counts, 0.5)
        log_probabilities: NDArray[np.float64] = np.log(smoothed / smoothed.sum())
        return log_probabilities

    def baseline_loss(self, sampler: PretrainDataset, samples: int = _BASELINE_SAMPLES) -> float:
        """Return the MLM loss of who knows nothing else, on the masked pieces of the first samples.

        It is not quite the unigram entropy: what is masked is words, and not all pieces alike.
        """
        drawn = sampler.draw(np.arange(min(len(sampler), samples)))
        labels = np.concatenate([sample.labels for sample in drawn])
        return float(-self.log_probabilities[labels].mean())


def no_context_baseline(unigram_baseline: float) -> float:
    """Return the loss of one who also sees what stands at a masked place, but nothing around it.

    Of ten masked pieces one stays as it is and one becomes any other; a bet of one half on what
    stands there is the best. A network's first gain is this one, and tells nothing of context.
    """
    return 0.9 * unigram_baseline + 0.2 * math.log(2)


def set_unigram_bias(network: Any, frequencies: TokenFrequencies) -> None:
    """Set the bias of the MLM head."""
    bias: torch.Tensor = network.head.masked.bias
    logs = frequencies.log_probabilities
    padded = np.full(len(bias), logs.min())  # rows beyond the vocabulary, too
    padded[: len(logs)] = logs
    with torch.no_grad():
        bias.copy_(torch.from_numpy(padded))

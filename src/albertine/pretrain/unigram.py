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
from albertine.corpus.samples import Sampler

_ENOUGH = 50_000_000  # pieces
_SAMPLES = 512


@dataclass(frozen=True)
class Frequencies:
    """How often each piece occurs in train, counted over as much of it as is enough."""

    counts: NDArray[np.int64]

    @classmethod
    def of(cls, corpus: Corpus) -> "Frequencies":
        """Count, in the order of the shards."""
        counts = np.zeros(len(corpus.tokenizer), np.int64)
        left = _ENOUGH
        for shard in corpus.shards("train"):
            corpus.refuse_strange(shard.tokens[:left])
            counts += np.bincount(shard.tokens[:left], minlength=len(counts))
            left -= min(left, len(shard.tokens))
        return cls(counts)

    def share(self, piece: int) -> float:
        """Return the share of a piece."""
        return float(self.counts[piece] / max(1, self.counts.sum()))

    @property
    def logs(self) -> NDArray[np.float64]:
        """The logarithm of each share; a piece that was never seen counts as seen half a time."""
        known = np.maximum(self.counts, 0.5)
        logs: NDArray[np.float64] = np.log(known / known.sum())
        return logs

    def loss(self, sampler: Sampler, samples: int = _SAMPLES) -> float:
        """Return the MLM loss of who knows nothing else, on the masked pieces of the first samples.

        It is not quite the unigram entropy: what is masked is words, and not all pieces alike.
        """
        drawn = sampler.draw(np.arange(min(len(sampler), samples)))
        labels = np.concatenate([sample.labels for sample in drawn])
        return float(-self.logs[labels].mean())


def without_context(level: float) -> float:
    """Return the loss of one who also sees what stands at a masked place, but nothing around it.

    Of ten masked pieces one stays as it is and one becomes any other; a bet of one half on what
    stands there is the best. A network's first gain is this one, and tells nothing of context.
    """
    return 0.9 * level + 0.2 * math.log(2)


def start_from(network: Any, frequencies: Frequencies) -> None:
    """Set the bias of the MLM head."""
    bias: torch.Tensor = network.head.masked.bias
    logs = frequencies.logs
    padded = np.full(len(bias), logs.min())  # rows beyond the vocabulary, too
    padded[: len(logs)] = logs
    with torch.no_grad():
        bias.copy_(torch.from_numpy(padded))

"""What is known without any context: how often each piece occurs.

A fresh network spends its first steps on nothing else, and pays for it: hidden states
all turn the same way to say "the common pieces". The bias of the MLM head can say it
from the start, and then every gradient is about context.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from albertine.corpus.corpus import Corpus

_ENOUGH = 50_000_000  # pieces


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
            counts += np.bincount(shard.tokens[:left], minlength=len(counts))
            left -= min(left, len(shard.tokens))
        return cls(counts)

    def share(self, piece: int) -> float:
        """Return the share of a piece."""
        return float(self.counts[piece] / max(1, self.counts.sum()))


def start_from(network: Any, frequencies: Frequencies) -> None:
    """Set the bias of the MLM head; a piece that was never seen counts as seen half a time."""
    known = np.maximum(frequencies.counts, 0.5)
    bias: torch.Tensor = network.head.masked.bias
    logs = np.full(len(bias), np.log(0.5 / known.sum()))  # rows beyond the vocabulary, too
    logs[: len(known)] = np.log(known / known.sum())
    with torch.no_grad():
        bias.copy_(torch.from_numpy(logs))

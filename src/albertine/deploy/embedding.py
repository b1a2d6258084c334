"""POST /embed: one vector for each text, in the form of text-embeddings-inference.

The vectors come from a function of texts, so that this module knows no model.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from albertine.deploy.batcher import ItemResult

POOLING = "mean"


class EmbedFunction(Protocol):
    """Computes embeddings of texts."""

    def __call__(self, texts: Sequence[str], *, pooling: str, normalize: bool) -> NDArray[np.floating[Any]]:
        """Return the embeddings of texts, truncated to the model's maximum length, [texts, hidden].

        Args:
            texts: the texts.
            pooling: how the states of the tokens of a text become one vector.
            normalize: whether each vector is divided by its length.
        """


@dataclass(frozen=True)
class Embedder:
    """A function that embeds texts, with what the server must know about it.

    Attributes:
        embed: the function.
        count_tokens: returns the number of tokens of a text, special tokens included, before it is truncated.
        max_length: maximum tokens of a text.
        pooling: given to `embed`.
    """

    embed: EmbedFunction
    count_tokens: Callable[[str], int]
    max_length: int
    pooling: str = POOLING

    def process_batch(self, texts: Sequence[str]) -> list[ItemResult]:
        """Return the vector of each text as `embedding`, with `truncated_tokens` if it is too long."""
        vectors = self.embed(texts, pooling=self.pooling, normalize=False)
        results = []
        for text, vector in zip(texts, vectors, strict=True):
            num_tokens = self.count_tokens(text)
            output: dict[str, Any] = {"embedding": np.asarray(vector, np.float32)}
            if num_tokens > self.max_length:
                output["truncated_tokens"] = num_tokens - self.max_length
            results.append(ItemResult(output, min(num_tokens, self.max_length)))
        return results


def normalized(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a vector of length 1 in the same direction; zero stays zero."""
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector

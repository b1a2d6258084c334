"""POST /embed: one vector for each text, in the form of text-embeddings-inference."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.deploy.batcher import ItemResult
from albertine.inference.embedding import EmbeddingPipeline


class Embedder:
    """Computes the vectors of a batch of texts.

    Attributes:
        max_length: maximum tokens of a text.
        pooling: how the states of the tokens of a text become one vector, for `GET /info`.
    """

    def __init__(self, pipeline: EmbeddingPipeline):
        self._pipeline = pipeline
        self.max_length = pipeline.max_length
        self.pooling = ", ".join(pipeline.pooling_options.modes)

    def process_batch(self, texts: Sequence[str]) -> list[ItemResult]:
        """Return the vector of each text as `embedding`, with `truncated_tokens` if it is too long."""
        encoded_texts = self._pipeline.encode(texts)
        vectors = self._pipeline.embed(
            encoded_texts, replace(self._pipeline.pooling_options, normalize=False)
        )
        results = []
        for encoded, vector in zip(encoded_texts, vectors, strict=True):
            output: dict[str, Any] = {"embedding": vector}
            if encoded.num_truncated_tokens:
                output["truncated_tokens"] = encoded.num_truncated_tokens
            results.append(ItemResult(output, len(encoded.samples[0].ids[0])))
        return results


def normalized(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return a vector of length 1 in the same direction; zero stays zero."""
    length = float(np.linalg.norm(vector))
    return vector / np.float32(length) if length else vector

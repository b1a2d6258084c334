"""Held-out sentences, each with those that are nearest to it by the model's sentence vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from albertine.corpus.corpus import Corpus
from albertine.corpus.held_out_sentences import held_out_sentences
from albertine.inference.embedding import EmbeddingPipeline

_MAX_SENTENCES = 2_000  # that are compared
_NEAREST = 3


@dataclass(frozen=True)
class NearestSentences:
    """A sentence and those nearest to it.

    Attributes:
        sentence: the sentence.
        nearest: the nearest other sentences, as (text, cosine), nearest first.
    """

    sentence: str
    nearest: Sequence[tuple[str, float]]


def nearest_sentences(
    embed: EmbeddingPipeline, corpus: Corpus, count: int, seed: int
) -> list[NearestSentences]:
    """Return some held-out sentences with those nearest to them; none if the text has too few sentences.

    The mean vector of all sentences is subtracted, because it dominates the vectors of a model that was not
    trained for sentence vectors.
    """
    sentences = held_out_sentences(corpus, seed, _MAX_SENTENCES)
    if len(sentences) <= _NEAREST:
        return []
    vectors = embed(sentences, pooling="mean", normalize=False)
    vectors = vectors - vectors.mean(0)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    examples = []
    for index in range(min(count, len(sentences))):
        cosines = vectors @ vectors[index]
        cosines[index] = -np.inf
        order = np.argsort(-cosines, kind="stable")[:_NEAREST]
        nearest = [(sentences[other], float(cosines[other])) for other in order]
        examples.append(NearestSentences(sentences[index], nearest))
    return examples


def nearest_sentences_html(example: NearestSentences) -> str:
    """Return a sentence and those nearest to it with their cosines."""
    rows = "".join(
        f'<li>{escape(text)} <span class="small">{cosine:.2f}</span></li>' for text, cosine in example.nearest
    )
    return f'<div><blockquote>{escape(example.sentence)}</blockquote><ol class="nearest">{rows}</ol></div>'

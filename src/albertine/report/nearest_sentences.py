"""Held-out sentences, each with those that are nearest to it by the model's sentence vectors."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from albertine.corpus.corpus import Corpus
from albertine.inference.embedding import EmbeddingPipeline
from albertine.randomness import Stream, random_bits

_MAX_SENTENCES = 2_000  # that are compared
_MIN_TOKENS, _MAX_TOKENS = 6, 32  # of a sentence: enough content, and short enough to read
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
    sentences = _held_out_sentences(corpus, seed)
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


def _held_out_sentences(corpus: Corpus, seed: int) -> list[str]:
    """Return different held-out sentences of readable length, in random order."""
    spans = []
    for shard in corpus.shards("dev"):
        ends = np.append(shard.sentence_starts[1:], len(shard.tokens)).astype(np.int64)
        starts = shard.sentence_starts.astype(np.int64)
        lengths = ends - starts
        readable = np.flatnonzero((lengths >= _MIN_TOKENS) & (lengths <= _MAX_TOKENS))
        spans += [(shard, int(starts[index]), int(ends[index])) for index in readable[: 10 * _MAX_SENTENCES]]
    order = np.argsort(random_bits(seed, Stream.REPORT_SENTENCES, np.arange(len(spans))), kind="stable")
    chosen = [spans[index] for index in order[:_MAX_SENTENCES]]
    texts = [corpus.tokenizer.decode(shard.tokens[start:end].tolist()) for shard, start, end in chosen]
    return list(dict.fromkeys(texts))

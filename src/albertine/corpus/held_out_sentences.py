"""Whole sentences of the held-out text, drawn with a seed."""

import numpy as np

from albertine.corpus.corpus import Corpus
from albertine.randomness import Stream, random_bits

_MIN_TOKENS, _MAX_TOKENS = 6, 32  # of a sentence: enough content, and short enough to read
_MAX_OF_SHARD = 20_000


def held_out_sentences(corpus: Corpus, seed: int, limit: int) -> list[str]:
    """Return different held-out sentences of readable length, at most `limit`, in random order."""
    spans = []
    for shard in corpus.shards("dev"):
        ends = np.append(shard.sentence_starts[1:], len(shard.tokens)).astype(np.int64)
        starts = shard.sentence_starts.astype(np.int64)
        lengths = ends - starts
        readable = np.flatnonzero((lengths >= _MIN_TOKENS) & (lengths <= _MAX_TOKENS))
        spans += [(shard, int(starts[index]), int(ends[index])) for index in readable[:_MAX_OF_SHARD]]
    order = np.argsort(random_bits(seed, Stream.REPORT_SENTENCES, np.arange(len(spans))), kind="stable")
    chosen = [spans[index] for index in order[:limit]]
    texts = [corpus.tokenizer.decode(shard.tokens[start:end].tolist()) for shard, start, end in chosen]
    return list(dict.fromkeys(texts))

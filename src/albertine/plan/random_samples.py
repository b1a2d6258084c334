"""Samples of pre-training from random tokens, and how long this machine takes to draw them.

A small model, whose steps take some ten milliseconds, spends a tenth of the time waiting for its samples.
Samples of different lengths also take more calls than samples of the same length.
"""

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import numpy as np
import tokenizers
from tokenizers.models import WordLevel

from albertine.corpus.batches import Batch, collate
from albertine.corpus.corpus import Corpus
from albertine.corpus.dataset import PretrainDataset
from albertine.corpus.settings import ObjectiveSettings, PairTask
from albertine.corpus.shards import EncodedDocuments, Shard, to_record_batch, write_record_batches
from albertine.text.tokenizer import Tokenizer
from albertine.text.vocabulary_formats import SpecialTokenIds

_TOKENS, _SENTENCE_TOKENS = 400_000, 20
_MIN_DOCUMENT_TOKENS, _SAMPLES_OF_DOCUMENT = 2_000, 4
_WORD_STARTS = 0.8  # share of the tokens that begin a word
_MIN_LENGTH = 8  # of samples of pre-training; the examples of a fine-tuning may be shorter
_SAMPLES = 32  # drawn at once
_SECONDS, _MIN_DRAWS = 0.3, 10


class RandomSamples:
    """Samples of pre-training from random tokens, with the lengths that ordinary text gives."""

    def __init__(self, length: int, masked_fraction: float, vocab_size: int, pair: PairTask = "sop"):
        """Prepare the samples.

        Args:
            length: tokens of the longest samples.
            masked_fraction: fraction of the tokens to predict.
            vocab_size: number of token ids.
            pair: what is predicted of two segments.
        """
        length = max(_MIN_LENGTH, length)
        objective = ObjectiveSettings(pair, max_length=length, mlm_probability=masked_fraction)
        with TemporaryDirectory(prefix="albertine-") as folder:
            self._dataset = PretrainDataset(_RandomCorpus(Path(folder), length, vocab_size), objective)

    def batch(self, count: int) -> Batch:
        """Return the first samples as a batch."""
        return collate(self._dataset.draw(np.arange(count)), count)

    def drawing_seconds(self) -> float:
        """Return the seconds per token that one process takes to draw samples."""
        times: list[float] = []
        num_tokens = 0
        while len(times) < _MIN_DRAWS or sum(times) < _SECONDS:
            started = time.monotonic()
            indices = np.arange(_SAMPLES) + len(times) * _SAMPLES
            num_tokens += len(collate(self._dataset.draw(indices), _SAMPLES).strip.tokens)
            times.append(time.monotonic() - started)
        return median(times) * len(times) / num_tokens


class _RandomCorpus(Corpus):
    """A corpus of one shard of random tokens, without a manifest."""

    def __init__(self, folder: Path, length: int, vocab_size: int):
        self.location = self.folder = folder
        vocabulary = {f"token{number}": number for number in range(vocab_size)}
        backend = tokenizers.Tokenizer(WordLevel(vocabulary, unk_token="token1"))
        self.tokenizer = Tokenizer(backend, SpecialTokenIds(*range(5)), {})
        write_record_batches(folder / "shard", [to_record_batch(_random_documents(length, vocab_size))])
        self._shards = {"train": [Shard(folder / "shard")]}


def _random_documents(length: int, vocab_size: int) -> EncodedDocuments:
    """Return documents of some samples each, so that a part of the samples is short."""
    generator = np.random.default_rng(0)
    document_tokens = max(_MIN_DOCUMENT_TOKENS, _SAMPLES_OF_DOCUMENT * length)
    count = -(-_TOKENS // document_tokens) * document_tokens
    return EncodedDocuments(
        generator.integers(5, vocab_size, count).astype(np.uint16),
        generator.random(count) < _WORD_STARTS,
        np.arange(0, count, _SENTENCE_TOKENS),
        np.arange(0, count + 1, document_tokens),
    )

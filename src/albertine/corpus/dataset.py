"""Pre-training samples, each a pure function of corpus, objective (with its seed) and index.

    [CLS] a a a [SEP] b b b b [SEP]      with some tokens masked

In a causal sample no token is masked, and the model predicts tokens from those before them.

A sample does not depend on other samples, so any process can draw any sample directly.
See docs/decisions/sample-windows.md.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from albertine.corpus.corpus import Corpus
from albertine.corpus.manifest import CorpusSplit
from albertine.corpus.masking import (
    choose_masked_positions,
    mask_tokens,
    prediction_count,
    split_long_words,
)
from albertine.corpus.segment_pairs import Segment, SegmentPair, draw_pair
from albertine.corpus.settings import CAUSAL_TARGET_FRACTION, ObjectiveSettings
from albertine.corpus.windows import SampleWindows, WindowArrays
from albertine.errors import InputError
from albertine.randomness import RandomStream, Stream, random_bits

NO_LABEL = -100  # of the pair of a causal sample; losses skip it
_TRUE = np.ones(1, np.bool_)


@dataclass(frozen=True)
class PretrainSample:
    """One masked sequence, or a causal one.

    Attributes:
        tokens: input ids after masking [tokens].
        segments: 0 for the first segment, 1 for the second [tokens].
        masked_positions: positions of the tokens to predict, ascending [masked]; in a causal sample, those
            before the tokens to predict.
        labels: ids of the tokens to predict [masked].
        pair_label: label of the segment pair (see `SegmentPair`); `NO_LABEL` in a causal sample.
        is_causal: whether a token may attend only to itself and to the tokens before it.
    """

    tokens: NDArray[np.int32]
    segments: NDArray[np.int32]
    masked_positions: NDArray[np.int64]
    labels: NDArray[np.int32]
    pair_label: int
    is_causal: bool = False

    def __len__(self) -> int:
        return len(self.tokens)

    def original_tokens(self) -> NDArray[np.int32]:
        """Return the ids before masking [tokens]."""
        tokens = self.tokens.copy()
        if not self.is_causal:
            tokens[self.masked_positions] = self.labels
        return tokens


class PretrainDataset:
    """Map-style dataset of the samples of a split; indices continue across epochs.

    Only the split train has causal samples, so that held-out losses are comparable.

    Attributes:
        objective: settings of pairs, lengths and masking.
    """

    def __init__(self, corpus: Corpus, objective: ObjectiveSettings, split: CorpusSplit = "train"):
        self._corpus, self._split, self.objective = corpus, split, objective
        self._shards = corpus.shards(split)
        fraction = objective.text_fraction if split == "train" else 1.0
        self._causal_fraction = objective.exact_causal_fraction if split == "train" else Fraction()
        self._windows = SampleWindows(self._shards, replace(objective, text_fraction=fraction))
        if not len(self._windows):
            raise InputError(_no_sample_message(corpus, split, fraction))
        if objective.pair == "nsp" and sum(shard.num_texts for shard in self._shards) < 2:
            raise InputError(
                f"{corpus.folder}: objective.pair nsp needs two documents, {split} has one; use sop or none, "
                f"or build the corpus with more text{' or a larger --held-out' if split == 'dev' else ''}"
            )
        special = corpus.tokenizer.special_ids
        self._cls, self._sep, self._mask = special.cls, special.sep, special.mask
        self._ordinary_ids = np.setdiff1d(np.arange(len(corpus.tokenizer)), list(vars(special).values()))

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickle no arrays: a worker process maps the shard files itself.
        return _reopen_dataset, (self._corpus.folder, self.objective, self._split)

    def __len__(self) -> int:
        """Return the number of samples per epoch."""
        return len(self._windows)

    @property
    def num_documents(self) -> int:
        """Number of documents that samples are drawn from; counted at every call."""
        return self._windows.num_documents()

    def max_lengths(self, indices: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the maximum number of tokens of each sample [samples].

        The length is exact except for `nsp`, where the other document may be shorter than the segment.
        """
        max_text_tokens = self._windows.max_text_tokens
        special_tokens = self.objective.max_length - max_text_tokens
        lengths = np.empty(len(indices), np.int64)
        for epoch, rows in self._by_epoch(indices):
            windows = self._windows.lookup(epoch, indices[rows] % len(self))
            lengths[rows] = np.minimum(windows.stop - windows.start, max_text_tokens) + special_tokens
        return lengths

    def draw(self, indices: NDArray[np.int64]) -> list[PretrainSample]:
        """Return the samples at some indices; index `len(self)` is the first sample of the second epoch."""
        samples: dict[int, PretrainSample] = {}
        for epoch, rows in self._by_epoch(indices):
            epoch_indices = indices[rows] % len(self)
            windows = self._windows.lookup(epoch, epoch_indices)
            keys = random_bits(self.objective.seed, epoch, Stream.SAMPLES, epoch_indices)
            is_causal = self._is_causal(epoch, epoch_indices)
            for number, row in enumerate(rows.tolist()):
                sample = self._draw_sample(windows, number, int(keys[number]))
                samples[row] = _causal_sample(sample, int(keys[number])) if is_causal[number] else sample
        return [samples[row] for row in range(len(indices))]

    def _is_causal(self, epoch: int, epoch_indices: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which samples of an epoch are causal, [samples]: evenly distributed in training order."""
        numerator, denominator = self._causal_fraction.as_integer_ratio()
        index = (epoch * len(self) + epoch_indices) % denominator  # the pattern repeats
        is_causal: NDArray[np.bool_] = (
            index + 1
        ) * numerator // denominator > index * numerator // denominator
        return is_causal

    def _by_epoch(self, indices: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield each epoch, and which elements of `indices` are samples of this epoch."""
        epochs = indices // len(self)
        if self.objective.distinct_epochs is not None:
            epochs %= self.objective.distinct_epochs
        for epoch in np.unique(epochs).tolist():
            yield epoch, np.flatnonzero(epochs == epoch)

    def _draw_sample(self, windows: WindowArrays, number: int, key: int) -> PretrainSample:
        shard = self._shards[windows.shard[number]]
        window = Segment(shard, int(windows.start[number]), int(windows.stop[number]))
        max_tokens = self._windows.max_text_tokens
        # The size is an upper bound of the random numbers that the pair and the masking use.
        rng = RandomStream(key, 64 + max_tokens // 8 + 4 * min(len(window), max_tokens))
        pair = draw_pair(window, max_tokens, self.objective, self._shards, rng)
        tokens, segments = self._with_special_tokens(pair)
        self._corpus.check_token_ids(tokens)
        masked_positions = choose_masked_positions(
            *split_long_words(*_word_boundaries(pair)),
            prediction_count(len(tokens), self.objective),
            self.objective.max_ngram,
            rng,
        )
        labels = tokens[masked_positions]
        mask_tokens(tokens, masked_positions, self._mask, self._ordinary_ids, rng)
        return PretrainSample(tokens, segments, masked_positions, labels, pair.label)

    def _with_special_tokens(self, pair: SegmentPair) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Return ids and segment ids [tokens] of a pair with [CLS] and [SEP] added."""
        size = 1 + sum(len(segment) + 1 for segment in pair.segments)
        tokens, segments = np.empty(size, np.int32), np.zeros(size, np.int32)
        tokens[0], start = self._cls, 1
        for segment_id, segment in enumerate(pair.segments):
            end = start + len(segment)
            tokens[start:end] = segment.tokens
            tokens[end] = self._sep
            segments[start : end + 1] = segment_id
            start = end + 1
        return tokens, segments


def _causal_sample(sample: PretrainSample, key: int) -> PretrainSample:
    """Return a masked sample as a causal one, which predicts some tokens from those before them."""
    tokens = sample.original_tokens()
    stream = RandomStream(int(random_bits(key, Stream.CAUSAL_TARGETS)[0]), len(tokens))
    uniform = (stream.next_bits(len(tokens) - 1) >> np.uint64(11)) * 2.0**-53
    positions = np.flatnonzero(uniform < CAUSAL_TARGET_FRACTION)
    return PretrainSample(tokens, sample.segments, positions, tokens[positions + 1], NO_LABEL, is_causal=True)


def _word_boundaries(pair: SegmentPair) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return for each word its start and end position, and the index of the first word after its segment.

    Positions are those of the sample with special tokens. Each array has shape [words].
    """
    # Boundaries are [CLS], each word start and each [SEP]; a word ends at the next boundary.
    is_boundary = np.concatenate(
        [_TRUE, *(part for segment in pair.segments for part in (segment.word_starts, _TRUE))]
    )
    boundaries = np.flatnonzero(is_boundary)
    word_counts = [int(np.count_nonzero(segment.word_starts)) for segment in pair.segments]
    is_word = np.ones(len(boundaries), np.bool_)
    is_word[[0, word_counts[0] + 1, -1]] = False  # [CLS], [SEP] of the first segment, [SEP] of the last
    segment_ends = np.full(sum(word_counts), sum(word_counts))
    segment_ends[: word_counts[0]] = word_counts[0]
    words = np.flatnonzero(is_word)
    return boundaries[words], boundaries[words + 1], segment_ends


def _no_sample_message(corpus: Corpus, split: CorpusSplit, fraction: float) -> str:
    if fraction < 1:
        return (
            f"objective.text_fraction = {fraction:g}: chooses none of the "
            f"{corpus.manifest.documents[split]:,} documents of {corpus.folder}; give a larger fraction, or "
            "build a corpus of more documents"
        )
    return (
        f"{corpus.folder}: no document of {split} is long enough for a sample; build it from longer documents"
    )


def _reopen_dataset(folder: Path, objective: ObjectiveSettings, split: CorpusSplit) -> PretrainDataset:
    return PretrainDataset(Corpus(folder), objective, split)

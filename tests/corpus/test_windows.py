"""Tests of the windows of samples in documents of many lengths."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from albertine.corpus.settings import ObjectiveSettings
from albertine.corpus.windows import SampleWindows

_SENTENCE = 10  # tokens


def made_up_shard(shortest: int, longest: int) -> Any:
    """A shard of 400 documents of some lengths, whose sentences all have ten words of one token."""
    lengths = np.random.default_rng(0).integers(shortest, longest, 400)
    offsets = np.concatenate([[0], lengths.cumsum()]).astype(np.uint32)
    sentences = np.union1d(offsets[:-1], np.arange(0, offsets[-1], _SENTENCE)).astype(np.uint32)
    return SimpleNamespace(
        document_offsets=offsets,
        sentence_starts=sentences,
        word_starts=lambda start, stop: np.ones(stop - start, bool),
    )


@pytest.mark.parametrize(
    ("shortest", "longest", "max_length", "largest_share"), [(510, 1500, 512, 0.005), (126, 250, 128, 0.03)]
)
def test_few_windows_are_as_short_as_a_sentence(
    shortest: int, longest: int, max_length: int, largest_share: float
) -> None:
    """The last window of a document has any length, but does not begin beyond its end."""
    objective = ObjectiveSettings(max_length=max_length, short_seq_prob=0.0)
    windows = SampleWindows([made_up_shard(shortest, longest)], objective)
    for epoch in range(3):
        found = windows.lookup(epoch, np.arange(len(windows)))
        assert np.mean(found.stop - found.start <= _SENTENCE) < largest_share

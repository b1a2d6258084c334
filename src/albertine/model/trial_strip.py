"""Strips of random tokens for models of any head: to verify a copy or an export, or to measure its speed."""

from collections.abc import Sequence
from dataclasses import replace

import torch

from albertine.model.co_matching_head import NUM_PARTS
from albertine.model.model import Model
from albertine.model.strip import Strip


def trial_strip(
    model: Model, lengths: Sequence[int], generator: torch.Generator, num_segments: int | None = None
) -> Strip:
    """Return a strip of random tokens and segments, with parts if the head reads them.

    Args:
        model: the model.
        lengths: lengths of the sequences; longer ones than the model takes are cut, and a head that reads
            several sequences per prediction gets each as often.
        generator: draws tokens and segments.
        num_segments: number of segments to draw from; by default all of the model.
    """
    settings = model.settings
    lengths = [min(length, settings.max_length) for length in lengths] * model.head.sequences_per_prediction
    tokens = torch.randint(0, settings.vocab_size, (sum(lengths),), generator=generator)
    segments = torch.randint(0, num_segments or settings.segments, (sum(lengths),), generator=generator)
    strip = Strip(tokens, segments, torch.tensor([0, *lengths]).cumsum(0))
    return _with_parts(strip) if model.head_settings.co_matching else strip


def _with_parts(strip: Strip) -> Strip:
    """Return a strip whose sequences are divided into parts of equal length."""
    lengths = strip.offsets.diff()
    bounds = torch.stack([lengths * number // NUM_PARTS for number in range(NUM_PARTS + 1)], dim=1)
    return replace(strip, parts=torch.stack([bounds[:, :-1], bounds[:, 1:]], dim=2))

"""How much of what a model has learned a smaller copy of it keeps, such as one whose layers share weights."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from albertine.model.model import Model
from albertine.pretrain.scores import SUM_COLUMNS, SampleSums, ratio_estimate, ratio_of_sums
from albertine.tasks.metrics.intervals import Estimate


@dataclass(frozen=True)
class KeptGain:
    """A model compared with its original, on the [MASK] tokens of the same samples.

    The gain of a model is how far its loss is below that of token frequencies.

    Attributes:
        original: name of the original.
        original_loss: loss of the original.
        share: gain of the model, divided by that of the original; NaN if the original has none.
        megabytes: size of the model's weights in fp32.
        original_megabytes: size of the original's.
    """

    original: str
    original_loss: Estimate
    share: Estimate
    megabytes: float
    original_megabytes: float

    @property
    def share_per_byte(self) -> float:
        """The share, divided by the share of the bytes."""
        return self.share.value * self.original_megabytes / self.megabytes

    @property
    def text(self) -> str:
        """The comparison in a sentence."""
        share = self.share
        loss = f"the loss of {self.original} on [MASK] is {self.original_loss.value:.3f}"
        if math.isnan(share.value):
            return f"nothing to keep: {loss}, no better than token frequencies"
        interval = "" if math.isnan(share.low) else f" ({100 * share.low:.1f} to {100 * share.high:.1f})"
        return (
            f"keeps {share.value:.1%}{interval} of the gain of {self.original} over token frequencies, with "
            f"{self.megabytes:.1f} MB of weights instead of {self.original_megabytes:.1f}: "
            f"{self.share_per_byte:.2f} times the gain per byte; {loss}"
        )

    def to_json(self) -> dict[str, Any]:
        """Return the comparison under stable keys."""
        return {**asdict(self), "share_per_byte": self.share_per_byte}


def measure_kept_gain(
    name: str, models: tuple[Model, Model], sums: tuple[SampleSums, SampleSums], unigram_loss: float
) -> KeptGain:
    """Compare a model with its original.

    Args:
        name: name of the original.
        models: the model and the original.
        sums: the sums of the same samples for each.
        unigram_loss: loss of a model that knows only token frequencies.
    """
    counts = sums[0][:, SUM_COLUMNS.index("num_mask_tokens")]
    losses = [one[:, SUM_COLUMNS.index("mask_token_loss")] for one in sums]
    gains = [unigram_loss * counts - loss for loss in losses]
    sizes = [sum(4 * parameter.numel() for parameter in model.parameters()) / 1e6 for model in models]
    original_loss = ratio_estimate(sums[1], "mask_token_loss", "num_mask_tokens")
    share = (
        ratio_of_sums(gains[0], gains[1]) if gains[1].sum() > 0 else Estimate(math.nan, math.nan, math.nan)
    )
    return KeptGain(name, original_loss, share, sizes[0], sizes[1])

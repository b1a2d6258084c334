"""Losses and accuracies on held-out samples, with confidence intervals.

The masked tokens of one sample are not independent. Therefore the interval of a mean is
computed from the differences between samples (the ratio estimator of survey statistics),
not from the number of tokens.
"""

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from albertine.corpus.batches import Batch
from albertine.tasks.metrics.intervals import Estimate, mean_quantile, wilson_interval

# The "mask_token" columns are about the masked tokens that became [MASK]. Of the others, some are unchanged,
# so that the model can copy them, and some became a random token.
SUM_COLUMNS = (
    "num_targets", "mlm_loss", "mlm_correct", "num_mask_tokens", "mask_token_loss", "mask_token_correct",
    "pair_loss", "pair_correct",
)  # fmt: skip
SampleSums = NDArray[np.float64]


def sample_sums(
    model: Any, batches: Iterable[Batch], device: torch.device, mask_id: int, depth: int | None = None
) -> SampleSums:
    """Return sums for each sample, `[samples, columns]`, with the columns `SUM_COLUMNS`.

    Args:
        model: the model, in evaluation mode.
        batches: the samples, with targets.
        device: device of the model.
        mask_id: token id of [MASK].
        depth: number of layers to run; by default those of the model.
    """
    with torch.no_grad():  # sharded weights cannot be gathered in inference mode
        rows = [_batch_sums(model, batch.to(device), mask_id, depth).cpu().numpy() for batch in batches]
    return np.concatenate([np.empty((0, len(SUM_COLUMNS))), *rows])


def _batch_sums(model: Any, batch: Batch, mask_id: int, depth: int | None) -> Tensor:
    out = model(batch.strip, batch.targets, depth=depth)
    masked, pair_labels = batch.targets.masked, batch.targets.pair_labels
    losses = functional.cross_entropy(out.masked.logits.float(), masked.labels, reduction="none")
    correct = out.masked.logits.argmax(1) == masked.labels
    ends = batch.strip.offsets[1:].to(masked.indices.device)
    sample_index = torch.searchsorted(ends, masked.indices, right=True)
    sums = torch.zeros(len(batch.strip), len(SUM_COLUMNS), dtype=torch.float64, device=losses.device)
    values = torch.stack([torch.ones_like(losses), losses, correct.float()], 1).double()
    is_mask_token = (batch.strip.tokens[masked.indices] == mask_id).double()[:, None]
    sums[:, :6].index_add_(0, sample_index, torch.cat([values, values * is_mask_token], 1))
    sums[:, 6] = functional.cross_entropy(out.pair_logits.float(), pair_labels, reduction="none").double()
    sums[:, 7] = (out.pair_logits.argmax(1) == pair_labels).double()
    return sums


def ratio_estimate(sums: SampleSums, numerator: str, denominator: str | None) -> Estimate:
    """Return the ratio of the sums of two columns; without a denominator, the mean of `numerator`.

    The interval of a few samples is cut off where no loss and no share can be: below 0, and a share above 1.
    """
    counts = np.ones(len(sums)) if denominator is None else sums[:, SUM_COLUMNS.index(denominator)]
    estimate = ratio_of_sums(sums[:, SUM_COLUMNS.index(numerator)], counts)
    largest = 1.0 if numerator.endswith("_correct") else math.inf
    low, high = (
        bound if math.isnan(bound) else min(max(bound, 0.0), largest)
        for bound in (estimate.low, estimate.high)
    )
    return Estimate(estimate.value, low, high)


def ratio_of_sums(values: NDArray[np.float64], counts: NDArray[np.float64]) -> Estimate:
    """Return the ratio of the sums of two numbers of each sample, with its 95% interval."""
    if not len(values) or not counts.sum():
        return Estimate(math.nan, math.nan, math.nan)
    ratio = values.sum() / counts.sum()
    residuals = values - ratio * counts
    if len(values) < 2:
        return Estimate(float(ratio), math.nan, math.nan)
    standard_error = math.sqrt(len(values) / (len(values) - 1) * float((residuals**2).sum()))
    margin = mean_quantile(len(values)) * standard_error / abs(float(counts.sum()))
    return Estimate(float(ratio), float(ratio) - margin, float(ratio) + margin)


def wilson_estimate(sums: SampleSums, column: str) -> Estimate:
    """Return the mean of a column of zeros and ones, with its Wilson interval."""
    if not len(sums):
        return Estimate(math.nan, math.nan, math.nan)
    mean = float(sums[:, SUM_COLUMNS.index(column)].mean())
    return Estimate(mean, *wilson_interval(mean, len(sums)))

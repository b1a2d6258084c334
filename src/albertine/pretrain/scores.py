"""How well a network solves the objectives: sums over samples, kept apart so that chance can be told.

A sample's masked pieces are not independent of each other, so the uncertainty of a mean
comes from how samples differ (the ratio estimate of survey statistics), not from how
many pieces there were.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from albertine.corpus.batches import Batch

# Of the masked pieces, those behind [MASK] are counted again: the others can be seen, and copied.
COLUMNS = (
    "masked", "mlm_loss", "mlm_right", "hidden", "hidden_loss", "hidden_right", "pair_loss", "pair_right",
)  # fmt: skip
Table = NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean, and the ends of its 95% interval."""

    value: float
    low: float
    high: float


def table_of(
    network: Any, batches: Iterable[Batch], device: torch.device, mask: int, depth: int | None = None
) -> Table:
    """Return a row of sums for each sample: the columns are `COLUMNS`; `mask` is the id of [MASK]."""
    with torch.no_grad():  # weights that are spread cannot be gathered in inference mode
        rows = [_measured(network, batch.to(device), mask, depth).cpu().numpy() for batch in batches]
    return np.concatenate([np.empty((0, len(COLUMNS))), *rows])


def _measured(network: Any, batch: Batch, mask: int, depth: int | None) -> Tensor:
    out = network(batch.strip, batch.targets, depth=depth)
    masked, pair = batch.targets.masked, batch.targets.pair
    losses = functional.cross_entropy(out.masked.logits.float(), masked.pieces, reduction="none")
    right = out.masked.logits.argmax(1) == masked.pieces
    ends = batch.strip.offsets[1:].to(masked.at.device)
    owner = torch.searchsorted(ends, masked.at, right=True)
    table = torch.zeros(len(batch.strip), len(COLUMNS), dtype=torch.float64, device=losses.device)
    each = torch.stack([torch.ones_like(losses), losses, right.float()], 1).double()
    is_hidden = (batch.strip.tokens[masked.at] == mask).double()[:, None]
    table[:, :6].index_add_(0, owner, torch.cat([each, each * is_hidden], 1))
    table[:, 6] = functional.cross_entropy(out.pair_logits.float(), pair, reduction="none").double()
    table[:, 7] = (out.pair_logits.argmax(1) == pair).double()
    return table


def ratio(table: Table, numerator: str, denominator: str | None) -> Estimate:
    """Return the mean of a column over another (over samples if None)."""
    top = table[:, COLUMNS.index(numerator)]
    bottom = np.ones(len(table)) if denominator is None else table[:, COLUMNS.index(denominator)]
    if not len(table) or not bottom.sum():
        return Estimate(math.nan, math.nan, math.nan)
    value = top.sum() / bottom.sum()
    away = top - value * bottom
    if len(table) < 2:
        return Estimate(float(value), math.nan, math.nan)
    spread = math.sqrt(len(table) / (len(table) - 1) * float((away**2).sum())) / bottom.sum()
    margin = 1.96 * float(spread)
    return Estimate(float(value), float(value) - margin, float(value) + margin)


def wilson(table: Table, column: str) -> Estimate:
    """Return the share of samples that are right; the interval is right for shares near 0 and 1 too."""
    count, z = len(table), 1.96
    if not count:
        return Estimate(math.nan, math.nan, math.nan)
    share = float(table[:, COLUMNS.index(column)].mean())
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    margin = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return Estimate(share, middle - margin, middle + margin)

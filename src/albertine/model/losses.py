"""The loss of one training objective on one micro-batch, and its mean over several depths."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class ObjectiveLoss:
    """Loss of one objective on one micro-batch.

    Attributes:
        loss: mean loss over the targets of the micro-batch, a scalar.
        correct: number of correct predictions, a scalar; NaN if the objective does not count them.
    """

    loss: Tensor
    correct: Tensor


def mean_over_depths(
    losses_by_depth: Sequence[Sequence[ObjectiveLoss]], depths: Sequence[int]
) -> list[ObjectiveLoss]:
    """Return the mean loss of each objective over several depths, with the accuracy at the last one.

    As in PABEE (Zhou et al. 2020), the weight of a depth is proportional to it.

    Args:
        losses_by_depth: losses of all objectives at each depth.
        depths: the depths, in increasing order.
    """
    means = []
    for losses in zip(*losses_by_depth, strict=True):
        weighted = [depth / sum(depths) * one.loss for depth, one in zip(depths, losses, strict=True)]
        means.append(ObjectiveLoss(sum(weighted[1:], start=weighted[0]), losses[-1].correct))
    return means

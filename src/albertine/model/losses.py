"""The loss of one training objective on one micro-batch."""

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

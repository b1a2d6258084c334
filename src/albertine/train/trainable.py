"""What the loop asks of whatever is trained: its batches in pieces, its objectives, where it is in the data.

Pre-training is one such work. The loop knows nothing of masks, pairs or labels, only that
an objective is a mean over so many things, of which so many were right.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from albertine.train.step_metrics import StepMetrics


@dataclass(frozen=True)
class ObjectiveLoss:
    """One objective on one piece: its mean loss, and how many it got right (NaN: that means nothing)."""

    loss: Tensor
    correct: Tensor


class MicroBatch(Protocol):
    """What is computed at once."""

    @property
    def target_counts(self) -> Sequence[int]:
        """How many things each objective's mean is over."""

    def to(self, device: torch.device) -> "MicroBatch":
        """Move it to a device."""


@dataclass(frozen=True)
class StepBatch:
    """A process's part of a step.

    Attributes:
        micro_batches: what it is cut into; none, where there are fewer samples than processes.
        tokens: how many they have.
        flops: what they take.
        empty_micro_batch: a piece without anything in it.
    """

    micro_batches: Sequence[MicroBatch]
    tokens: int
    flops: float
    empty_micro_batch: MicroBatch

    def padded_to(self, count: int) -> "StepBatch":
        """Return it with as many pieces, the last ones empty."""
        return replace(
            self,
            micro_batches=[
                *self.micro_batches,
                *[self.empty_micro_batch] * (count - len(self.micro_batches)),
            ],
        )


class Trainable(Protocol):
    """What is trained."""

    @property
    def objectives(self) -> Sequence[str]:
        """The names of its objectives."""

    @property
    def data_position(self) -> dict[str, Any]:
        """Where in the data it is, after the last share that it gave; as JSON."""

    @property
    def data_fingerprint(self) -> dict[str, Any]:
        """What tells the data from any other; as JSON."""

    def next_batch(self, step: int) -> StepBatch:
        """Give this process's part of a step, the next in order."""

    def compute_losses(self, model: Any, micro_batch: Any, step: int) -> Sequence[ObjectiveLoss]:
        """Compute the objectives on a piece."""

    def seek(self, step: int, data_position: dict[str, Any]) -> None:
        """Go to a place in the data."""

    def close(self) -> None:
        """Let go of what draws the batches."""

    def check_same_data(self, fingerprint: dict[str, Any]) -> None:
        """Refuse to go on with other data than `data` told of."""

    def evaluate(self, model: Any, step: int) -> dict[str, float]:
        """Measure on held-out data; nothing if there is none."""

    def score_to_minimize(self, metrics: dict[str, float]) -> float:
        """Return a number by which scores compare; the least is best."""

    def objective_changes(self, step: int) -> bool:
        """Tell whether a step asks for something else than the one before it."""

    def after_step(self, network: Any, step: int) -> None:
        """Let weights that no gradient reaches follow those that a step has moved."""

    def diagnose(self, metrics: StepMetrics) -> str | None:
        """Say something about how it goes, if there is something to say."""

    def checkpoint_writer(self, model: Any, step: int) -> Callable[[Path], None]:
        """Return what writes the model as it is now, whatever happens to it meanwhile."""

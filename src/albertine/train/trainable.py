"""The interface that pre-training and fine-tuning implement for the trainer.

It contains nothing about masks, pairs or labels: an objective has a loss, which is a mean
over its targets, and a number of correct predictions among them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch

from albertine.model.losses import ObjectiveLoss
from albertine.train.step_metrics import StepMetrics


class MicroBatch(Protocol):
    """The samples of one forward and backward pass."""

    @property
    def target_counts(self) -> Sequence[float]:
        """Number of targets of each objective, or sum of their weights; the loss is the mean over them."""

    def to(self, device: torch.device) -> "MicroBatch":
        """Return the micro-batch on a device."""


@dataclass(frozen=True)
class StepBatch:
    """One process's part of the batch of a step.

    Attributes:
        micro_batches: the micro-batches; may be empty if there are fewer samples than processes.
        tokens: number of tokens in them.
        flops: number of floating-point operations of their forward and backward passes.
        empty_micro_batch: a micro-batch without samples.
    """

    micro_batches: Sequence[MicroBatch]
    tokens: int
    flops: float
    empty_micro_batch: MicroBatch

    def extended_to(self, count: int) -> "StepBatch":
        """Return the batch with empty micro-batches appended until there are `count`."""
        missing = count - len(self.micro_batches)
        return replace(self, micro_batches=[*self.micro_batches, *[self.empty_micro_batch] * missing])


class Trainable(Protocol):
    """Data, losses and evaluation of a training run. Steps are counted from 0."""

    @property
    def objectives(self) -> Sequence[str]:
        """Names of the objectives."""

    @property
    def loss_ceiling(self) -> float:
        """Loss of a model that has learned next to nothing; infinite if unknown.

        A run whose loss stays far above it has diverged.
        """

    @property
    def data_position(self) -> dict[str, Any]:
        """Position in the data after the last batch, as JSON values."""

    @property
    def data_fingerprint(self) -> dict[str, Any]:
        """Checksums that identify the data, as JSON values."""

    def next_batch(self, step: int) -> StepBatch:
        """Return this process's part of the next batch."""

    def compute_losses(self, model: Any, micro_batch: Any, step: int) -> Sequence[ObjectiveLoss]:
        """Return the loss of each objective on a micro-batch."""

    def seek(self, step: int, data_position: dict[str, Any]) -> None:
        """Continue at a `data_position`, with this step; raise `JsonError` for values of another type."""

    def close(self) -> None:
        """Stop the processes that prepare batches."""

    def check_same_data(self, fingerprint: Any) -> None:
        """Raise `InputError` if the data do not have this fingerprint, `JsonError` if it is not one."""

    def evaluate(self, model: Any, step: int) -> dict[str, float]:
        """Return metrics on held-out data; empty if there are no held-out data."""

    def score_to_minimize(self, metrics: dict[str, float], step: int) -> float:
        """Return the number by which evaluations are compared; the smallest is the best."""

    def objective_changes(self, step: int) -> bool:
        """Return whether the losses of a step are not comparable with those of the step before."""

    def work(self, start: int, end: int) -> float:
        """Return the computation of the steps from `start` up to `end`, in some unit of the run."""

    def after_step(self, model: Any, step: int) -> None:
        """Update weights that get no gradient; `step` is the number of steps taken."""

    def diagnose(self, metrics: StepMetrics) -> str | None:
        """Return a message about the progress of training, or None if there is nothing to report.

        Such a message is for the user and changes nothing, unlike the doctor, which skips steps and
        rolls the run back.
        """

    def checkpoint_writer(self, model: Any, step: int) -> Callable[[Path], None]:
        """Return a function that writes the model as it is now, even if training changes it meanwhile."""

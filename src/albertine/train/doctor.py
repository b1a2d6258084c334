"""The doctor: checks loss and gradient norm of every step, and decides whether the step is taken.

    loss or gradient not finite       skip the step; after several in a row, roll back
    loss far above its average        take the step; after many in a row, roll back
    loss far above the ceiling        take the step; after many in a row, roll back

The average is known only after some steps, and follows a loss that rises slowly. So the
`Trainable` gives a ceiling: the loss of a model that has learned next to nothing. A run
that starts above it may stay there, but it may not rise again after it has come down.

A rollback restores the last checkpoint from before the loss diverged and halves the
learning rate. After a few rollbacks the run ends with advice on what to change.
"""

import math
from dataclasses import dataclass
from typing import Literal

from albertine.train.step_metrics import moving_average

Verdict = Literal["ok", "skip", "rollback"]

_NONFINITE_PATIENCE = 5  # steps in a row without a finite gradient
_HIGH_LOSS_PATIENCE = 20  # steps far above the average or the ceiling, less the others since
_MIN_STEPS = 50  # steps before the average is used
_DECAY = 0.98
# A loss is far above a level if it exceeds it by both: a number of nats, and average deviations.
_AVERAGE_EXCESS, _CEILING_EXCESS = (0.7, 8.0), (0.5, 1.5)
MAX_ROLLBACKS = 3


@dataclass
class Doctor:
    """Decides on each step from averages and counts of the steps before; checkpoints contain all of them.

    Attributes:
        average_loss: moving average of the loss.
        average_deviation: moving average of the absolute deviation from it.
        averaged_steps: number of steps in both averages.
        lowest_average: lowest value of `average_loss`; None before the first step.
        nonfinite_steps: number of steps in a row that were skipped.
        high_loss_steps: number of steps far above the average or the ceiling, less the number of
            others since the first of them; 0 if there are more others.
        last_healthy_step: last step whose weights gave a normal loss, with no high one to make up for.
        rollbacks: number of rollbacks.
        skipped_steps: number of skipped steps in the whole run.
    """

    average_loss: float = 0.0
    average_deviation: float = 0.0
    averaged_steps: int = 0
    lowest_average: float | None = None
    nonfinite_steps: int = 0
    high_loss_steps: int = 0
    last_healthy_step: int = 0
    rollbacks: int = 0
    skipped_steps: int = 0

    @property
    def lr_factor(self) -> float:
        """Factor on the learning rate."""
        return 0.5**self.rollbacks

    def check_step(self, step: int, loss: float, gradient_norm: float, ceiling: float = math.inf) -> Verdict:
        """Return what to do with a step before its gradient is used.

        Args:
            step: number of the step, from 1.
            loss: its loss.
            gradient_norm: norm of its gradient.
            ceiling: `Trainable.loss_ceiling`.
        """
        if not (math.isfinite(loss) and math.isfinite(gradient_norm)):
            self.nonfinite_steps += 1
            self.skipped_steps += 1
            return "rollback" if self.nonfinite_steps >= _NONFINITE_PATIENCE else "skip"
        self.nonfinite_steps = 0
        if self._is_high(loss, ceiling):
            self.high_loss_steps += 1
            return "rollback" if self.high_loss_steps >= _HIGH_LOSS_PATIENCE else "ok"
        self.high_loss_steps = max(0, self.high_loss_steps - 1)
        if not self.high_loss_steps:
            self.last_healthy_step = step - 1  # the loss was computed with the weights of the step before
        self._update_averages(loss)
        return "ok"

    def _is_high(self, loss: float, ceiling: float) -> bool:
        """Return whether a loss is far above the average, or far above the ceiling."""
        if self.averaged_steps >= _MIN_STEPS and loss > self.average_loss + self._margin(*_AVERAGE_EXCESS):
            return True
        if self.lowest_average is None:  # the loss of the initial weights, which have not diverged
            return False
        return loss > max(ceiling, self.lowest_average) + self._margin(*_CEILING_EXCESS)

    def _margin(self, nats: float, deviations: float) -> float:
        return max(nats, deviations * self.average_deviation)

    def _update_averages(self, loss: float) -> None:
        self.averaged_steps += 1
        deviation = abs(loss - self.average_loss) if self.averaged_steps > 1 else 0.0
        count = self.averaged_steps
        self.average_loss = moving_average(self.average_loss, loss, count, _DECAY)
        self.average_deviation = moving_average(self.average_deviation, deviation, count, _DECAY)
        lowest = self.average_loss if self.lowest_average is None else self.lowest_average
        self.lowest_average = min(lowest, self.average_loss)

    def record_rollback(self) -> None:
        """Count a rollback and start new averages."""
        self.rollbacks += 1
        self.reset_average()

    def reset_average(self) -> None:
        """Start new averages, because later losses are not comparable with earlier ones."""
        self.average_loss, self.average_deviation, self.lowest_average = 0.0, 0.0, None
        self.averaged_steps, self.nonfinite_steps, self.high_loss_steps = 0, 0, 0

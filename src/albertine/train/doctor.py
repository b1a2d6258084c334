"""The doctor: checks loss and gradient norm of every step, and decides whether the step is taken.

    loss or gradient not finite       skip the step; after several in a row, roll back
    loss far above its average        take the step; after many in a row, roll back

A rollback restores the last checkpoint from before the loss diverged and halves the
learning rate. After a few rollbacks the run ends with advice on what to change.
"""

import math
from dataclasses import dataclass
from typing import Literal

from albertine.train.step_metrics import moving_average

Verdict = Literal["ok", "skip", "rollback"]

_NONFINITE_PATIENCE = 5  # steps in a row without a finite gradient
_HIGH_LOSS_PATIENCE = 20  # steps in a row far above the average
_MIN_STEPS = 50  # steps before the average is used
_DECAY = 0.98
# "Far above the average": by this many nats, and by this many average deviations.
_MIN_EXCESS, _EXCESS_DEVIATIONS = 0.7, 8.0
MAX_ROLLBACKS = 3


@dataclass
class Doctor:
    """Decides on each step from averages and counts of the steps before; checkpoints contain all of them.

    Attributes:
        average_loss: moving average of the loss.
        average_deviation: moving average of the absolute deviation from it.
        averaged_steps: number of steps in both averages.
        nonfinite_steps: number of steps in a row that were skipped.
        high_loss_steps: number of steps in a row far above the average.
        last_healthy_step: last step whose weights gave a normal loss.
        rollbacks: number of rollbacks.
        skipped_steps: number of skipped steps in the whole run.
    """

    average_loss: float = 0.0
    average_deviation: float = 0.0
    averaged_steps: int = 0
    nonfinite_steps: int = 0
    high_loss_steps: int = 0
    last_healthy_step: int = 0
    rollbacks: int = 0
    skipped_steps: int = 0

    @property
    def lr_factor(self) -> float:
        """Factor on the learning rate."""
        return 0.5**self.rollbacks

    def check_step(self, step: int, loss: float, gradient_norm: float) -> Verdict:
        """Return what to do with a step, counted from 1, before its gradient is used."""
        if not (math.isfinite(loss) and math.isfinite(gradient_norm)):
            self.nonfinite_steps += 1
            self.skipped_steps += 1
            return "rollback" if self.nonfinite_steps >= _NONFINITE_PATIENCE else "skip"
        self.nonfinite_steps = 0
        if self.averaged_steps >= _MIN_STEPS and loss > self.average_loss + max(
            _MIN_EXCESS, _EXCESS_DEVIATIONS * self.average_deviation
        ):
            self.high_loss_steps += 1
            return "rollback" if self.high_loss_steps >= _HIGH_LOSS_PATIENCE else "ok"
        # The loss was computed with the weights of the step before.
        self.high_loss_steps, self.last_healthy_step = 0, step - 1
        self._update_averages(loss)
        return "ok"

    def _update_averages(self, loss: float) -> None:
        self.averaged_steps += 1
        deviation = abs(loss - self.average_loss) if self.averaged_steps > 1 else 0.0
        count = self.averaged_steps
        self.average_loss = moving_average(self.average_loss, loss, count, _DECAY)
        self.average_deviation = moving_average(self.average_deviation, deviation, count, _DECAY)

    def record_rollback(self) -> None:
        """Count a rollback and start new averages."""
        self.rollbacks += 1
        self.reset_average()

    def reset_average(self) -> None:
        """Start new averages, because later losses are not comparable with earlier ones."""
        self.average_loss, self.average_deviation = 0.0, 0.0
        self.averaged_steps, self.nonfinite_steps, self.high_loss_steps = 0, 0, 0

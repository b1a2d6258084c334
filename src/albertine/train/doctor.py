"""The doctor: checks loss and gradient norm of every step, and decides whether the step is taken.

    loss or gradient not finite       skip the step; after several in a row, roll back
    loss far above its average        take the step; after many in a row, roll back
    mean loss far above the ceiling   roll back

The average is used only after some steps, and it follows a loss that rises slowly. So the
`Trainable` defines a ceiling: the loss of a model that has learned next to nothing. As long as
the mean loss of the last steps has not been below it, the lowest mean so far is the ceiling.

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
_MIN_EXCESS, _EXCESS_DEVIATIONS = 0.7, 8.0
# The mean is compared with the ceiling, because single losses of a diverged run can be below it. Losses are
# clipped, so that a few high ones do not suffice. If losses are only noise, the standard deviation of their
# mean is about an eighth of their average deviation, so a margin of 0.6 is nearly five of the former.
_MIN_RECENT_STEPS = 20
_CEILING_EXCESS, _CEILING_DEVIATIONS = 0.5, 0.6
_MAX_RECENT_EXCESS = 1.5
MAX_ROLLBACKS = 3


@dataclass
class Doctor:
    """Decides on each step from averages and counts of the steps before; checkpoints contain all of them.

    Attributes:
        average_loss: moving average of the loss.
        average_deviation: moving average of the absolute deviation from `average_loss`.
        averaged_steps: number of steps in both averages.
        recent_loss: moving average of all losses, each clipped to 1.5 nats above the ceiling.
        recent_deviation: moving average of the absolute deviation from `recent_loss`.
        recent_steps: number of steps in the recent averages.
        lowest_recent_loss: lowest value of `recent_loss`; None before the first step.
        nonfinite_steps: number of steps in a row that were skipped.
        high_loss_steps: number of steps in a row far above the average.
        last_healthy_step: last step whose weights gave a normal loss.
        rollbacks: number of rollbacks.
        skipped_steps: number of skipped steps in the whole run.
    """

    average_loss: float = 0.0
    average_deviation: float = 0.0
    averaged_steps: int = 0
    recent_loss: float = 0.0
    recent_deviation: float = 0.0
    recent_steps: int = 0
    lowest_recent_loss: float | None = None
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
        excess = self._mean_excess(loss, ceiling)
        if excess > 1 and self.recent_steps >= _MIN_RECENT_STEPS:
            return "rollback"
        if self.averaged_steps >= _MIN_STEPS and loss > self.average_loss + max(
            _MIN_EXCESS, _EXCESS_DEVIATIONS * self.average_deviation
        ):
            self.high_loss_steps += 1
            return "rollback" if self.high_loss_steps >= _HIGH_LOSS_PATIENCE else "ok"
        self.high_loss_steps = 0
        if excess < 1 / 2:
            self.last_healthy_step = step - 1  # the loss was computed with the weights of the step before
        self._update_averages(loss)
        return "ok"

    def _mean_excess(self, loss: float, ceiling: float) -> float:
        """Add a loss to the recent mean; return the mean's excess over the ceiling, of which 1 is too much.

        A mean that has never been below the ceiling is compared with its own lowest value instead.
        """
        lowest = loss if self.lowest_recent_loss is None else self.lowest_recent_loss
        level = max(ceiling, lowest)
        loss = min(loss, level + _MAX_RECENT_EXCESS)
        self.recent_steps += 1
        deviation = abs(loss - self.recent_loss) if self.recent_steps > 1 else 0.0
        self.recent_loss = moving_average(self.recent_loss, loss, self.recent_steps, _DECAY)
        self.recent_deviation = moving_average(self.recent_deviation, deviation, self.recent_steps, _DECAY)
        self.lowest_recent_loss = min(lowest, self.recent_loss)
        return (self.recent_loss - level) / max(_CEILING_EXCESS, _CEILING_DEVIATIONS * self.recent_deviation)

    def _update_averages(self, loss: float) -> None:
        self.averaged_steps += 1
        deviation = abs(loss - self.average_loss) if self.averaged_steps > 1 else 0.0
        count = self.averaged_steps
        self.average_loss = moving_average(self.average_loss, loss, count, _DECAY)
        self.average_deviation = moving_average(self.average_deviation, deviation, count, _DECAY)

    def record_rollback(self) -> None:
        """Count a rollback and start new averages."""
        self.rollbacks += 1
        self._reset_averages()

    def change_objective(self, ceiling: float) -> None:
        """Start new averages, because later losses are not comparable with earlier ones.

        A loss that has been below the ceiling, `Trainable.loss_ceiling`, must stay below it.
        """
        lowest = self.lowest_recent_loss
        self._reset_averages()
        if lowest is not None and lowest < ceiling:
            self.lowest_recent_loss = lowest

    def _reset_averages(self) -> None:
        self.average_loss, self.average_deviation, self.averaged_steps = 0.0, 0.0, 0
        self.recent_loss, self.recent_deviation, self.recent_steps = 0.0, 0.0, 0
        self.lowest_recent_loss, self.nonfinite_steps, self.high_loss_steps = None, 0, 0

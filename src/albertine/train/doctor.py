"""The doctor: looks at every step's loss and gradient, and says what to do with it.

    not a number, or infinite    the step is left out; several in a row, and the run goes back
    far above where it was       watched; if it stays there, the run goes back

To go back is to take the last checkpoint from before the trouble and go on at half
the rate. After a few times of that it is no accident, and the run ends with a word
about what to change.
"""

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

Verdict = Literal["fine", "leave out", "go back"]

_NONFINITE_PATIENCE = 5  # steps in a row without a finite gradient
_HIGH_LOSS_PATIENCE = 20  # steps in a row far above the level
_MIN_STEPS = 50  # steps before there is a level to speak of
_DECAY = 0.98
_MIN_EXCESS, _EXCESS_DEVIATIONS = 0.7, 8.0
MAX_ROLLBACKS = 3


@dataclass
class Doctor:
    """What it remembers, all of it in a checkpoint.

    Attributes:
        average_loss: where the loss has been lately.
        average_deviation: how far single steps lie from it.
        averaged_steps: how many steps made the level.
        nonfinite_steps: steps in a row that were left out.
        high_loss_steps: steps in a row far above the level.
        last_healthy_step: the last step after which the weights were seen to be well.
        rollbacks: how often the run went back.
        skipped_steps: how many steps were left out in all.
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
        """What the rate is multiplied with."""
        return 0.5**self.rollbacks

    def check_step(self, step: int, loss: float, gradient_norm: float) -> Verdict:
        """Judge a step, counted from 1, before its gradient is used."""
        if not (math.isfinite(loss) and math.isfinite(gradient_norm)):
            self.nonfinite_steps += 1
            self.skipped_steps += 1
            return "go back" if self.nonfinite_steps >= _NONFINITE_PATIENCE else "leave out"
        self.nonfinite_steps = 0
        if self.averaged_steps >= _MIN_STEPS and loss > self.average_loss + max(
            _MIN_EXCESS, _EXCESS_DEVIATIONS * self.average_deviation
        ):
            self.high_loss_steps += 1
            return "go back" if self.high_loss_steps >= _HIGH_LOSS_PATIENCE else "fine"
        self.high_loss_steps, self.last_healthy_step = (
            0,
            step - 1,
        )  # a loss vouches for the weights that it was computed with
        self._update_average(loss)
        return "fine"

    def _update_average(self, loss: float) -> None:
        self.averaged_steps += 1
        weight = max(1 - _DECAY, 1 / self.averaged_steps)  # a plain mean until there are enough
        deviation = abs(loss - self.average_loss) if self.averaged_steps > 1 else 0.0
        self.average_loss += weight * (loss - self.average_loss)
        self.average_deviation += weight * (deviation - self.average_deviation)

    def record_rollback(self) -> None:
        """Note that the run went back; what was seen since does not count."""
        self.rollbacks += 1
        self.reset_average()

    def reset_average(self) -> None:
        """Start looking anew: the run does something else from here on."""
        (
            self.average_loss,
            self.average_deviation,
            self.averaged_steps,
            self.nonfinite_steps,
            self.high_loss_steps,
        ) = 0.0, 0.0, 0, 0, 0

    def state_dict(self) -> dict[str, Any]:
        """Return what it remembers."""
        return asdict(self)

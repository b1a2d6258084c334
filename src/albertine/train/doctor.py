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

_PATIENCE_BAD = 5  # steps in a row without a finite gradient
_PATIENCE_HIGH = 20  # steps in a row far above the level
_SETTLED = 50  # steps before there is a level to speak of
_MEMORY = 0.98
_FAR, _SPREADS = 0.7, 8.0
MOST_RETURNS = 3


@dataclass
class Doctor:
    """What it remembers, all of it in a checkpoint.

    Attributes:
        level: where the loss has been lately.
        spread: how far single steps lie from it.
        seen: how many steps made the level.
        bad: steps in a row that were left out.
        high: steps in a row far above the level.
        healthy: the last step after which the weights were seen to be well.
        returns: how often the run went back.
        skipped: how many steps were left out in all.
    """

    level: float = 0.0
    spread: float = 0.0
    seen: int = 0
    bad: int = 0
    high: int = 0
    healthy: int = 0
    returns: int = 0
    skipped: int = 0

    @property
    def factor(self) -> float:
        """What the rate is multiplied with."""
        return 0.5**self.returns

    def look(self, step: int, loss: float, norm: float) -> Verdict:
        """Judge a step, counted from 1, before its gradient is used."""
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self.bad += 1
            self.skipped += 1
            return "go back" if self.bad >= _PATIENCE_BAD else "leave out"
        self.bad = 0
        if self.seen >= _SETTLED and loss > self.level + max(_FAR, _SPREADS * self.spread):
            self.high += 1
            return "go back" if self.high >= _PATIENCE_HIGH else "fine"
        self.high, self.healthy = 0, step - 1  # a loss vouches for the weights that it was computed with
        self._learn(loss)
        return "fine"

    def _learn(self, loss: float) -> None:
        self.seen += 1
        weight = max(1 - _MEMORY, 1 / self.seen)  # a plain mean until there are enough
        away = abs(loss - self.level) if self.seen > 1 else 0.0
        self.level += weight * (loss - self.level)
        self.spread += weight * (away - self.spread)

    def went_back(self) -> None:
        """Note that the run went back; what was seen since does not count."""
        self.returns += 1
        self.forget()

    def forget(self) -> None:
        """Start looking anew: the run does something else from here on."""
        self.level, self.spread, self.seen, self.bad, self.high = 0.0, 0.0, 0, 0, 0

    def state(self) -> dict[str, Any]:
        """Return what it remembers."""
        return asdict(self)

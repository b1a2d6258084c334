"""The learning rate at every step, and what it follows from when nobody gives it.

It rises in a straight line over the warm-up and then falls to 0, in a line or a cosine,
or stays. With a larger batch it may be higher, by the square root of how much larger,
and the share of the warm-up grows with the batch: the rule of the LAMB paper, which
the ALBERT paper's rate of 0.00176 and warm-up of a 40th at 4096 sequences of 512 follow.
"""

import math
from dataclasses import dataclass

from albertine.train.settings import LoopSettings, OptimizerName, ScheduleName, TrainSettings


@dataclass(frozen=True)
class Anchor:
    """A rate that is right for a batch of so many tokens, and the highest that is ever taken."""

    lr: float
    batch_tokens: int
    highest: float


ANCHORS: dict[OptimizerName, Anchor] = {
    "lamb": Anchor(0.00176, 4096 * 512, 0.005),
    "adamw": Anchor(0.001, 8192, 0.002),
    "muon": Anchor(0.006, 8192, 0.01),
}
_WARMUP_SHARE, _WARMUP_TOKENS = 1 / 40, 4096 * 512
# With small batches the rule leaves hardly a warm-up; moments need some steps to mean anything.
_LEAST_SHARE, _ENOUGH_STEPS = 1 / 10, 500


def rate_for(optimizer: OptimizerName, batch_tokens: int) -> float:
    """Return the highest rate for a batch."""
    anchor = ANCHORS[optimizer]
    rate = min(anchor.highest, anchor.lr * math.sqrt(batch_tokens / anchor.batch_tokens))
    return float(f"{rate:.3g}")


def warmup_for(steps: int, batch_tokens: int) -> int:
    """Return the steps of warm-up for a batch."""
    by_rule = steps * min(1 / 5, _WARMUP_SHARE * batch_tokens / _WARMUP_TOKENS)
    return round(max(by_rule, min(steps * _LEAST_SHARE, _ENOUGH_STEPS)))


@dataclass(frozen=True)
class Schedule:
    """The rate over a run; steps are counted from 0."""

    lr: float
    warmup: int
    steps: int
    form: ScheduleName

    @classmethod
    def of(cls, train: TrainSettings) -> "Schedule":
        """Take what is set, and work out the rest."""
        lr = rate_for(train.optimizer, train.batch_tokens) if train.lr is None else train.lr
        warmup = warmup_for(train.steps, train.batch_tokens) if train.warmup is None else train.warmup
        return cls(lr, warmup, train.steps, train.schedule)

    @classmethod
    def settled(cls, train: LoopSettings) -> "Schedule":
        """Take what is set; nothing is open any more."""
        assert train.lr is not None
        assert train.warmup is not None
        return cls(train.lr, train.warmup, train.steps, train.schedule)

    def rate(self, step: int) -> float:
        """Return the rate of a step."""
        if step < self.warmup:
            return self.lr * (step + 1) / (self.warmup + 1)
        through = (step - self.warmup) / max(1, self.steps - self.warmup)
        match self.form:
            case "linear":
                return self.lr * (1 - through)
            case "cosine":
                return self.lr * (1 + math.cos(math.pi * through)) / 2
            case "constant":
                return self.lr

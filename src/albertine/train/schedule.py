"""The learning rate at every step, and what it follows from when nobody gives it.

It rises in a straight line over the warm-up and then falls to 0, in a line or a cosine,
or stays. With a larger batch it may be higher, by the square root of how much larger,
and the share of the warm-up grows with the batch: the rule of the LAMB paper, which
the ALBERT paper's rate of 0.00176 and warm-up of a 40th at 4096 sequences of 512 follow.
"""

import math
from dataclasses import dataclass

from albertine.train.settings import OptimizerName, PretrainTrainSettings, ScheduleName, TrainerSettings


@dataclass(frozen=True)
class ReferenceRate:
    """A rate that is right for a batch of so many tokens, and the highest that is ever taken."""

    lr: float
    batch_tokens: int
    max_lr: float


REFERENCE_RATES: dict[OptimizerName, ReferenceRate] = {
    "lamb": ReferenceRate(0.00176, 4096 * 512, 0.005),
    "adamw": ReferenceRate(0.001, 8192, 0.002),
    "muon": ReferenceRate(0.006, 8192, 0.01),
}
_WARMUP_SHARE, _WARMUP_TOKENS = 1 / 40, 4096 * 512
# With small batches the rule leaves hardly a warm-up; moments need some steps to mean anything.
_MIN_WARMUP_SHARE, _MIN_WARMUP_STEPS = 1 / 10, 500


def default_lr(optimizer: OptimizerName, batch_tokens: int) -> float:
    """Return the highest rate for a batch."""
    reference = REFERENCE_RATES[optimizer]
    lr = min(reference.max_lr, reference.lr * math.sqrt(batch_tokens / reference.batch_tokens))
    return float(f"{lr:.3g}")


def default_warmup(steps: int, batch_tokens: int) -> int:
    """Return the steps of warm-up for a batch."""
    by_rule = steps * min(1 / 5, _WARMUP_SHARE * batch_tokens / _WARMUP_TOKENS)
    return round(max(by_rule, min(steps * _MIN_WARMUP_SHARE, _MIN_WARMUP_STEPS)))


@dataclass(frozen=True)
class LearningRateSchedule:
    """The rate over a run; steps are counted from 0."""

    peak_lr: float
    warmup: int
    steps: int
    name: ScheduleName

    @classmethod
    def from_settings(cls, settings: PretrainTrainSettings) -> "LearningRateSchedule":
        """Take what is set, and work out the rest."""
        lr = default_lr(settings.optimizer, settings.batch_tokens) if settings.lr is None else settings.lr
        warmup = (
            default_warmup(settings.steps, settings.batch_tokens)
            if settings.warmup is None
            else settings.warmup
        )
        return cls(lr, warmup, settings.steps, settings.schedule)

    @classmethod
    def from_resolved_settings(cls, settings: TrainerSettings) -> "LearningRateSchedule":
        """Take what is set; nothing is open any more."""
        assert settings.lr is not None
        assert settings.warmup is not None
        return cls(settings.lr, settings.warmup, settings.steps, settings.schedule)

    def lr_at(self, step: int) -> float:
        """Return the rate of a step."""
        if step < self.warmup:
            return self.peak_lr * (step + 1) / (self.warmup + 1)
        progress = (step - self.warmup) / max(1, self.steps - self.warmup)
        match self.name:
            case "linear":
                return self.peak_lr * (1 - progress)
            case "cosine":
                return self.peak_lr * (1 + math.cos(math.pi * progress)) / 2
            case "constant":
                return self.peak_lr

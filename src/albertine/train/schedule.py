"""The learning rate at every step, and its defaults.

The rate rises linearly during the warm-up; then it falls to 0, linearly or as a cosine,
or stays constant. `linear-from-start` is the schedule of Google's code: the decay counts
from the first step of the run, so that the rate drops where the warm-up ends. See
docs/decisions/google-schedule-and-adam.md.

The default peak grows with the square root of the batch size, and the default warm-up in
proportion to the batch size: the rule of the LAMB paper, which the ALBERT paper follows
(0.00176, and a warm-up of 1/40 of the run, at 4096 sequences of 512 tokens). See
docs/decisions/learning-rate-and-batch-size.md.
"""

import math
from dataclasses import dataclass

from albertine.train.settings import OptimizerName, PretrainTrainSettings, ScheduleName, TrainerSettings


@dataclass(frozen=True)
class ReferenceRate:
    """A good peak learning rate for a batch of `batch_tokens`, and the maximum for any batch."""

    lr: float
    batch_tokens: int
    max_lr: float


REFERENCE_RATES: dict[OptimizerName, ReferenceRate] = {
    "lamb": ReferenceRate(0.00176, 4096 * 512, 0.005),
    "adamw": ReferenceRate(0.001, 8192, 0.002),
    "bert-adam": ReferenceRate(0.001, 8192, 0.002),
    "muon": ReferenceRate(0.006, 8192, 0.01),
}
_WARMUP_FRACTION, _WARMUP_TOKENS = 1 / 40, 4096 * 512
# With small batches the rule gives hardly any warm-up, but the moments of the optimizer need some steps.
_MIN_WARMUP_FRACTION, _MIN_WARMUP_STEPS = 1 / 10, 500


def default_lr(optimizer: OptimizerName, batch_tokens: int) -> float:
    """Return the default peak learning rate for a batch."""
    reference = REFERENCE_RATES[optimizer]
    lr = min(reference.max_lr, reference.lr * math.sqrt(batch_tokens / reference.batch_tokens))
    return float(f"{lr:.3g}")


def default_warmup(steps: int, batch_tokens: int) -> int:
    """Return the default number of warm-up steps for a batch."""
    by_rule = steps * min(1 / 5, _WARMUP_FRACTION * batch_tokens / _WARMUP_TOKENS)
    return round(max(by_rule, min(steps * _MIN_WARMUP_FRACTION, _MIN_WARMUP_STEPS)))


@dataclass(frozen=True)
class LearningRateSchedule:
    """The learning rate over a run; steps are counted from 0."""

    peak_lr: float
    warmup: int
    steps: int
    name: ScheduleName

    @classmethod
    def from_settings(cls, settings: PretrainTrainSettings) -> "LearningRateSchedule":
        """Return the schedule of settings, with defaults for learning rate and warm-up."""
        lr = default_lr(settings.optimizer, settings.batch_tokens) if settings.lr is None else settings.lr
        warmup = (
            default_warmup(settings.steps, settings.batch_tokens)
            if settings.warmup is None
            else settings.warmup
        )
        return cls(lr, warmup, settings.steps, settings.schedule)

    @classmethod
    def from_resolved_settings(cls, settings: TrainerSettings) -> "LearningRateSchedule":
        """Return the schedule of settings that have a learning rate, a warm-up and the schedule's name."""
        assert settings.lr is not None
        assert settings.warmup is not None
        assert settings.schedule is not None
        return cls(settings.lr, settings.warmup, settings.steps, settings.schedule)

    def lr_at(self, step: int) -> float:
        """Return the learning rate of a step."""
        if self.name == "linear-from-start":
            return self.peak_lr * (step / self.warmup if step < self.warmup else 1 - step / self.steps)
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

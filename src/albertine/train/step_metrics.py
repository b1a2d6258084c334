"""What is told of a step: the numbers that the display, the journal and trackers all show."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class StepMetrics:
    """One step.

    Attributes:
        step: its number, from 1.
        tokens: seen so far.
        seconds: of training so far.
        loss: the sum of the objectives.
        losses: of each objective.
        accuracies: share that each objective got right; not a number where nothing is ever just right.
        lr: the learning rate.
        gradient_norm: length of the gradient, before clipping.
        tokens_per_second: tokens a second.
        utilization: share of the machine's rate of matrix products.
        peak_memory: the most bytes held.
        skipped: whether the step was not taken.
    """

    step: int
    tokens: int
    seconds: float
    loss: float
    losses: dict[str, float]
    accuracies: dict[str, float]
    lr: float
    gradient_norm: float
    tokens_per_second: float
    utilization: float
    peak_memory: int
    skipped: bool = field(default=False)

    def to_json(self) -> dict[str, Any]:
        """Return the step under stable keys."""
        return {
            "step": self.step,
            "tokens": self.tokens,
            "loss": self.loss,
            **{f"{name}_loss": value for name, value in self.losses.items()},
            **{f"{name}_accuracy": value for name, value in self.accuracies.items() if value == value},
            "lr": self.lr,
            "gradient_norm": self.gradient_norm,
            "seconds": round(self.seconds, 3),
            "tokens_per_second": round(self.tokens_per_second, 1),
            "roof": round(self.utilization, 4),
            "memory": self.peak_memory,
            **({"left_out": True} if self.skipped else {}),
        }

"""The metrics of a training step, which the display, `metrics.jsonl` and trackers show."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class StepMetrics:
    """Metrics of one step.

    Attributes:
        step: number of the step, from 1.
        tokens: number of tokens trained on so far.
        seconds: time spent in training steps so far.
        loss: sum of the losses of all objectives.
        losses: mean loss of each objective.
        accuracies: accuracy of each objective; NaN if it has none.
        lr: learning rate.
        gradient_norm: norm of the whole gradient before clipping.
        tokens_per_second: throughput of this step.
        utilization: throughput of this step as a fraction of the peak throughput of matrix products.
        peak_memory: peak memory so far, in bytes.
        skipped: whether the weights were left unchanged because the gradient was not finite.
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
    skipped: bool = False

    def to_json(self) -> dict[str, Any]:
        """Return the metrics under stable keys."""
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
            "utilization": round(self.utilization, 4),
            "peak_memory": self.peak_memory,
            **({"skipped": True} if self.skipped else {}),
        }


def moving_average(average: float, value: float, count: int, decay: float) -> float:
    """Return an exponential moving average after its `count`-th value.

    The first values have equal weights, until a weight would be less than `1 - decay`.
    """
    if count == 1:
        return value
    return average + max(1 - decay, 1 / count) * (value - average)

"""What is told of a step: the numbers that the display, the journal and trackers all show."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Told:
    """One step.

    Attributes:
        step: its number, from 1.
        tokens: seen so far.
        seconds: of training so far.
        loss: the sum of the objectives.
        losses: of each objective.
        right: share that each objective got right; not a number where nothing is ever just right.
        lr: the learning rate.
        norm: length of the gradient, before clipping.
        speed: tokens a second.
        roof: share of the machine's rate of matrix products.
        memory: the most bytes held.
        left_out: whether the step was not taken.
    """

    step: int
    tokens: int
    seconds: float
    loss: float
    losses: dict[str, float]
    right: dict[str, float]
    lr: float
    norm: float
    speed: float
    roof: float
    memory: int
    left_out: bool = field(default=False)

    def to_json(self) -> dict[str, Any]:
        """Return the step under stable keys."""
        return {
            "step": self.step,
            "tokens": self.tokens,
            "loss": self.loss,
            **{f"{name}_loss": value for name, value in self.losses.items()},
            **{f"{name}_accuracy": value for name, value in self.right.items() if value == value},
            "lr": self.lr,
            "gradient_norm": self.norm,
            "seconds": round(self.seconds, 3),
            "tokens_per_second": round(self.speed, 1),
            "roof": round(self.roof, 4),
            "memory": self.memory,
            **({"left_out": True} if self.left_out else {}),
        }

"""The state of a training run besides weights and optimizers, as `state.json` of a checkpoint holds it."""

from dataclasses import asdict, dataclass, field
from typing import Any

from albertine.train.doctor import Doctor


@dataclass(frozen=True)
class BestEvaluation:
    """The best evaluation so far.

    Attributes:
        step: number of steps that the model had taken.
        score_to_minimize: score of the evaluation, from `Trainable.score_to_minimize`.
    """

    step: int
    score_to_minimize: float


@dataclass
class TrainerState:
    """The progress of a run.

    Attributes:
        step: number of steps taken.
        tokens: number of tokens trained on.
        seconds: time spent in training steps.
        data_position: position in the data after the last step, from `Trainable.data_position`.
        metrics: metrics of the last evaluation.
        last_evaluated_step: step of the last evaluation; -1 before the first.
        best: the best evaluation since the objective last changed; None before the first.
        last_improved_step: step of the last evaluation that was clearly better than those before it.
        doctor: the doctor, with its averages and counts.
    """

    step: int = 0
    tokens: int = 0
    seconds: float = 0.0
    data_position: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    last_evaluated_step: int = -1
    best: BestEvaluation | None = None
    last_improved_step: int = 0
    doctor: Doctor = field(default_factory=Doctor)

    def to_json(self) -> dict[str, Any]:
        """Return a copy of the state as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "TrainerState":
        """Return the state from the JSON values of `to_json`; other keys are ignored.

        Raises `KeyError` or `TypeError` for values of another origin.
        """
        names = ("step", "tokens", "seconds", "last_evaluated_step")
        numbers = [*[values[name] for name in names], *values["metrics"].values(), *values["doctor"].values()]
        numbers += [] if values["best"] is None else values["best"].values()
        is_valid = all(isinstance(number, int | float | None) for number in numbers)
        if not is_valid or not isinstance(values["step"], int):
            raise TypeError("a value that is not a number")
        best = None if values["best"] is None else BestEvaluation(**values["best"])
        return cls(
            step=values["step"],
            tokens=values["tokens"],
            seconds=values["seconds"],
            data_position=values["data_position"],
            metrics=values["metrics"],
            last_evaluated_step=values["last_evaluated_step"],
            best=best,
            # Earlier versions did not save it.
            last_improved_step=values.get("last_improved_step", best.step if best else 0),
            doctor=Doctor(**values["doctor"]),
        )

"""The state of a training run besides weights and optimizers, as `state.json` of a checkpoint holds it."""

import math
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from albertine.json_input import JsonError, dataclass_from_json
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
        evaluation_seconds: time spent in evaluations.
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
    evaluation_seconds: float = 0.0

    def to_json(self) -> dict[str, Any]:
        """Return a copy of the state as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "TrainerState":
        """Return the state from the JSON values of `to_json`; others beside them are ignored.

        Raises `JsonError` for values of another type, and for negative counts.
        """
        names = [field.name for field in fields(cls)]
        optional = ("last_improved_step", "evaluation_seconds")  # earlier versions did not save them
        missing = next((name for name in names if name not in values and name not in optional), None)
        if missing:
            raise JsonError(f"no field {missing}")
        # Metrics and scores may be NaN or infinite, which the checks of types refuse.
        checked = {name: _with_finite_numbers(values[name]) for name in names if name in values}
        state = dataclass_from_json(cls, checked)
        state.metrics = values["metrics"]
        if state.best is not None:
            state.best = BestEvaluation(**values["best"])
        if "last_improved_step" not in values:
            state.last_improved_step = state.best.step if state.best else 0
        counts: dict[str, float | None] = {
            name: getattr(state, name) for name in ("step", "tokens", "seconds", "evaluation_seconds")
        }
        counts |= {f"doctor: {name}": value for name, value in vars(state.doctor).items()}
        if negative := next((name for name, value in counts.items() if (value or 0) < 0), None):
            raise JsonError(f"{negative} is negative")
        return state


def _with_finite_numbers(value: Any) -> Any:
    """Return a JSON value with 0 in place of NaN and infinity."""
    if isinstance(value, dict):
        return {key: _with_finite_numbers(item) for key, item in value.items()}
    return 0.0 if isinstance(value, float) and not math.isfinite(value) else value

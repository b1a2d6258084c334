"""The sizes of the runs to which the recurrence exponent is fitted; see `recurrence_fit`."""

from collections.abc import Sequence
from dataclasses import dataclass

from albertine.errors import InputError
from albertine.model.parameter_counts import count_parameters
from albertine.pretrain.settings import PretrainSettings
from albertine.settings import ModelSettings

_MIN_SIZES = 12  # twice the number of values that the first form fits


@dataclass(frozen=True)
class Observation:
    """The loss of one run.

    Attributes:
        arm: name of its arm.
        width: hidden size.
        layer_parameters: parameters of a layer, without embeddings.
        layers: layers with weights of their own.
        repetitions: how often each of them is applied.
        tokens: training tokens.
        loss: held-out loss.
    """

    arm: str
    width: int
    layer_parameters: float
    layers: float
    repetitions: float
    tokens: float
    loss: float

    @property
    def parameters(self) -> float:
        """Parameters of all layers."""
        return self.layer_parameters * self.layers


def repetitions(model: ModelSettings) -> float:
    """Return how often each layer of a model is applied; raise `InputError` if it is not one number."""
    if model.share not in ("all", "none") or model.inner_groups != 1:
        raise InputError(
            "the recurrence exponent needs layers that are shared whole; use model.share = all, with any "
            "model.groups, or none"
        )
    return model.layers / model.groups if model.share == "all" else 1.0


def check_sizes(observations: Sequence[Observation]) -> None:
    """Raise `InputError` if runs are too few or too similar for a fit, whatever their losses."""
    sizes = {
        (one.layer_parameters, one.layers, one.repetitions, one.tokens)
        for one in without_most_repetitions(observations)
    }
    if len(sizes) < _MIN_SIZES:
        raise InputError(
            f"recurrence: {len(sizes)} sizes without those of the most repetitions; a fit needs {_MIN_SIZES}"
        )
    shapes = {(one.parameters, one.repetitions) for one in without_most_repetitions(observations)}
    if len({size for size, _ in shapes}) < 2 or len({times for _, times in shapes}) < 2:
        raise InputError(
            "recurrence: a fit needs two numbers of parameters, and two of repetitions besides the most"
        )


def without_most_repetitions(observations: Sequence[Observation]) -> list[Observation]:
    """Return the runs without those with the most repetitions."""
    most = max((one.repetitions for one in observations), default=0)
    return [one for one in observations if one.repetitions < most]


def run_observation(arm: str, settings: PretrainSettings, loss: float) -> Observation:
    """Return the size of a run with its loss.

    Args:
        arm: name of the arm.
        settings: settings of the run.
        loss: held-out loss.
    """
    model = settings.model
    counts = count_parameters(model)
    layers = model.groups if model.share == "all" else model.layers
    # Batches are not equally full, so numbers of tokens differ a little where those of steps are equal.
    tokens = settings.train.steps * settings.train.batch_tokens
    size = (counts.attention + counts.ffn) / layers
    return Observation(arm, model.hidden_size, size, layers, repetitions(model), tokens, loss)


def check_recurrence(settings: Sequence[PretrainSettings]) -> None:
    """Raise `InputError` if arms with these settings cannot give a recurrence exponent."""
    for one in settings:
        if one.curriculum.depth is not None:
            raise InputError(
                "curriculum.depth: the recurrence exponent needs a constant number of repetitions; remove it"
            )
    check_sizes([run_observation("", one, 0.0) for one in settings])

"""Distance and angle between input and output of each layer, as in Figure 1 of the ALBERT paper.

With shared layers the hidden states do not converge to a fixed point, but they change
more smoothly from layer to layer than with separate weights.
"""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

import torch

from albertine.model.model import Model
from albertine.model.strip import Strip


@dataclass(frozen=True)
class LayerTransition:
    """Difference between input and output of one layer, as means over all tokens.

    Attributes:
        distance: L2 norm of the difference.
        angle: angle between the two, in degrees.
    """

    distance: float
    angle: float


def layer_transitions(
    model: Model, strips: Iterable[Strip], depth: int | None = None
) -> list[LayerTransition]:
    """Return the mean transition of each layer over all tokens of the strips, from first to last layer.

    Args:
        model: the model.
        strips: the tokens.
        depth: number of layers to apply, by default all; more only if they share all weights.
    """
    num_layers = (depth or model.settings.layers) * model.settings.inner_groups
    sums = torch.zeros(num_layers, 2, dtype=torch.float64)
    count = 0
    device = next(model.parameters()).device
    with torch.inference_mode():
        for strip in strips:
            before: torch.Tensor | None = None
            for layer, state in enumerate(model.encoder.hidden_states(strip.to(device), depth=depth)):
                after = state.double()
                if before is not None:
                    cosine = torch.nn.functional.cosine_similarity(before, after, dim=1)
                    sums[layer - 1, 0] += (after - before).norm(dim=1).sum().cpu()
                    sums[layer - 1, 1] += cosine.clamp(-1, 1).acos().sum().cpu()
                before = after
            count += len(strip.tokens)
    means = sums / max(1, count)
    return [LayerTransition(distance, math.degrees(angle)) for distance, angle in means.tolist()]


def last_step_angle(model: Model, strip: Strip, depth: int) -> float:
    """Return the mean angle in degrees between the hidden states of a strip before and after the last step.

    Args:
        model: the model.
        strip: the tokens, on the device of the model.
        depth: number of steps of depth.
    """
    with torch.no_grad():
        steps = islice(model.encoder.hidden_states(strip, depth=depth), 0, None, model.settings.inner_groups)
        before, after = deque(steps, maxlen=2)
    return mean_angle(before, after)


def mean_angle(before: torch.Tensor, after: torch.Tensor) -> float:
    """Return the mean angle in degrees between the hidden states of two steps, both [tokens, hidden]."""
    cosines = torch.nn.functional.cosine_similarity(before.double(), after.double(), dim=1)
    return math.degrees(cosines.clamp(-1, 1).acos().mean().item())

"""The whole model: an encoder and the head on top of it, made from settings and a seed."""

import hashlib
import math
from collections.abc import Collection
from typing import Any

import torch
from torch import Tensor, nn

from albertine.model.encoder import Encoder
from albertine.model.heads import make_head
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings

INITIALIZER_RANGE = 0.02


class Model(nn.Module):
    """An encoder with a head; called with a strip and maybe targets, it returns the head's output.

    Attributes:
        label_names: what the numbers of labels stand for; empty where nobody said.
    """

    def __init__(self, settings: ModelSettings, head: HeadSettings | None = None, *, seed: int | None = 0):
        super().__init__()
        self.settings = settings
        self.head_settings = HeadSettings() if head is None else head
        self.label_names: tuple[str, ...] = ()
        self.encoder = Encoder(settings)
        self.head = make_head(settings, self.head_settings, self.encoder.embedding.tokens)
        if seed is not None:
            init_weights(self, seed)

    def forward(self, strip: Strip, targets: Any = None, *, depth: int | None = None) -> Any:
        """Encode and read; which targets and output there are is the head's to say."""
        return self.head(self.encoder(strip, depth=depth), strip, targets)


def init_weights(model: nn.Module, seed: int, names: Collection[str] | None = None) -> None:
    """Draw the weights as published: matrices from a normal cut at two deviations, norms 1, biases 0.

    Each matrix has a random stream of its own, named by the seed and its place. So a weight is
    the same on any machine, whatever head sits on top and in whatever order things are made.
    `names` names the parameters to draw; all of them if it is not given.
    """
    for name, parameter in model.named_parameters():
        if names is not None and name not in names:
            continue
        if parameter.dim() >= 2:
            digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
            generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "big", signed=True))
            parameter.data.copy_(truncated_normal(parameter.shape, generator) * INITIALIZER_RANGE)
        elif name.endswith("norm.weight"):
            parameter.data.fill_(1.0)
        else:
            parameter.data.zero_()


def truncated_normal(shape: torch.Size, generator: torch.Generator) -> Tensor:
    """Draw from a standard normal cut at two deviations, through its inverse distribution in fp64.

    In fp64 the last bits, in which machines differ, vanish when the result is rounded to fp32.
    """
    max_uniform = math.erf(2 / math.sqrt(2))
    uniform = torch.rand(shape, generator=generator, dtype=torch.float64) * (2 * max_uniform) - max_uniform
    return (torch.erfinv(uniform) * math.sqrt(2)).float()

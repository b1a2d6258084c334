"""ALBERT with another depth rule, for `transformers`; Albertine copies this file into checkpoint folders.

    AutoModelForMaskedLM.from_pretrained(FOLDER, trust_remote_code=True)

The network is that of `transformers`, except that the encoder applies its layer by the rule of the config:
`depth_rule` is "fixed", "halting" (Universal Transformer) or "equilibrium" (Deep Equilibrium Models), and
`step_signal` tells the layer which step it computes. This file needs only torch and `transformers`, and its
outputs are those of Albertine. Train such a model with Albertine: here an equilibrium has the gradient of its
last steps, and halting has no cost.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from transformers import (
    AlbertConfig,
    AlbertForMaskedLM,
    AlbertForMultipleChoice,
    AlbertForPreTraining,
    AlbertForQuestionAnswering,
    AlbertForSequenceClassification,
    AlbertForTokenClassification,
    AlbertModel,
)
from transformers.modeling_outputs import BaseModelOutput
from transformers.models.albert.modeling_albert import AlbertTransformer

_HALTING_THRESHOLD = 0.99
_ANDERSON_MEMORY, _ANDERSON_RIDGE = 4, 1e-4


class AlbertineConfig(AlbertConfig):
    """The config of ALBERT, with the keys `depth_rule` and `step_signal`."""

    model_type = "albertine"


class AlbertineEncoder(AlbertTransformer):
    """Applies the shared layer by the depth rule of the config."""

    def __init__(self, config: Any):
        super().__init__(config)
        self.step_signal = _StepSignal(config.hidden_size) if config.step_signal else None
        self.halting = _Halting(config.hidden_size) if config.depth_rule == "halting" else None

    def forward(
        self, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
    ) -> BaseModelOutput:
        """Return hidden states, [batch, length, hidden], of embeddings, [batch, length, embedding]."""
        embedded = self.embedding_hidden_mapping_in(hidden_states)
        depth = self.config.num_hidden_layers

        def layer(hidden: Tensor, number: int) -> Tensor:
            if self.step_signal is not None:
                hidden = hidden + self.step_signal(number).to(hidden.dtype)
            output: Tensor = self.albert_layer_groups[0](hidden, attention_mask, **kwargs)
            return output

        if self.config.depth_rule == "equilibrium":
            output = _equilibrium(embedded, layer, depth)
        elif self.halting is not None:
            output = self.halting(embedded, layer, depth)
        else:
            output = embedded
            for number in range(depth):
                output = layer(output, number)
        return BaseModelOutput(last_hidden_state=output)


class _StepSignal(nn.Module):
    """Sinusoids of the step, with a learned gain per element."""

    def __init__(self, hidden_size: int):
        super().__init__()
        self.gain = nn.Parameter(torch.zeros(hidden_size))

    def forward(self, number: int) -> Tensor:
        """Return what is added to the input of step `number`, counted from 0, [hidden]."""
        width, device = len(self.gain), self.gain.device
        steps = torch.arange(width, device=device) // 2 * (2 / width)
        angles = (number + 1) * torch.exp(-math.log(10_000.0) * steps)
        return self.gain * torch.where(
            torch.arange(width, device=device) % 2 == 0, angles.sin(), angles.cos()
        )


class _Halting(nn.Module):
    """The mean over the steps, with weights that each token chooses."""

    def __init__(self, hidden_size: int):
        super().__init__()
        self.unit = nn.Linear(hidden_size, 1)

    def forward(self, hidden: Tensor, layer: Callable[[Tensor, int], Tensor], depth: int) -> Tensor:
        dtype, remaining = hidden.dtype, hidden.new_ones((*hidden.shape[:-1], 1), dtype=torch.float32)
        total = torch.zeros_like(hidden, dtype=torch.float32)
        for number in range(depth):
            hidden = layer(hidden, number)
            logits = nn.functional.linear(hidden.float(), self.unit.weight.float(), self.unit.bias.float())
            probability = torch.sigmoid(logits)
            is_last = (remaining - probability <= 1 - _HALTING_THRESHOLD) | (number == depth - 1)
            weight = torch.where(is_last, remaining, probability)
            total, remaining = total + weight * hidden, torch.where(is_last, 0.0, remaining - weight)
        return total.to(dtype)


def _equilibrium(embedded: Tensor, layer: Callable[[Tensor, int], Tensor], depth: int) -> Tensor:
    """Return a state that the layer nearly reproduces, found by Anderson acceleration."""
    state = torch.zeros_like(embedded)
    states: list[Tensor] = []
    outputs: list[Tensor] = []
    for _ in range(depth - 1):
        states = [*states, state][-_ANDERSON_MEMORY:]
        outputs = [*outputs, layer(state + embedded, 0)][-_ANDERSON_MEMORY:]
        state = outputs[0] if len(states) == 1 else _mixture(states, outputs)
    return layer(state + embedded, 0)


def _mixture(states: list[Tensor], outputs: list[Tensor]) -> Tensor:
    """Return the mixture of outputs, for each token, whose residuals nearly cancel."""
    stacked = torch.stack(outputs, -2).float()
    residuals = stacked - torch.stack(states, -2).float()
    products = residuals @ residuals.transpose(-1, -2)
    size = products.diagonal(dim1=-2, dim2=-1).mean(-1)[..., None, None] + torch.finfo(torch.float32).tiny
    identity = torch.eye(products.shape[-1], device=products.device)
    ones = products.new_ones((*products.shape[:-1], 1))
    mixture = torch.linalg.solve(products / size + _ANDERSON_RIDGE * identity, ones)
    mixture = mixture / mixture.sum(-2, keepdim=True)
    return (mixture.transpose(-1, -2) @ stacked).squeeze(-2).to(outputs[0].dtype)


class _WithDepthRule:
    """Replaces the encoder of a model of `transformers`."""

    config_class = AlbertineConfig

    def __init__(self, config: Any, **kwargs: Any):
        super().__init__(config, **kwargs)  # type: ignore[call-arg]
        owner: Any = getattr(self, "albert", self)
        owner.encoder = AlbertineEncoder(config)


class AlbertineModel(_WithDepthRule, AlbertModel):
    """The encoder with its pooler."""


class AlbertineForPreTraining(_WithDepthRule, AlbertForPreTraining):
    """With the heads for masked tokens and segment order."""


class AlbertineForMaskedLM(_WithDepthRule, AlbertForMaskedLM):
    """With the head for masked tokens."""


class AlbertineForSequenceClassification(_WithDepthRule, AlbertForSequenceClassification):
    """With a head for labels or numbers."""


class AlbertineForTokenClassification(_WithDepthRule, AlbertForTokenClassification):
    """With a head for labels of tokens."""


class AlbertineForQuestionAnswering(_WithDepthRule, AlbertForQuestionAnswering):
    """With a head for answers in a passage."""


class AlbertineForMultipleChoice(_WithDepthRule, AlbertForMultipleChoice):
    """With a head for the options of a question."""

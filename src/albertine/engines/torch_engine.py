"""The engine that runs a model with torch."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from albertine.device import choose_device, choose_precision, default_micro_batch_tokens
from albertine.engines.convergence import ConvergenceCheck
from albertine.info.transitions import last_step_angle
from albertine.model.encoder import ComputeOptions
from albertine.model.exits import ExitOutput, forward_with_exits
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.exit_rule import ExitRule


class TorchEngine:
    """Runs a `Model`, which must be on the device and in evaluation mode.

    Attributes:
        model: the model.
        device: device of the model.
        micro_batch_tokens: number of tokens up to which callers fill a strip.
        computes_all_tokens: whether the last step is computed for all tokens; not if the head reads one.
    """

    computes_all_tokens = False

    def __init__(self, model: Model, device: torch.device, micro_batch_tokens: int | None = None):
        self.model, self.device = model, device
        self.micro_batch_tokens = micro_batch_tokens or default_micro_batch_tokens(device)
        self._convergence = ConvergenceCheck(model.settings.layers)

    @property
    def name(self) -> str:
        """Name of the library and the precision in which it computes, for messages."""
        return f"torch, {self.precision}"

    @property
    def model_settings(self) -> ModelSettings:
        """Settings of the encoder."""
        return self.model.settings

    @property
    def head_settings(self) -> HeadSettings:
        """Settings of the head."""
        return self.model.head_settings

    @property
    def precision(self) -> str:
        """Precision of the matrix products: "fp32" or "bf16"."""
        return "bf16" if self.model.encoder.compute_options.dtype == torch.bfloat16 else "fp32"

    def run(self, strip: Strip) -> Any:
        """Return the output of the head for a strip."""
        # Sharded parameters cannot be gathered in `inference_mode`.
        with torch.no_grad():
            return self.model(strip.to(self.device))

    def run_with_exits(self, strip: Strip, rule: ExitRule) -> ExitOutput:
        """Return the output of the head for a strip, each prediction after the step at which it is final."""
        strip = strip.to(self.device)
        self._convergence.check(rule.depth, partial(last_step_angle, self.model, strip))
        return forward_with_exits(self.model, strip, rule)

    def hidden_states(self, strip: Strip) -> Tensor:
        """Return the hidden states of the tokens of a strip, [tokens, hidden]."""
        with torch.no_grad():
            hidden: Tensor = self.model.encoder(strip.to(self.device))
            return hidden

    def hidden_at(self, strip: Strip, indices: Tensor) -> Tensor:
        """Return the hidden state of one token of each sequence, [sequences, hidden]; faster than of all."""
        with torch.no_grad():
            return self.model.encoder.hidden_at(strip.to(self.device), indices.to(self.device))

    def masked_lm_logits(self, strip: Strip, indices: Tensor, *, depth: int | None = None) -> Tensor:
        """Return the logits of the masked-LM head at one token of each sequence, [sequences, vocab]."""
        strip = strip.to(self.device)
        self._convergence.check(depth, partial(last_step_angle, self.model, strip))
        with torch.no_grad():
            return self.model.masked_lm_logits(strip, indices.to(self.device), depth=depth)


def prepare_torch_engine(model: Model, device: str, precision: str) -> TorchEngine:
    """Return an engine for a loaded model.

    Args:
        model: the model, which this function moves to the device.
        device: "auto", "cpu" or "cuda".
        precision: precision of the matrix products: "auto", "fp32" or "bf16".
    """
    torch_device = choose_device(device)
    model.configure(ComputeOptions(choose_precision(precision, torch_device)))
    return TorchEngine(model.to(torch_device).eval(), torch_device)

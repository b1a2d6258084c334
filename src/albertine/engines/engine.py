"""The interfaces of engines, which run a model, or an encoder alone, for inference."""

from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from albertine.errors import WorkError
from albertine.model.exits import ExitOutput
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.exit_rule import ExitRule


class Engine(Protocol):
    """Runs the encoder and the head of one model; threads may share it.

    A new engine is one file that implements these members; no other package uses more of an
    engine than these.
    """

    @property
    def name(self) -> str:
        """Name of the library and the precision in which it computes, for messages."""

    @property
    def model_settings(self) -> ModelSettings:
        """Settings of the encoder."""

    @property
    def head_settings(self) -> HeadSettings:
        """Settings of the head."""

    @property
    def micro_batch_tokens(self) -> int:
        """Number of tokens up to which callers fill a strip; a longer sample is a strip by itself."""

    @property
    def precision(self) -> str:
        """Precision of the matrix products: "fp32", "bf16", or with int8 in words."""

    @property
    def computes_all_tokens(self) -> bool:
        """Whether the last step is computed for all tokens, also if the head reads [CLS] alone."""

    def masked_lm_logits(self, strip: Strip, indices: Tensor, *, depth: int | None = None) -> Tensor:
        """Return the logits of the masked-LM head at one token of each sequence, [sequences, vocab].

        Args:
            strip: the sequences, none of them empty.
            indices: index in the strip of one token of each sequence, in order, [sequences]; of a causal
                strip, any tokens.
            depth: number of steps of depth, by default those of the model.
        """

    def run(self, strip: Strip) -> Any:
        """Return the output of the head for a strip; the types and shapes are with the heads in `model/`."""

    def run_with_exits(self, strip: Strip, rule: ExitRule) -> ExitOutput:
        """Return the output of the head for a strip, each prediction after the step at which it is final."""


class EncoderEngine(Protocol):
    """Runs an encoder alone, for vectors of texts; threads may share it."""

    @property
    def device(self) -> torch.device:
        """Device of the hidden states."""

    @property
    def name(self) -> str:
        """Name of the library and the precision in which it computes, for messages."""

    @property
    def model_settings(self) -> ModelSettings:
        """Settings of the encoder."""

    @property
    def micro_batch_tokens(self) -> int:
        """Number of tokens up to which callers fill a strip; a longer sample is a strip by itself."""

    @property
    def precision(self) -> str:
        """Precision of the matrix products: "fp32", "bf16", or with int8 in words."""

    def hidden_states(self, strip: Strip) -> Tensor:
        """Return the hidden states of the tokens of a strip, [tokens, hidden]."""

    def hidden_at(self, strip: Strip, indices: Tensor) -> Tensor:
        """Return the hidden state of one token of each sequence, [sequences, hidden].

        Args:
            strip: the sequences, none of them empty.
            indices: index in the strip of one token of each sequence, in order, [sequences].
        """


def check_finite(values: NDArray[Any]) -> NDArray[Any]:
    """Return the results of a model; raise `WorkError` if one is NaN or infinite."""
    if not np.isfinite(values).all():
        raise WorkError(
            "the model computes numbers that are not finite: its weights are too large or damaged; "
            "use an earlier checkpoint, or train it again with a lower learning rate"
        )
    return values

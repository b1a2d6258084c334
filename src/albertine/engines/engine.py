"""The interface of an engine, which runs a model for inference."""

from typing import Any, Protocol

from torch import Tensor

from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings


class Engine(Protocol):
    """Runs the encoder and the head of one model; threads may share it.

    A new engine is one file that implements these members; no other package uses more of an
    engine than these.
    """

    @property
    def model_settings(self) -> ModelSettings:
        """Settings of the encoder."""

    @property
    def head_settings(self) -> HeadSettings:
        """Settings of the head."""

    @property
    def micro_batch_tokens(self) -> int:
        """Number of tokens up to which callers fill a strip; a longer sample is a strip by itself."""

    def masked_lm_logits(self, strip: Strip, indices: Tensor) -> Tensor:
        """Return the logits of the masked-LM head at one token of each sequence, [sequences, vocab].

        Args:
            strip: the sequences, none of them empty.
            indices: index in the strip of one token of each sequence, in order, [sequences].
        """

    def run(self, strip: Strip) -> Any:
        """Return the output of the head for a strip; `model/heads.py` has the types and shapes."""

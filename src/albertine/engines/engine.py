"""The interface of an engine, which runs a model for inference."""

from typing import Any, Protocol

from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings


class Engine(Protocol):
    """Runs the encoder and the head of one model; threads may share it.

    A new engine is one file that implements these members; `tasks`, `finetune` and
    `inference` use nothing else.
    """

    @property
    def model_settings(self) -> ModelSettings:
        """Settings of the encoder."""

    @property
    def head_settings(self) -> HeadSettings:
        """Settings of the head."""

    @property
    def micro_batch_tokens(self) -> int:
        """Maximum tokens of a strip that the engine runs efficiently."""

    def run(self, strip: Strip) -> Any:
        """Return the output of the head for a strip, as `Model` returns it."""

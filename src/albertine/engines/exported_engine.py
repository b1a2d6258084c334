"""What the engines of exported models have in common: another library runs them on rows of equal length."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from albertine.errors import InputError
from albertine.model.exits import ExitOutput
from albertine.model.head_output import output_from_logits
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.exit_rule import ExitRule

Arrays = Mapping[str, NDArray[Any]]

# Runs a graph: inputs by name to outputs by name; threads may share it.
Session = Callable[[Arrays], Arrays]

INPUT_NAMES = ("input_ids", "attention_mask", "token_type_ids")

# Prefix of the outputs that have the logits of a sequence at its first token, [rows, length, ...].
AT_FIRST_TOKEN = "packed_"

MICRO_BATCH_TOKENS = 768  # the fastest of 512 to 2,048 for sentences, in int8 and in bf16


def padded_inputs(strip: Strip) -> Arrays:
    """Return the inputs of a graph for a padded batch, a sequence in each row."""
    return dict(zip(INPUT_NAMES, (values.numpy() for values in strip.to_padded()), strict=True))


class ExportedEngine(ABC):
    """Runs an exported model; threads may share it.

    Attributes:
        micro_batch_tokens: number of tokens up to which callers fill a strip.
        computes_all_tokens: whether the last step is computed for all tokens; the graphs know no other.
    """

    micro_batch_tokens = MICRO_BATCH_TOKENS
    computes_all_tokens = True

    def __init__(self, model: ModelSettings, head: HeadSettings, name: str):
        self._model, self._head, self._name = model, head, name

    @property
    def name(self) -> str:
        """Name of the library and the precision in which it computes, for messages."""
        return self._name

    @property
    def model_settings(self) -> ModelSettings:
        """Settings of the encoder."""
        return self._model

    @property
    def head_settings(self) -> HeadSettings:
        """Settings of the head."""
        return self._head

    @property
    def precision(self) -> str:
        """Precision of the matrix products."""
        return self.name.rpartition(", ")[2]

    def run(self, strip: Strip) -> Any:
        """Return the output of the head for a strip."""
        return output_from_logits(self._head, self.logits(strip))

    @abstractmethod
    def logits(self, strip: Strip) -> dict[str, Tensor]:
        """Return logits by name, those of tokens as [tokens, ...], those of sequences as [sequences, ...]."""

    @abstractmethod
    def masked_lm_logits(self, strip: Strip, indices: Tensor, *, depth: int | None = None) -> Tensor:
        """Return the logits of the masked-LM head at one token of each sequence, [sequences, vocab]."""

    @abstractmethod
    def run_with_exits(self, strip: Strip, rule: ExitRule) -> ExitOutput:
        """Return the output of the head for a strip, each prediction after the step at which it is final."""

    def _check_masked_lm(self, strip: Strip) -> None:
        """Raise `InputError` unless the head has a masked LM, and the strip is not causal."""
        if strip.causal:
            raise InputError(
                "an exported model reads all tokens at once; for left-to-right, name the model that it was "
                "made of, with --engine torch, or use --method word-l2r"
            )
        if self._head.kind not in ("pretrain", "mlm"):
            raise InputError(f"the head is {self._head.kind}; only a pre-trained model has a masked LM")


def check_ids(strip: Strip, model: ModelSettings) -> None:
    """Raise `InputError` if an id or a sequence length is outside its table."""
    longest = max(strip.lengths, default=0)
    if longest > model.max_length:
        raise InputError(f"a sequence has {longest} tokens, more than the model's {model.max_length}")
    tables = (("token", strip.tokens, model.vocab_size), ("segment", strip.segments, model.segments))
    for name, ids, size in tables:
        if len(ids) and not (int(ids.min()) >= 0 and int(ids.max()) < size):
            raise InputError(f"a {name} id is outside the table of {size} rows")

"""The engine of an exported model: a session of another library runs it on rows of equal length."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from albertine.engines.packed_rows import pack_rows
from albertine.errors import InputError
from albertine.model.exits import ExitOutput
from albertine.model.head_output import output_from_logits
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.exit_rule import ExitRule

# Runs a model: inputs by name to outputs by name; threads may share it.
Session = Callable[[Mapping[str, NDArray[Any]]], Mapping[str, NDArray[Any]]]

INPUT_NAMES = ("input_ids", "attention_mask", "token_type_ids")

# Prefix of the outputs that have the logits of a sequence at its first token, [rows, length, ...].
AT_FIRST_TOKEN = "packed_"

MICRO_BATCH_TOKENS = 768  # the fastest of 512 to 2,048 for sentences, in int8 and in bf16


class ExportedEngine:
    """Runs an exported model; threads may share it.

    Attributes:
        micro_batch_tokens: number of tokens up to which callers fill a strip.
    """

    micro_batch_tokens = MICRO_BATCH_TOKENS

    def __init__(self, session: Session, model: ModelSettings, head: HeadSettings, name: str):
        self._session, self._model, self._head, self._name = session, model, head, name

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

    def run_with_exits(self, strip: Strip, rule: ExitRule) -> ExitOutput:  # noqa: ARG002
        """Raise `InputError`: an exported model applies all of its layers."""
        raise InputError(
            "an exported model always applies all layers; --depth needs the checkpoint that it was made from"
        )

    def masked_lm_logits(self, strip: Strip, indices: Tensor) -> Tensor:
        """Return the logits of the masked-LM head at one token of each sequence, [sequences, vocab]."""
        logits = self.logits(strip)
        if "mlm_logits" not in logits:
            raise InputError(f"the head is {self._head.kind}; only a pre-trained model has a masked LM")
        return logits["mlm_logits"].index_select(0, indices)

    def logits(self, strip: Strip) -> dict[str, Tensor]:
        """Return logits by name, those of tokens as [tokens, ...], those of sequences as [sequences, ...]."""
        self._check_ids(strip)
        rows = pack_rows(strip)
        outputs = self.run_rows(rows.inputs)
        logits = {}
        for name, values in outputs.items():
            if AT_FIRST_TOKEN + name in outputs:  # the same logits, for rows of one sequence each
                continue
            is_packed = name.startswith(AT_FIRST_TOKEN)
            indices = rows.first_indices if is_packed else rows.token_indices
            flat = torch.from_numpy(values).flatten(0, 1)
            logits[name.removeprefix(AT_FIRST_TOKEN)] = flat.index_select(0, indices)
        return logits

    def run_rows(self, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Return all outputs of the exported model for its own inputs; see `model/padded.py`."""
        return self._session(inputs)

    def _check_ids(self, strip: Strip) -> None:
        """Raise `InputError` if an id or a sequence length is outside its table."""
        longest = max(strip.lengths, default=0)
        if longest > self._model.max_length:
            raise InputError(
                f"a sequence has {longest} tokens, more than the model's {self._model.max_length}"
            )
        tables = (
            ("token", strip.tokens, self._model.vocab_size),
            ("segment", strip.segments, self._model.segments),
        )
        for name, ids, size in tables:
            if len(ids) and not (int(ids.min()) >= 0 and int(ids.max()) < size):
                raise InputError(f"a {name} id is outside the table of {size} rows")

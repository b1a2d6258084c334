"""The engine of an encoder that was exported to give vectors of texts."""

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from albertine.engines.exported_engine import MICRO_BATCH_TOKENS, Session, check_ids
from albertine.engines.packed_rows import pack_rows
from albertine.errors import InputError
from albertine.interop.export_record import EXPORT_AGAIN
from albertine.model.strip import Strip
from albertine.settings import ModelSettings

# Names of the graph's outputs, as in sentence-transformers.
TOKEN_EMBEDDINGS = "token_embeddings"  # not a password
SENTENCE_EMBEDDING = "sentence_embedding"


class ExportedEncoderEngine:
    """Runs an exported encoder; threads may share it.

    Attributes:
        model_settings: settings of the encoder.
        name: name of the library and the precision in which it computes, for messages.
        device: device of the hidden states, the CPU.
        micro_batch_tokens: number of tokens up to which callers fill a strip.
    """

    device = torch.device("cpu")
    micro_batch_tokens = MICRO_BATCH_TOKENS

    def __init__(self, session: Session, model: ModelSettings, name: str):
        self._session = session
        self.model_settings, self.name = model, name

    @property
    def precision(self) -> str:
        """Precision of the matrix products."""
        return self.name.rpartition(", ")[2]

    def hidden_states(self, strip: Strip) -> Tensor:
        """Return the hidden states of the tokens of a strip, [tokens, hidden]."""
        check_ids(strip, self.model_settings)
        rows = pack_rows(strip)
        states = self.run_rows(rows.inputs).get(TOKEN_EMBEDDINGS)
        if states is None or states.shape[2:] != (self.model_settings.hidden_size,):
            raise InputError(f"the graph of the export gives no hidden states of its config; {EXPORT_AGAIN}")
        return torch.from_numpy(states).flatten(0, 1).index_select(0, rows.token_indices)

    def hidden_at(self, strip: Strip, indices: Tensor) -> Tensor:
        """Return the hidden state of one token of each sequence, [sequences, hidden]."""
        return self.hidden_states(strip).index_select(0, indices)

    def run_rows(self, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Return all outputs for the inputs of the graph, by name."""
        return self._session(inputs)

"""The engine of an exported model whose layers are all in one graph."""

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from albertine.engines.exported_engine import AT_FIRST_TOKEN, ExportedEngine, Session, check_ids
from albertine.engines.packed_rows import pack_rows
from albertine.errors import InputError
from albertine.model.co_matching_head import check_parts
from albertine.model.exits import ExitOutput
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.exit_rule import ExitRule


class SingleGraphEngine(ExportedEngine):
    """Runs a graph that always applies all layers; threads may share it."""

    def __init__(self, session: Session, model: ModelSettings, head: HeadSettings, name: str):
        super().__init__(model, head, name)
        self._session = session

    def run_with_exits(self, strip: Strip, rule: ExitRule) -> ExitOutput:  # noqa: ARG002
        """Raise `InputError`: the graph applies all layers."""
        raise _fixed_depth_error()

    def masked_lm_logits(self, strip: Strip, indices: Tensor, *, depth: int | None = None) -> Tensor:
        """Return the logits of the masked-LM head at one token of each sequence, [sequences, vocab]."""
        if depth is not None:
            raise _fixed_depth_error()
        self._check_masked_lm(strip)
        return self.logits(strip)["mlm_logits"].index_select(0, indices)

    def logits(self, strip: Strip) -> dict[str, Tensor]:
        """Return logits by name, those of tokens as [tokens, ...], those of sequences as [sequences, ...]."""
        check_ids(strip, self._model)
        if self._head.co_matching:
            return self._logits_of_options(strip)
        rows = pack_rows(strip)
        outputs = self.run_rows(rows.inputs)
        logits = {}
        for name, values in outputs.items():
            if AT_FIRST_TOKEN + name in outputs:  # `packed_` has the same logits for every sequence of a row
                continue
            is_per_sequence = name.startswith(AT_FIRST_TOKEN)
            indices = rows.first_indices if is_per_sequence else rows.token_indices
            flat = torch.from_numpy(values).flatten(0, 1)
            logits[name.removeprefix(AT_FIRST_TOKEN)] = flat.index_select(0, indices)
        return logits

    def _logits_of_options(self, strip: Strip) -> dict[str, Tensor]:
        """Return the logits of options whose parts the head reads, one option in each row."""
        check_parts(strip)
        outputs = self.run_rows(pack_rows(strip, reads_parts=True).inputs)
        return {name: torch.from_numpy(values) for name, values in outputs.items()}

    def run_rows(self, inputs: Mapping[str, NDArray[Any]]) -> Mapping[str, NDArray[Any]]:
        """Return all outputs of the exported model for its own inputs; see `model/padded.py`."""
        return self._session(inputs)


def _fixed_depth_error() -> InputError:
    return InputError(
        "this export always applies all layers; for --exit and --depth, export the model with --exits, or "
        "use the checkpoint with torch"
    )

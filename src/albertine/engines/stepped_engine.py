"""The engine of a model that was exported in parts: another library computes the steps one by one.

Sequences whose prediction is final leave between two steps, and the others are packed into rows again.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from albertine.engines.convergence import ConvergenceCheck
from albertine.engines.exported_engine import Arrays, ExportedEngine, Session, check_ids
from albertine.engines.packed_rows import pack_rows
from albertine.engines.step_files import EMBED, STOP, block_graphs, head_graphs
from albertine.info.transitions import mean_angle
from albertine.model.exits import ExitOutput, take_steps
from albertine.model.head_output import output_from_logits
from albertine.model.model import make_head
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.exit_rule import ExitRule

Array = NDArray[Any]


class SteppedEngine(ExportedEngine):
    """Runs an exported model step by step; threads may share it.

    Attributes:
        graphs: the session of each graph, by the names of `step_files.py`.
        sequences_per_prediction: number of adjacent sequences for which the head makes one prediction.
    """

    def __init__(self, graphs: Mapping[str, Session], model: ModelSettings, head: HeadSettings, name: str):
        super().__init__(model, head, name)
        self.graphs = graphs
        self._convergence = ConvergenceCheck(model.layers)
        with torch.device("meta"):  # it compares outputs and names logits; the weights are in the graphs
            self._meta_head = make_head(model, head, nn.Embedding(model.vocab_size, model.embedding_size))
            self.sequences_per_prediction = self._meta_head.sequences_per_prediction
            if not head.matching:  # its head has the logits of sequences only
                states = torch.empty(1, model.hidden_size)
                self._token_logits = self._meta_head.logits_of_tokens(states).keys()
                self._sequence_logits = self._meta_head.logits_of_sequences(states).keys()

    def run_with_exits(self, strip: Strip, rule: ExitRule) -> ExitOutput:
        """Return the output of the head for a strip, each prediction after the step at which it is final."""
        depth = rule.depth or self._model.layers
        check_ids(strip, self._model)
        self._convergence.check(rule.depth, partial(self._last_step_angle, strip))
        if rule.can_exit:
            return take_steps(_ExportedSteps(self, strip, depth), self._meta_head, depth, rule)
        count = len(strip) // self.sequences_per_prediction
        output = output_from_logits(self._head, self.logits(strip, depth))
        return ExitOutput(output, torch.full((count,), depth))

    def exit_outputs(self, strip: Strip) -> tuple[list[Any], list[Tensor]]:
        """Return the output of the head after each step of depth, and the stop logits of an exit unit."""
        steps = _ExportedSteps(self, strip, self._model.layers)
        outputs, stop_logits = [], []
        for _ in range(self._model.layers):
            outputs.append(steps.advance())
            if STOP in self.graphs:
                stop_logits.append(steps.stop_logits())
        return outputs, stop_logits

    def masked_lm_logits(self, strip: Strip, indices: Tensor, *, depth: int | None = None) -> Tensor:
        """Return the logits of the masked-LM head at one token of each sequence, [sequences, vocab]."""
        self._check_masked_lm(strip)
        self._convergence.check(depth, partial(self._last_step_angle, strip))
        depth = depth or self._model.layers
        states = self._after_steps(strip, depth)
        rows = states.rows_of(states.rows.token_indices[indices])
        return self._head_logits(depth, rows[None])["mlm_logits"][0]

    def logits(self, strip: Strip, depth: int | None = None) -> dict[str, Tensor]:
        """Return logits by name, those of tokens as [tokens, ...], those of sequences as [sequences, ...]."""
        depth = depth or self._model.layers
        return self.logits_of(self._after_steps(strip, depth), depth)

    def _last_step_angle(self, strip: Strip, depth: int) -> float:
        """Return the mean angle in degrees by which step `depth` turns the states of a strip."""
        states = _States(self, strip, depth)
        before = after = np.empty(0)
        for _ in range(depth):
            before = after
            states.advance()
            after = states.rows_of(states.rows.token_indices)
        tensors = [torch.from_numpy(values) for values in (before, after)]
        if self._model.norm_first:  # the norm of the output is in the graph of the head; here without weights
            tensors = [functional.layer_norm(values, values.shape[1:]) for values in tensors]
        return mean_angle(*tensors)

    def _after_steps(self, strip: Strip, depth: int) -> "_States":
        check_ids(strip, self._model)
        states = _States(self, strip, depth)
        for _ in range(depth):
            states.advance()
        return states

    def logits_of(self, states: "_States", step: int) -> dict[str, Tensor]:
        """Return the logits of the head of a step, by name."""
        logits: dict[str, Tensor] = {}
        if self._head.matching:
            of_rows = self._run_head(step, states.inputs_of_pair_head())
            first_indices = states.rows.first_indices
            return {name: values.flatten(0, 1)[first_indices] for name, values in of_rows.items()}
        if self._token_logits:
            of_tokens = self._head_logits(step, states.rows_of(states.rows.token_indices)[None])
            logits |= {name: of_tokens[name][0] for name in self._token_logits}
        if self._sequence_logits:
            of_sequences = self._head_logits(step, states.rows_of(states.rows.first_indices)[:, None])
            logits |= {name: of_sequences[name] for name in self._sequence_logits}
        return logits

    def _head_logits(self, step: int, states: Array) -> dict[str, Tensor]:
        """Return all outputs of the head of a step for some states, [rows, length, hidden]."""
        return self._run_head(step, {"states": states})

    def _run_head(self, step: int, inputs: Arrays) -> dict[str, Tensor]:
        heads = head_graphs(self._model, self._head)
        # Steps beyond those of the training use the last head.
        outputs = self.graphs[heads[min(step, len(heads)) - 1]](inputs)
        return {name: torch.from_numpy(values) for name, values in outputs.items()}


class _States:
    """The states of a strip in packed rows, advanced step by step.

    Attributes:
        strip: the sequences that are left.
        rows: where they are in the rows.
    """

    def __init__(self, engine: SteppedEngine, strip: Strip, depth: int):
        self._graphs, self._settings = engine.graphs, engine.model_settings
        self._blocks = block_graphs(self._settings, depth)
        self._step = 0
        self._set_rows(strip)
        names = ["input_ids", "token_type_ids", *(["attention_mask"] if self._settings.mark_matches else [])]
        inputs = {name: self.rows.inputs[name] for name in names}
        self._states = _only_output(self._graphs[EMBED](inputs | {"position_ids": self._positions}))

    def _set_rows(self, strip: Strip) -> None:
        self.strip, self.rows = strip, pack_rows(strip)
        self._mask = self.rows.inputs["attention_mask"]
        self._positions = np.zeros_like(self._mask)
        self._positions.reshape(-1)[self.rows.token_indices.numpy()] = strip.positions.numpy()

    def advance(self) -> None:
        """Apply the blocks of the next step."""
        for name in self._blocks[self._step]:
            inputs: dict[str, Array] = {
                "states": self._states,
                "attention_mask": self._mask,
                "position_ids": self._positions,
            }
            if self._settings.step_signal:
                inputs["step"] = np.array(self._step, np.int64)
            self._states = _only_output(self._graphs[name](inputs))
        self._step += 1

    def rows_of(self, indices: Tensor) -> Array:
        """Return the states at indices of the flattened rows, [tokens, hidden]."""
        states: Array = self._states.reshape(-1, self._states.shape[-1])[indices.numpy()]
        return states

    def inputs_of_pair_head(self) -> dict[str, Array]:
        """Return the inputs of a head that compares the tokens of a sequence, each [rows, length, ...]."""
        names = ("attention_mask", "token_type_ids")
        return {"states": self._states, **{name: self.rows.inputs[name] for name in names}}

    def keep(self, sequences: Tensor) -> Tensor:
        """Remove all other sequences; return the indices that the tokens had in the strip, [tokens]."""
        strip, indices = self.strip.select(sequences)
        kept = self.rows_of(self.rows.token_indices[indices])
        self._set_rows(strip)
        self._states = np.zeros((*self._mask.shape, kept.shape[1]), kept.dtype)
        self._states.reshape(-1, kept.shape[1])[self.rows.token_indices.numpy()] = kept
        return indices


class _ExportedSteps:
    """The steps of a strip, with the output of the head after each; see `model.exits.Steps`."""

    def __init__(self, engine: SteppedEngine, strip: Strip, depth: int):
        self._engine = engine
        self._states = _States(engine, strip, depth)
        self._has_exit_unit = engine.head_settings.learned_exit
        self._cls_before: Array = np.empty(0)
        self._step = 0

    @property
    def strip(self) -> Strip:
        return self._states.strip

    def advance(self) -> Any:
        if self._has_exit_unit:
            self._cls_before = self._cls_states()
        self._states.advance()
        self._step += 1
        logits = self._engine.logits_of(self._states, self._step)
        return output_from_logits(self._engine.head_settings, logits)

    def stop_logits(self) -> Tensor:
        states = {"before": self._cls_before, "after": self._cls_states()}
        logits = torch.from_numpy(_only_output(self._engine.graphs[STOP](states)))
        return logits.view(-1, self._engine.sequences_per_prediction).mean(1)

    def keep(self, sequences: Tensor) -> Tensor:
        return self._states.keep(sequences)

    def _cls_states(self) -> Array:
        return self._states.rows_of(self._states.rows.first_indices)


def inputs_of_graphs(engine: SteppedEngine, strips: Sequence[Strip]) -> dict[str, list[Arrays]]:
    """Return the inputs of each graph, by its name, while a model takes all steps of some strips.

    After each step the head and the exit unit are called, as with an exit rule.
    """
    recorded: dict[str, list[Arrays]] = {name: [] for name in engine.graphs}

    def recording(name: str, session: Session) -> Session:
        def run(inputs: Arrays) -> Arrays:
            recorded[name].append(dict(inputs))
            return session(inputs)

        return run

    graphs = {name: recording(name, session) for name, session in engine.graphs.items()}
    observed = SteppedEngine(graphs, engine.model_settings, engine.head_settings, engine.name)
    for strip in strips:
        observed.exit_outputs(strip)
    return recorded


def _only_output(outputs: Arrays) -> Array:
    (values,) = outputs.values()
    return values

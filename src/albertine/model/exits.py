"""Predictions after every step of depth, and sequences that leave the strip as soon as theirs is final.

A padded batch takes as many steps as its slowest sequence. A strip does not: sequences whose prediction is
final are removed, and the rest is compacted, so that nothing more is computed for them.

    step 1    [CLS] a b c [SEP] | [CLS] d [SEP] | [CLS] e f [SEP]
    step 2    [CLS] a b c [SEP] | [CLS] e f [SEP]
    step 3    [CLS] e f [SEP]
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from albertine.errors import InputError
from albertine.model.depth_plan import depth_plan
from albertine.model.encoder import Encoder
from albertine.model.heads import Head
from albertine.model.strip import Strip
from albertine.settings import ModelSettings
from albertine.settings.exit_rule import ExitRule

if TYPE_CHECKING:
    from albertine.model.model import Model


def check_can_exit(settings: ModelSettings) -> None:
    """Raise `InputError` if sequences cannot leave the strip between the steps of a model."""
    if settings.depth_rule != "fixed":
        raise InputError(
            f"exits: need depth_rule = fixed; with {settings.depth_rule}, an output is of several steps"
        )


@dataclass(frozen=True)
class ExitOutput:
    """Output of a head whose predictions may be of different steps.

    Attributes:
        output: the output of the head, as for a forward pass of the whole strip.
        depths: number of steps after which each prediction was final, on the CPU, [predictions].
    """

    output: Any
    depths: Tensor


class StripStates:
    """The hidden states of a strip, advanced step by step, from which sequences can be removed.

    Attributes:
        strip: the sequences that are left.
    """

    def __init__(self, encoder: Encoder, strip: Strip, depth: int):
        """Compute the embedding.

        Args:
            encoder: the encoder, whose depth rule must be "fixed".
            strip: the sequences.
            depth: number of steps that will be taken.
        """
        check_can_exit(encoder.settings)
        self.strip, self._encoder, self._depth = strip, encoder, depth
        self._layout = encoder.layout(strip)
        self._hidden = encoder.embed(strip, self._layout)
        plan = depth_plan(encoder.settings, depth)
        self._layer = encoder.layer_function(plan, self._attend, encoder.compute_options)
        self._step = 0

    def _attend(self, qkv: Tensor) -> Tensor:
        """Return the attention of the sequences that are left, [rows, hidden]."""
        encoder = self._encoder
        kernels = encoder.compute_options.selected_kernels
        return kernels.attention(qkv, self._layout, encoder.settings.heads, encoder.attention_dropout)

    def advance(self, indices: Tensor | None) -> Tensor:
        """Take the next step; return the hidden states of all tokens or of some, [tokens, hidden].

        Args:
            indices: indices in the strip of the tokens to return; None for all. Only these have an output
                in the last step.
        """
        options = self._encoder.compute_options
        rows = None
        if indices is not None:
            rows = options.selected_kernels.pad_rows(self._layout.rows(indices), options.dtype)
        layers = self._encoder.settings.inner_groups
        is_last = self._step == self._depth - 1
        for number in range(self._step * layers, (self._step + 1) * layers):
            is_last_layer = is_last and number == (self._step + 1) * layers - 1
            self._hidden = self._layer(self._hidden, number, rows if is_last_layer else None)
        self._step += 1
        if indices is None or rows is None:
            return self._layout.restore_order(self._hidden)
        hidden = self._hidden if is_last else self._hidden.index_select(0, rows)
        return hidden.narrow(0, 0, len(indices))

    def keep(self, sequences: Tensor) -> Tensor:
        """Remove all other sequences; return the indices that the tokens had in the strip, [tokens].

        Args:
            sequences: indices of the sequences to keep, in order, on the CPU.
        """
        self.strip, indices = self.strip.select(sequences)
        old_layout, self._layout = self._layout, self._encoder.layout(self.strip)
        self._hidden = self._hidden.index_select(0, old_layout.rows(self._layout.sort(indices)))
        return indices


class _FinalPredictions:
    """Tells which predictions are final after a step, by an exit rule."""

    def __init__(self, rule: ExitRule):
        self._rule = rule
        self._decisions: Tensor | None = None
        self._times_unchanged = torch.empty(0)

    def after_step(self, head: Head, output: Any, strip: Strip) -> Tensor:
        """Return which predictions are final, on the CPU, [predictions]."""
        if self._rule.confidence is not None:
            return (head.confidence(output, strip) >= self._rule.confidence).cpu()
        decisions = head.decisions(output, strip)
        if self._decisions is None:
            self._times_unchanged = torch.zeros(len(decisions), dtype=torch.long)
        else:
            change = (decisions - self._decisions[:, : decisions.shape[1]]).abs().amax(1)
            is_unchanged = (change <= (self._rule.tolerance or 0.0)).cpu()
            self._times_unchanged = torch.where(is_unchanged, self._times_unchanged + 1, 0)
        self._decisions = decisions.clone()  # it may be a view of an output, which later steps update
        assert self._rule.patience is not None
        return self._times_unchanged >= self._rule.patience

    def keep(self, predictions: Tensor) -> None:
        """Forget all other predictions."""
        if self._decisions is not None:
            self._decisions = self._decisions[predictions.to(self._decisions.device)]
            self._times_unchanged = self._times_unchanged[predictions]


@torch.no_grad()
def forward_with_exits(model: "Model", strip: Strip, rule: ExitRule) -> ExitOutput:
    """Return the output of the head for a strip, each prediction after the step at which it is final.

    Args:
        model: the model, in evaluation mode.
        strip: the sequences.
        rule: when a prediction is final.
    """
    depth, width = rule.depth or model.settings.layers, model.head.sequences_per_prediction
    predictions, tokens = torch.arange(len(strip) // width), torch.arange(len(strip.tokens))
    depths = torch.full_like(predictions, depth)
    if not rule.can_exit:
        return ExitOutput(model(strip, depth=depth), depths)
    states, final = StripStates(model.encoder, strip, depth), _FinalPredictions(rule)
    result: Any = None
    for step in range(1, depth + 1):
        head = model.head_at(step)
        output = head(states.advance(head.indices_to_read(states.strip, None)), states.strip)
        if result is None:
            result = output
        else:
            _update_output(result, output, head, predictions, tokens)
        if step == depth:
            break
        is_final = final.after_step(head, output, states.strip)
        depths[predictions[is_final]] = step
        kept = (~is_final).nonzero().squeeze(1)
        if not len(kept):
            break
        if len(kept) < len(predictions):
            final.keep(kept)
            sequences = (kept[:, None] * width + torch.arange(width)).reshape(-1)
            predictions, tokens = predictions[kept], tokens[states.keep(sequences).cpu()]
    return ExitOutput(result, depths)


def _update_output(result: Any, output: Any, head: Head, predictions: Tensor, tokens: Tensor) -> None:
    """Copy the output for the sequences that are left into that for all sequences, in place."""
    for name, values in vars(output).items():
        if isinstance(values, Tensor):
            rows = tokens if name in head.token_outputs else predictions
            getattr(result, name)[rows.to(values.device)] = values

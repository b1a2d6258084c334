"""Predictions after every step of depth, and sequences that leave the strip as soon as theirs is final.

A padded batch takes as many steps as its slowest sequence. A strip does not: sequences whose prediction is
final are removed, and the rest is compacted, so that nothing more is computed for them.

    step 1    [CLS] a b c [SEP] | [CLS] d [SEP] | [CLS] e f [SEP]
    step 2    [CLS] a b c [SEP] | [CLS] e f [SEP]
    step 3    [CLS] e f [SEP]
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from albertine.model.heads import Head
from albertine.model.model import Model
from albertine.model.strip import Strip
from albertine.model.strip_states import StripStates
from albertine.settings.exit_rule import ExitRule


@dataclass(frozen=True)
class ExitOutput:
    """Output of a head whose predictions may be of different steps.

    Attributes:
        output: the output of the head, as for a forward pass of the whole strip.
        depths: number of steps after which each prediction was final, on the CPU, [predictions].
    """

    output: Any
    depths: Tensor


class _FinalPredictions:
    """Tells which predictions are final after a step, by an exit rule."""

    def __init__(self, rule: ExitRule, model: Model, states: StripStates):
        self._rule, self._model, self._states = rule, model, states
        self._decisions: Tensor | None = None
        self._times_unchanged = torch.empty(0)
        self._cls_hidden = torch.empty(0)
        self._continues = torch.ones(len(states.strip) // model.head.sequences_per_prediction)

    def before_step(self) -> None:
        """Store what the exit unit compares with the states after the step."""
        if self._rule.quantile is not None:
            self._cls_hidden = self._states.cls_hidden()

    def after_step(self, head: Head, output: Any) -> Tensor:
        """Return which predictions are final, on the CPU, [predictions]."""
        if self._rule.quantile is not None:
            stop_logits = self._model.stop_logits(self._cls_hidden, self._states.cls_hidden())
            self._continues = self._continues * torch.sigmoid(-stop_logits).cpu()
            return 1 - self._continues >= self._rule.quantile
        if self._rule.confidence is not None:
            return (head.confidence(output, self._states.strip) >= self._rule.confidence).cpu()
        return self._are_unchanged(head.decisions(output, self._states.strip))

    def _are_unchanged(self, decisions: Tensor) -> Tensor:
        """Return which decisions have stayed the same as often as the rule says, [predictions]."""
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
        self._continues = self._continues[predictions]
        if self._decisions is not None:
            self._decisions = self._decisions[predictions.to(self._decisions.device)]
            self._times_unchanged = self._times_unchanged[predictions]


@torch.no_grad()
def forward_with_exits(model: Model, strip: Strip, rule: ExitRule) -> ExitOutput:
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
    states = StripStates(model.encoder, strip, depth)
    final = _FinalPredictions(rule, model, states)
    result: Any = None
    for step in range(1, depth + 1):
        head = model.head_at(step)
        final.before_step()
        output = head(states.advance(head.indices_to_read(states.strip, None)), states.strip)
        if result is None:
            result = output
        else:
            _update_output(result, output, head, predictions, tokens)
        if step == depth:
            break
        is_final = final.after_step(head, output)
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

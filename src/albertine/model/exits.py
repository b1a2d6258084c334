"""Predictions after every step of depth, and sequences that leave the strip as soon as theirs is final.

A padded batch takes as many steps as its slowest sequence. A strip does not: sequences whose prediction is
final are removed, and the rest is compacted, so that nothing more is computed for them.

    step 1    [CLS] a b c [SEP] | [CLS] d [SEP] | [CLS] e f [SEP]
    step 2    [CLS] a b c [SEP] | [CLS] e f [SEP]
    step 3    [CLS] e f [SEP]
"""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from albertine.model.head import Head
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


class Steps(Protocol):
    """Takes the steps of depth of a strip; torch or another library computes them."""

    @property
    def strip(self) -> Strip:
        """The sequences that are left."""

    def advance(self) -> Any:
        """Take the next step; return the output of its head for the sequences that are left."""

    def stop_logits(self) -> Tensor:
        """Return the logit of the exit unit after the last step, for each prediction, [predictions]."""

    def keep(self, sequences: Tensor) -> Tensor:
        """Remove all other sequences; return the indices that the tokens had in the strip, [tokens].

        Args:
            sequences: indices of the sequences to keep, in order, on the CPU.
        """


class _ModelSteps:
    """The steps of a `Model`."""

    def __init__(self, model: Model, strip: Strip, depth: int, rule: ExitRule):
        self._model, self._has_exit_unit = model, rule.quantile is not None
        self._states = StripStates(model.encoder, strip, depth)
        self._step = 0
        self._cls_before = torch.empty(0)

    @property
    def strip(self) -> Strip:
        return self._states.strip

    def advance(self) -> Any:
        if self._has_exit_unit:
            self._cls_before = self._states.cls_hidden()
        self._step += 1
        head = self._model.head_at(self._step)
        return head(self._states.advance(head.indices_to_read(self.strip, None)), self.strip)

    def stop_logits(self) -> Tensor:
        return self._model.stop_logits(self._cls_before, self._states.cls_hidden())

    def keep(self, sequences: Tensor) -> Tensor:
        return self._states.keep(sequences)


class _FinalPredictions:
    """Tells which predictions are final after a step, by an exit rule."""

    def __init__(self, rule: ExitRule, head: Head, steps: Steps):
        self._rule, self._head, self._steps = rule, head, steps
        self._decisions: Tensor | None = None
        self._times_unchanged = torch.empty(0)
        self._continues = torch.ones(len(steps.strip) // head.sequences_per_prediction)

    def after_step(self, output: Any) -> Tensor:
        """Return which predictions are final, on the CPU, [predictions]."""
        if self._rule.quantile is not None:
            self._continues = self._continues * torch.sigmoid(-self._steps.stop_logits()).cpu()
            return 1 - self._continues >= self._rule.quantile
        if self._rule.confidence is not None:
            confidence = self._head.confidence(output, self._steps.strip, self._rule)
            return (confidence >= self._rule.confidence).cpu()
        return self._are_unchanged(self._head.decisions(output, self._steps.strip, self._rule))

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
    depth = rule.depth or model.settings.layers
    if not rule.can_exit:
        count = len(strip) // model.head.sequences_per_prediction
        return ExitOutput(model(strip, depth=depth), torch.full((count,), depth))
    return take_steps(_ModelSteps(model, strip, depth, rule), model.head, depth, rule)


def take_steps(steps: Steps, head: Head, depth: int, rule: ExitRule) -> ExitOutput:
    """Take steps until each prediction is final.

    Args:
        steps: the steps of a strip.
        head: a head of the model, which compares the outputs of all steps; its weights are not used.
        depth: number of steps at most.
        rule: when a prediction is final.
    """
    width = head.sequences_per_prediction
    predictions, tokens = torch.arange(len(steps.strip) // width), torch.arange(len(steps.strip.tokens))
    depths = torch.full_like(predictions, depth)
    final = _FinalPredictions(rule, head, steps)
    result: Any = None
    for step in range(1, depth + 1):
        output = steps.advance()
        if len(predictions) == len(depths):  # none has left
            result = output
        else:
            _update_output(result, output, head, predictions, tokens)
        if step == depth:
            break
        is_final = final.after_step(output)
        kept = (~is_final).nonzero().squeeze(1)
        if 0 < len(kept) == len(predictions):
            continue
        depths[predictions[is_final]] = step
        if not len(kept):
            break
        final.keep(kept)
        sequences = (kept[:, None] * width + torch.arange(width)).reshape(-1)
        predictions, tokens = predictions[kept], tokens[steps.keep(sequences).cpu()]
    return ExitOutput(result, depths)


def _update_output(result: Any, output: Any, head: Head, predictions: Tensor, tokens: Tensor) -> None:
    """Copy the output for the sequences that are left into that for all sequences, in place."""
    for name, values in vars(output).items():
        if isinstance(values, Tensor):
            rows = tokens if name in head.token_outputs else predictions
            getattr(result, name)[rows.to(values.device)] = values

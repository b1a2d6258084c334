"""The base class of heads: layers that map hidden states to predictions, and their losses.

A head owns everything above the encoder, the pooler included. Only the decoder matrix of the
masked-LM head belongs to the encoder: it is the token embedding. A head says which tokens of a
strip it reads. Called with their hidden states, it returns an output dataclass, with the loss if
targets are given. Losses are computed in fp32 whatever the precision of the rest. `Head.logits` gives the
logits alone, for hidden states of any shape [..., hidden].

`pretraining_heads` has the heads of pre-training, `prediction_heads`, `span_head` and `co_matching_head`
those of fine-tuning. `text_matching` is a part of the heads for pairs of texts.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from albertine.model.kernels.selection import Kernels
from albertine.model.strip import Strip
from albertine.settings.exit_rule import ExitRule


class Head(nn.Module):
    """Base class of the heads; `forward` takes the hidden states of the tokens that the head reads.

    Attributes:
        kernels: implementations of its operations, from `Model.configure`.
        token_outputs: names of the tensors of its output with a row for each token; others have a row for
            each prediction.
        sequences_per_prediction: number of adjacent sequences for which it makes one prediction.
    """

    kernels = Kernels()
    token_outputs: ClassVar[tuple[str, ...]] = ()
    sequences_per_prediction = 1

    def indices_to_read(self, strip: Strip, targets: Any) -> Tensor | None:  # noqa: ARG002
        """Return the indices in the strip of the tokens that the head reads; None for all tokens."""
        return None

    def logits(self, hidden: Tensor, states: Tensor) -> dict[str, Tensor]:
        """Return all logits of the head by name.

        Args:
            hidden: hidden states of the tokens, [..., hidden].
            states: what the head reads of each sequence: the hidden state of its first token, [sequences,
                hidden], or for a head with its own `sequence_states`, those of the first token.

        Returns:
            Logits of tokens, [...] or [..., classes], and of predictions, [predictions] or
            [predictions, classes].
        """
        return self.logits_of_tokens(hidden) | self.logits_of_sequences(states)

    def logits_of_tokens(self, hidden: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Return the logits of tokens by name: [..., hidden] to [...] or [..., classes]."""
        return {}

    def logits_of_sequences(self, states: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Return the logits of sequences by name: [..., hidden] to [...] or [..., classes].

        A head with its own `sequence_states` takes these instead of hidden states.
        """
        return {}

    def sequence_states(self, hidden: Tensor, is_visible: Tensor, segments: Tensor) -> Tensor:  # noqa: ARG002
        """Return for each token what `logits_of_sequences` reads of a first token: [rows, length, ...].

        Args:
            hidden: hidden states of padded or packed rows, [rows, length, hidden].
            is_visible: whether two tokens are of the same sequence, [rows, length, length].
            segments: segment of each token, [rows, length].
        """
        return hidden

    def decisions(self, output: Any, strip: Strip, rule: ExitRule) -> Tensor:
        """Return numbers that stay the same if and only if the predictions do, [predictions, ...].

        An exit rule compares them between steps of depth.

        Args:
            output: output of the head for a strip.
            strip: the strip.
            rule: the exit rule.
        """
        raise NotImplementedError

    def confidence(self, output: Any, strip: Strip, rule: ExitRule) -> Tensor:
        """Return the probability of each prediction, [predictions]; for the arguments see `decisions`."""
        raise NotImplementedError


def linear(layer: nn.Linear, values: Tensor) -> Tensor:
    """Return the output of a linear layer, computed in the precision of `values`."""
    return functional.linear(values, layer.weight.to(values.dtype), layer.bias.to(values.dtype))


def mean_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy in fp32 over the targets that are not -100; 0 if there are none."""
    summed = functional.cross_entropy(logits.float(), targets, reduction="sum")
    return summed / (targets != -100).sum().clamp(min=1)


class Pooler(nn.Module):
    """A dense layer and tanh over the first token of each sequence."""

    def __init__(self, width: int):
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, cls_hidden: Tensor) -> Tensor:
        """Return one vector per sequence: [sequences, hidden] to [sequences, hidden]."""
        return torch.tanh(linear(self.dense, cls_hidden))

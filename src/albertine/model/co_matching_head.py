"""The co-matching head for multiple choice: passage, question and option are matched in pairs.

It is the matching of DCMN+ (arXiv 1908.11511), over the hidden states of one sequence:

    [CLS] passage [SEP] question option [SEP]
          P             Q        A

    for each pair (P, Q), (P, A), (Q, A), with the same weights:
        each token of one part attends to the tokens of the other, in both directions
        a dense layer and ReLU, then the maximum over the tokens: one vector per direction
        a gate mixes the two vectors
    score = a linear layer over the three vectors of the pairs

A pair with an empty part has a vector of zeros. Parts are padded to the longest of the strip, and
padding is neither attended to nor in a maximum.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from albertine.errors import InputError
from albertine.model.head import Head, linear, mean_cross_entropy
from albertine.model.prediction_heads import PredictionOutput, check_options
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.exit_rule import ExitRule

NUM_PARTS = 3  # passage, question, option
_PAIRS = ((0, 1), (0, 2), (1, 2))


@dataclass(frozen=True)
class Part:
    """One part of each sequence, such as its passage, as a padded batch.

    Attributes:
        hidden: hidden states, 0 at padding, [sequences, longest, hidden].
        is_token: whether a position is a token, [sequences, longest].
    """

    hidden: Tensor
    is_token: Tensor


class CoMatchingHead(Head):
    """Predicts the right option of each question, from passage, question and option in pairs.

    The strip needs its `parts`: passage, question and option. As for `MultipleChoiceHead`, each option is
    a sequence, and targets are the indices of the right options, [questions].
    """

    def __init__(self, settings: ModelSettings, head: HeadSettings):
        super().__init__()
        width = settings.hidden_size
        self.attention = nn.Linear(width, width, bias=False)
        self.first = nn.Linear(width, width)
        self.second = nn.Linear(width, width)
        self.gate = nn.Linear(2 * width, width)
        self.out = nn.Linear(len(_PAIRS) * width, 1)
        self.options = self.sequences_per_prediction = head.options
        self.dropout = head.dropout

    def logits_of_sequences(self, states: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Raise `InputError`: hidden states alone do not say where question and option are; see `of_rows`."""
        raise InputError(
            "a head with co_matching reads passage, question and option apart, which a padded batch cannot "
            "mark; run it on a strip with parts"
        )

    def of_rows(self, hidden: Tensor, part_ids: Tensor) -> Tensor:
        """Return the logit of each row, which is an option: [rows, length, hidden] to [rows].

        Args:
            hidden: hidden states of one sequence in each row.
            part_ids: part of each token: 1 passage, 2 question, 3 option, 0 others, [rows, length].
        """
        return self._scores([_masked_part(hidden, part_ids == part + 1) for part in range(NUM_PARTS)])

    def forward(self, hidden: Tensor, strip: Strip, targets: Tensor | None = None) -> PredictionOutput:
        """Return the logits of the options, [questions, options], and the loss if there are targets."""
        check_options(strip, self.options)
        logits = self._scores(_split_parts(hidden, strip)).view(-1, self.options)
        return PredictionOutput(logits, None if targets is None else mean_cross_entropy(logits, targets))

    def decisions(self, output: PredictionOutput, strip: Strip, rule: ExitRule) -> Tensor:  # noqa: ARG002
        """Return the index of each most probable option, [questions, 1]."""
        return output.logits.argmax(1, keepdim=True)

    def confidence(self, output: PredictionOutput, strip: Strip, rule: ExitRule) -> Tensor:  # noqa: ARG002
        """Return the probability of each most probable option, [questions]."""
        return output.logits.float().softmax(1).amax(1)

    def _scores(self, parts: Sequence[Part]) -> Tensor:
        """Return the score of each sequence, in fp32."""
        pairs = torch.cat([self._match(parts[first], parts[second]) for first, second in _PAIRS], dim=1)
        pairs = functional.dropout(pairs, self.dropout, self.training)
        return linear(self.out, pairs.float()).squeeze(1)

    def _match(self, first: Part, second: Part) -> Tensor:
        """Return the vector of each pair of parts, [sequences, hidden]; zeros if one of the two is empty."""
        queries = functional.linear(first.hidden, self.attention.weight.to(first.hidden.dtype))
        scores = (queries @ second.hidden.mT).float() / math.sqrt(first.hidden.shape[2])
        is_pair = first.is_token[:, :, None] & second.is_token[:, None]
        # The lowest finite value: minus infinity would give NaN where a part is empty.
        scores = scores.masked_fill(~is_pair, torch.finfo(scores.dtype).min)
        second_for_first = scores.softmax(2).to(second.hidden.dtype) @ second.hidden
        first_for_second = scores.softmax(1).mT.to(first.hidden.dtype) @ first.hidden
        a = _pooled(self.first, second_for_first, first.is_token)
        b = _pooled(self.second, first_for_second, second.is_token)
        gate = torch.sigmoid(linear(self.gate, torch.cat([a, b], dim=1)))
        is_complete = first.is_token.any(1) & second.is_token.any(1)
        return (gate * a + (1 - gate) * b).masked_fill(~is_complete[:, None], 0)


def _pooled(layer: nn.Linear, values: Tensor, is_token: Tensor) -> Tensor:
    """Return the maximum over tokens of a dense layer with ReLU, [sequences, hidden]."""
    projected = torch.relu(linear(layer, values))
    return projected.masked_fill(~is_token[:, :, None], 0).amax(1)  # no ReLU is below 0


def check_parts(strip: Strip) -> Tensor:
    """Return the start and end of passage, question and option of a strip; raise `InputError` without."""
    if len(strip) == 0:
        return torch.zeros(0, NUM_PARTS, 2, dtype=torch.long)
    if strip.parts is None or strip.parts.shape[1] != NUM_PARTS:
        raise InputError(
            "a head with co_matching needs strip.parts, the start and end of passage, question and option: "
            f"[{len(strip)}, {NUM_PARTS}, 2]"
        )
    return strip.parts


def _split_parts(hidden: Tensor, strip: Strip) -> list[Part]:
    """Return passage, question and option of all sequences, from hidden states [tokens, hidden]."""
    parts = check_parts(strip)
    split = []
    for bounds in parts.unbind(1):
        starts, lengths = strip.offsets[:-1] + bounds[:, 0], bounds.diff(dim=1)
        # `amax` fails over no positions, so there is one even if all parts are empty.
        positions = torch.arange(max(1, int(lengths.max()) if len(strip) else 0))
        is_token = positions < lengths
        indices = torch.where(is_token, starts[:, None] + positions, 0).to(hidden.device)
        is_token = is_token.to(hidden.device)
        values = hidden.index_select(0, indices.flatten()).view(*indices.shape, hidden.shape[1])
        split.append(_masked_part(values, is_token))
    return split


def _masked_part(hidden: Tensor, is_token: Tensor) -> Part:
    return Part(hidden.masked_fill(~is_token[:, :, None], 0), is_token)

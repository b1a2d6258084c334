"""The heads: layers that map hidden states to predictions, and their losses.

A head owns everything above the encoder, the pooler included. Only the decoder matrix of the
masked-LM head belongs to the encoder: it is the token embedding. A head says which tokens of a
strip it reads. Called with their hidden states, it returns an output dataclass, with the loss if
targets are given. Losses are computed in fp32 whatever the precision of the rest. `Head.logits` gives the
logits alone, for hidden states of any shape [..., hidden]. `span_head` has the head for
question answering, and `co_matching_head` one for multiple choice. `text_matching` is a part of the heads
for pairs of texts.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from albertine.errors import InputError
from albertine.model.kernels.selection import Kernels
from albertine.model.layers import gelu_approximation
from albertine.model.strip import Strip
from albertine.model.text_matching import NUM_VECTORS, TextMatching
from albertine.settings import HeadSettings, ModelSettings


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

    def logits(self, hidden: Tensor, cls_hidden: Tensor) -> dict[str, Tensor]:
        """Return all logits of the head by name.

        Args:
            hidden: hidden states of the tokens, [..., hidden].
            cls_hidden: hidden state of the first token of each sequence, [sequences, hidden]; for a head with
                its own `sequence_states`, those of the first token.

        Returns:
            Logits of tokens, [...] or [..., classes], and of predictions, [predictions] or
            [predictions, classes].
        """
        return self.logits_of_tokens(hidden) | self.logits_of_sequences(cls_hidden)

    def logits_of_tokens(self, hidden: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Return the logits of tokens by name: [..., hidden] to [...] or [..., classes]."""
        return {}

    def logits_of_sequences(self, cls_hidden: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
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

    def decisions(self, output: Any, strip: Strip) -> Tensor:
        """Return numbers that stay the same if and only if the predictions do, [predictions, ...].

        An exit rule compares them between steps of depth.
        """
        raise NotImplementedError

    def confidence(self, output: Any, strip: Strip) -> Tensor:
        """Return the probability of each prediction, [predictions]."""
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


@dataclass(frozen=True)
class MaskedLMTargets:
    """Targets of the masked-LM head.

    Attributes:
        indices: indices of the masked tokens in the strip, [masked].
        labels: original ids of these tokens, [masked].
    """

    indices: Tensor
    labels: Tensor


@dataclass(frozen=True)
class MaskedLMOutput:
    """Output of the masked-LM head.

    Attributes:
        loss: mean loss over the masked tokens; None without targets.
        correct: number of masked tokens whose original token is most probable; None without targets.
        compute_logits: returns `logits`; computes them if a kernel has computed the loss without them.
    """

    loss: Tensor | None
    correct: Tensor | None
    compute_logits: Callable[[], Tensor] = field(repr=False)

    @cached_property
    def logits(self) -> Tensor:
        """The logits: with targets those of the masked tokens, [masked, vocab]; without, [tokens, vocab]."""
        return self.compute_logits()


class MaskedLMHead(Head):
    """Predicts masked tokens: a dense layer from H to E, GELU, norm, then the token embedding as decoder."""

    def __init__(self, settings: ModelSettings, token_embedding: nn.Embedding):
        super().__init__()
        self.dense = nn.Linear(settings.hidden_size, settings.embedding_size)
        self.norm = nn.LayerNorm(settings.embedding_size, eps=settings.norm_epsilon)
        self.bias = nn.Parameter(torch.zeros(settings.vocab_size))
        self.gelu_approximation = gelu_approximation(settings)
        self._token_embedding = [token_embedding]  # in a list: the weight is a parameter of the encoder only

    def logits_of_tokens(self, hidden: Tensor) -> dict[str, Tensor]:
        """Return mlm_logits [..., vocab]."""
        return {"mlm_logits": self.token_logits(hidden)}

    def indices_to_read(self, strip: Strip, targets: MaskedLMTargets | None) -> Tensor | None:  # noqa: ARG002
        """Return the indices of the masked tokens; without targets, None for all tokens."""
        return None if targets is None else targets.indices

    def forward(self, hidden: Tensor, strip: Strip, targets: MaskedLMTargets | None = None) -> MaskedLMOutput:  # noqa: ARG002  # all heads have this signature
        """Return the predictions of the masked tokens; without targets, of every token."""
        values = self._decoder_input(hidden)
        if targets is None:
            all_logits = self._decode(values)
            return MaskedLMOutput(None, None, lambda: all_logits)
        decoder, labels = self._token_embedding[0].weight, targets.labels
        summed, correct, logits = self.kernels.vocabulary_loss(values, decoder, self.bias, labels)
        loss = summed / (labels != -100).sum().clamp(min=1)
        return MaskedLMOutput(loss, correct, lambda: self._decode(values) if logits is None else logits)

    def token_logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of the vocabulary for each token: [..., hidden] to [..., vocab]."""
        return self._decode(self._decoder_input(hidden))

    def _decoder_input(self, hidden: Tensor) -> Tensor:
        """Return what the decoder maps to logits: [..., hidden] to [..., embedding]."""
        values = functional.gelu(linear(self.dense, hidden), approximate=self.gelu_approximation)
        normalized: Tensor = self.norm(values.to(self.norm.weight.dtype)).to(hidden.dtype)
        return normalized

    def _decode(self, values: Tensor) -> Tensor:
        """Return logits: [..., embedding] to [..., vocab]."""
        decoder = self._token_embedding[0].weight
        return functional.linear(values, decoder.to(values.dtype), self.bias.to(values.dtype))


@dataclass(frozen=True)
class PretrainingTargets:
    """Targets of the pre-training head.

    Attributes:
        masked: targets of the masked tokens.
        pair_labels: 1 if the two segments are swapped (SOP) or unrelated (NSP), else 0, [sequences].
    """

    masked: MaskedLMTargets
    pair_labels: Tensor


@dataclass(frozen=True)
class PretrainingOutput:
    """Output of the pre-training head; the losses are None without targets.

    Attributes:
        masked: output for the masked tokens.
        pair_logits: logits of the segment pairs, [sequences, 2].
        pair_loss: mean loss over the pairs.
        loss: sum of both losses.
    """

    masked: MaskedLMOutput
    pair_logits: Tensor
    pair_loss: Tensor | None
    loss: Tensor | None


class PretrainingHead(Head):
    """Predicts masked tokens, and whether two segments are in order (SOP) or follow each other (NSP)."""

    def __init__(self, settings: ModelSettings, token_embedding: nn.Embedding, dropout: float):
        super().__init__()
        self.pooler = Pooler(settings.hidden_size)
        self.pair = nn.Linear(settings.hidden_size, 2)
        self.masked = MaskedLMHead(settings, token_embedding)
        self.dropout = dropout

    def logits_of_tokens(self, hidden: Tensor) -> dict[str, Tensor]:
        """Return mlm_logits [..., vocab]."""
        return self.masked.logits_of_tokens(hidden)

    def logits_of_sequences(self, cls_hidden: Tensor) -> dict[str, Tensor]:
        """Return pair_logits [..., 2]."""
        return {"pair_logits": self.pair_logits(cls_hidden)}

    def indices_to_read(self, strip: Strip, targets: PretrainingTargets | None) -> Tensor | None:
        """Return the indices of the masked and then of the first tokens; without targets, None for all."""
        return None if targets is None else torch.cat([targets.masked.indices, strip.cls_indices])

    def forward(
        self, hidden: Tensor, strip: Strip, targets: PretrainingTargets | None = None
    ) -> PretrainingOutput:
        """Return the predictions of the masked tokens and of the segment pairs."""
        if targets is None:
            pair_logits = self.pair_logits(hidden.index_select(0, strip.cls_indices))
            return PretrainingOutput(self.masked(hidden, strip), pair_logits, None, None)
        masked_hidden, cls_hidden = hidden.split([len(targets.masked.indices), len(strip)])
        masked = self.masked(masked_hidden, strip, targets.masked)
        pair_logits = self.pair_logits(cls_hidden)
        pair_loss = mean_cross_entropy(pair_logits, targets.pair_labels)
        return PretrainingOutput(masked, pair_logits, pair_loss, masked.loss + pair_loss)

    def pair_logits(self, cls_hidden: Tensor) -> Tensor:
        """Return the logits of both labels of each pair: [..., hidden] to [..., 2]."""
        pooled = functional.dropout(self.pooler(cls_hidden), self.dropout, self.training)
        return linear(self.pair, pooled)


@dataclass(frozen=True)
class PredictionOutput:
    """Output of a head for classification, regression, multiple choice or tagging.

    Attributes:
        logits: shape as the head documents it; predicted values in regression.
        loss: mean loss over the targets; None without targets.
    """

    logits: Tensor
    loss: Tensor | None


class ClassificationHead(Head):
    """Predicts a label for each sequence; targets are label indices, [sequences].

    With `matching`, the states of a sequence are that of its [CLS] and the vectors of `TextMatching`.
    """

    def __init__(self, settings: ModelSettings, head: HeadSettings):
        super().__init__()
        self.width = settings.hidden_size
        self.pooler = Pooler(self.width)
        self.matching = TextMatching(self.width) if head.matching else None
        num_vectors = 1 + (NUM_VECTORS if head.matching else 0)
        self.out = nn.Linear(num_vectors * self.width, head.labels)
        self.dropout = head.dropout

    def logits_of_sequences(self, cls_hidden: Tensor) -> dict[str, Tensor]:
        """Return logits with the shape that `sequence_logits` documents."""
        return {"logits": self.sequence_logits(cls_hidden)}

    def indices_to_read(self, strip: Strip, targets: Tensor | None) -> Tensor | None:  # noqa: ARG002
        """Return the indices of the first tokens; with `matching`, None for all tokens."""
        return strip.cls_indices if self.matching is None else None

    def forward(self, hidden: Tensor, strip: Strip, targets: Tensor | None = None) -> PredictionOutput:
        """Return the logits of each sequence, and the loss if there are targets."""
        states = hidden
        if self.matching is not None:
            cls_hidden = hidden.index_select(0, strip.cls_indices)
            states = torch.cat([cls_hidden, self.matching(hidden, strip)], dim=1)
        logits = self.logits(hidden, states)["logits"]
        return PredictionOutput(logits, None if targets is None else self.loss(logits, targets))

    def sequence_states(self, hidden: Tensor, is_visible: Tensor, segments: Tensor) -> Tensor:
        """Return for each token the states of its sequence, of which [CLS] is the token itself."""
        if self.matching is None:
            return hidden
        return torch.cat([hidden, self.matching.of_rows(hidden, is_visible, segments)], dim=2)

    def sequence_logits(self, states: Tensor) -> Tensor:
        """Return the logits of the labels in fp32: [..., states] to [..., labels]."""
        if self.matching is None:
            vectors = self.pooler(states)
        else:
            cls_hidden, compared = states.split([self.width, NUM_VECTORS * self.width], dim=-1)
            vectors = torch.cat([self.pooler(cls_hidden).float(), compared.float()], dim=-1)
        vectors = functional.dropout(vectors, self.dropout, self.training)
        return linear(self.out, vectors.float())  # bf16 would round close logits to the same value

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy."""
        return mean_cross_entropy(logits, targets)

    def decisions(self, output: PredictionOutput, strip: Strip) -> Tensor:  # noqa: ARG002
        """Return the index of each most probable label or option, [predictions, 1]."""
        return output.logits.argmax(1, keepdim=True)

    def confidence(self, output: PredictionOutput, strip: Strip) -> Tensor:  # noqa: ARG002
        """Return the probability of each most probable label or option, [predictions]."""
        return output.logits.float().softmax(1).amax(1)


class MultiLabelHead(ClassificationHead):
    """Predicts any number of labels for each sequence; targets are 0 and 1, [sequences, labels]."""

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the mean binary cross-entropy."""
        summed = functional.binary_cross_entropy_with_logits(logits.float(), targets.float(), reduction="sum")
        return summed / max(1, logits.numel())

    def decisions(self, output: PredictionOutput, strip: Strip) -> Tensor:  # noqa: ARG002
        """Return 1 for each label that is more probable than not, else 0, [sequences, labels]."""
        return (output.logits > 0).long()

    def confidence(self, output: PredictionOutput, strip: Strip) -> Tensor:  # noqa: ARG002
        """Return the probability of the least certain decision about a label, [sequences]."""
        return output.logits.float().abs().sigmoid().amin(1)


class RegressionHead(ClassificationHead):
    """Predicts a number for each sequence; targets are numbers, [sequences]."""

    def sequence_logits(self, states: Tensor) -> Tensor:
        """Return the predicted numbers: [..., states] to [...]."""
        return super().sequence_logits(states).squeeze(-1)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the mean squared error."""
        summed = functional.mse_loss(logits.float(), targets.float(), reduction="sum")
        return summed / max(1, len(logits))

    def decisions(self, output: PredictionOutput, strip: Strip) -> Tensor:  # noqa: ARG002
        """Return the predicted numbers, [sequences, 1]."""
        return output.logits.float()[:, None]

    def confidence(self, output: PredictionOutput, strip: Strip) -> Tensor:  # noqa: ARG002
        """Raise `InputError`: numbers are predicted without probabilities."""
        raise InputError("confidence: a predicted number has no probability; use patience")


class MultipleChoiceHead(ClassificationHead):
    """Predicts the right option of each question; each option is a sequence, with the question in it.

    The options of a question are adjacent, and every question has the same number of them.
    Targets are the indices of the right options, [questions].
    """

    def __init__(self, settings: ModelSettings, head: HeadSettings):
        super().__init__(settings, head)
        self.options = self.sequences_per_prediction = head.options

    def forward(self, hidden: Tensor, strip: Strip, targets: Tensor | None = None) -> PredictionOutput:
        """Return the logits of the options of each question, and the loss if there are targets."""
        check_options(strip, self.options)
        return super().forward(hidden, strip, targets)

    def logits(self, hidden: Tensor, cls_hidden: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Return logits [questions, options]."""
        return {"logits": self.sequence_logits(cls_hidden).view(-1, self.options)}

    def sequence_logits(self, cls_hidden: Tensor) -> Tensor:
        """Return the logit of each sequence, which is an option: [..., hidden] to [...]."""
        return super().sequence_logits(cls_hidden).squeeze(-1)


def check_options(strip: Strip, options: int) -> None:
    """Raise `InputError` unless the sequences of a strip are the options of whole questions."""
    if len(strip) % options:
        raise InputError(f"got {len(strip)} sequences, not a multiple of {options}, the options per question")


class TokenClassificationHead(Head):
    """Predicts a label for each token; targets are label indices, [tokens], -100 for none."""

    token_outputs = ("logits",)

    def __init__(self, settings: ModelSettings, head: HeadSettings):
        super().__init__()
        self.out = nn.Linear(settings.hidden_size, head.labels)
        self.dropout = head.dropout

    def logits_of_tokens(self, hidden: Tensor) -> dict[str, Tensor]:
        """Return logits [..., labels]."""
        return {"logits": self.token_logits(hidden)}

    def forward(self, hidden: Tensor, strip: Strip, targets: Tensor | None = None) -> PredictionOutput:  # noqa: ARG002  # all heads have this signature
        """Return the logits of each token, [tokens, labels], and the loss if there are targets."""
        logits = self.token_logits(hidden)
        return PredictionOutput(logits, None if targets is None else mean_cross_entropy(logits, targets))

    def token_logits(self, hidden: Tensor) -> Tensor:
        """Return the logits of the labels: [..., hidden] to [..., labels]."""
        return linear(self.out, functional.dropout(hidden, self.dropout, self.training))

    def decisions(self, output: PredictionOutput, strip: Strip) -> Tensor:
        """Return the index of each token's most probable label, -1 at padding, [sequences, longest]."""
        return strip.pad(output.logits.argmax(1), -1)

    def confidence(self, output: PredictionOutput, strip: Strip) -> Tensor:
        """Return the mean over the tokens of each sequence of the most probable label's, [sequences]."""
        probabilities = strip.pad(output.logits.float().softmax(1).amax(1))
        return probabilities.sum(1) / strip.attention_mask.sum(1).clamp(min=1)

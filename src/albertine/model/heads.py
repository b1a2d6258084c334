"""The heads: what turns hidden states into predictions, and the loss that trains it.

A head owns everything above the encoder, the pooler included; only the decoder of the
masked-LM head is borrowed: it is the token embedding. Called with the hidden states
[tokens, hidden] of a strip, a head returns a small typed output, with the loss if targets are
given. Losses are computed in fp32 whatever the precision of the rest. `Head.logits` is the
same head without targets, for hidden states of any shape [..., hidden]. `span_head` has the
head for question answering.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from albertine.errors import InputError
from albertine.model.layers import gelu_approximation
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings


class Head(nn.Module):
    """What all heads have in common."""

    def logits(self, hidden: Tensor, cls_hidden: Tensor) -> dict[str, Tensor]:
        """Return all logits of the head by name.

        Args:
            hidden: hidden states of the tokens, [..., hidden].
            cls_hidden: hidden state of the first token of each sequence, [sequences, hidden].

        Returns:
            Logits of tokens, [...] or [..., classes], and of sequences, [sequences] or [sequences, classes].
        """
        raise NotImplementedError


def linear(layer: nn.Linear, values: Tensor) -> Tensor:
    """Apply a layer in the precision of its input."""
    return functional.linear(values, layer.weight.to(values.dtype), layer.bias.to(values.dtype))


def mean_cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean loss over the targets that are not -100, in fp32; 0 if there are none."""
    summed = functional.cross_entropy(logits.float(), targets, reduction="sum")
    return summed / (targets != -100).sum().clamp(min=1)


def first_hidden(hidden: Tensor, strip: Strip) -> Tensor:
    """Return the hidden state of the first token of each sequence, [sequences, hidden]."""
    return hidden.index_select(0, strip.cls_indices)


class Pooler(nn.Module):
    """A dense layer and tanh over the first token of each sequence."""

    def __init__(self, width: int):
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, cls_hidden: Tensor) -> Tensor:
        """Return one vector per sequence, [sequences, hidden]."""
        return torch.tanh(linear(self.dense, cls_hidden))


@dataclass(frozen=True)
class MaskedLMTargets:
    """The indices of the masked tokens in the strip, [masked], and their original ids, [masked]."""

    indices: Tensor
    labels: Tensor


@dataclass(frozen=True)
class MaskedLMOutput:
    """Logits of the masked tokens, [masked, vocab], with the loss; without targets, of all tokens."""

    logits: Tensor
    loss: Tensor | None


class MaskedLMHead(Head):
    """Predicts masked tokens: a dense layer from H to E, GELU, norm, then the token embedding as decoder."""

    def __init__(self, settings: ModelSettings, token_embedding: nn.Embedding):
        super().__init__()
        self.dense = nn.Linear(settings.hidden_size, settings.embedding_size)
        self.norm = nn.LayerNorm(settings.embedding_size, eps=settings.norm_epsilon)
        self.bias = nn.Parameter(torch.zeros(settings.vocab_size))
        self.gelu_approximation = gelu_approximation(settings)
        self._token_embedding = [token_embedding]  # in a list: the weight is a parameter of the encoder only

    def logits(self, hidden: Tensor, cls_hidden: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Return mlm_logits [..., vocab]."""
        return {"mlm_logits": self.token_logits(hidden)}

    def forward(self, hidden: Tensor, strip: Strip, targets: MaskedLMTargets | None = None) -> MaskedLMOutput:  # noqa: ARG002  # all heads have this signature
        """Predict the masked tokens, or every token without targets."""
        if targets is None:
            return MaskedLMOutput(self.token_logits(hidden), None)
        logits = self.token_logits(hidden.index_select(0, targets.indices))
        return MaskedLMOutput(logits, mean_cross_entropy(logits, targets.labels))

    def token_logits(self, hidden: Tensor) -> Tensor:
        """Score the vocabulary for each token: [..., hidden] to [..., vocab]."""
        values = functional.gelu(linear(self.dense, hidden), approximate=self.gelu_approximation)
        values = self.norm(values.to(self.norm.weight.dtype)).to(hidden.dtype)
        decoder = self._token_embedding[0].weight
        return functional.linear(values, decoder.to(values.dtype), self.bias.to(values.dtype))


@dataclass(frozen=True)
class PretrainingTargets:
    """The masked tokens; and pair labels, [sequences]: 1 if segments are swapped (SOP) or random (NSP)."""

    masked: MaskedLMTargets
    pair_labels: Tensor


@dataclass(frozen=True)
class PretrainingOutput:
    """Logits of the masked tokens, [masked, vocab], and of the pairs, [sequences, 2]; losses with targets."""

    masked: MaskedLMOutput
    pair_logits: Tensor
    pair_loss: Tensor | None
    loss: Tensor | None


class PretrainingHead(Head):
    """Both pre-training objectives: masked tokens, and the order or company of two segments."""

    def __init__(self, settings: ModelSettings, token_embedding: nn.Embedding, dropout: float):
        super().__init__()
        self.pooler = Pooler(settings.hidden_size)
        self.pair = nn.Linear(settings.hidden_size, 2)
        self.masked = MaskedLMHead(settings, token_embedding)
        self.dropout = dropout

    def logits(self, hidden: Tensor, cls_hidden: Tensor) -> dict[str, Tensor]:
        """Return mlm_logits [..., vocab] and pair_logits [sequences, 2]."""
        return {"mlm_logits": self.masked.token_logits(hidden), "pair_logits": self.pair_logits(cls_hidden)}

    def forward(
        self, hidden: Tensor, strip: Strip, targets: PretrainingTargets | None = None
    ) -> PretrainingOutput:
        """Predict both; the loss is the sum of their losses."""
        masked = self.masked(hidden, strip, None if targets is None else targets.masked)
        pair_logits = self.pair_logits(first_hidden(hidden, strip))
        if targets is None:
            return PretrainingOutput(masked, pair_logits, None, None)
        pair_loss = mean_cross_entropy(pair_logits, targets.pair_labels)
        return PretrainingOutput(masked, pair_logits, pair_loss, masked.loss + pair_loss)

    def pair_logits(self, cls_hidden: Tensor) -> Tensor:
        """Score both labels of each pair: [sequences, hidden] to [sequences, 2]."""
        pooled = functional.dropout(self.pooler(cls_hidden), self.dropout, self.training)
        return linear(self.pair, pooled)


@dataclass(frozen=True)
class PredictionOutput:
    """Logits [sequences or tokens, labels], or values [sequences] (regression); the loss with targets."""

    logits: Tensor
    loss: Tensor | None


class ClassificationHead(Head):
    """Chooses a label for each sequence; targets are label indices, [sequences]."""

    def __init__(self, settings: ModelSettings, head: HeadSettings):
        super().__init__()
        self.pooler = Pooler(settings.hidden_size)
        self.out = nn.Linear(settings.hidden_size, head.labels)
        self.dropout = head.dropout

    def logits(self, hidden: Tensor, cls_hidden: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Return logits, see `sequence_logits`."""
        return {"logits": self.sequence_logits(cls_hidden)}

    def forward(self, hidden: Tensor, strip: Strip, targets: Tensor | None = None) -> PredictionOutput:
        """Score each sequence."""
        logits = self.sequence_logits(first_hidden(hidden, strip))
        return PredictionOutput(logits, None if targets is None else self.loss(logits, targets))

    def sequence_logits(self, cls_hidden: Tensor) -> Tensor:
        """Score the labels: [sequences, hidden] to [sequences, labels]."""
        pooled = functional.dropout(self.pooler(cls_hidden), self.dropout, self.training)
        return linear(self.out, pooled)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the mean cross-entropy."""
        return mean_cross_entropy(logits, targets)


class RegressionHead(ClassificationHead):
    """Predicts a number for each sequence; targets are numbers, [sequences]."""

    def sequence_logits(self, cls_hidden: Tensor) -> Tensor:
        """Predict the numbers: [sequences, hidden] to [sequences]."""
        return super().sequence_logits(cls_hidden).squeeze(1)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the mean squared error."""
        summed = functional.mse_loss(logits.float(), targets.float(), reduction="sum")
        return summed / max(1, len(logits))


class MultipleChoiceHead(ClassificationHead):
    """Chooses one of several options, each a sequence with its question.

    The options of a question are adjacent, and every question has the same number of them.
    Targets are the index of the right option, [questions].
    """

    def __init__(self, settings: ModelSettings, head: HeadSettings):
        super().__init__(settings, head)
        self.options = head.options

    def forward(self, hidden: Tensor, strip: Strip, targets: Tensor | None = None) -> PredictionOutput:
        """Score the options of each question."""
        if len(strip) % self.options:
            raise InputError(f"{len(strip)} sequences do not make questions of {self.options} options each")
        return super().forward(hidden, strip, targets)

    def sequence_logits(self, cls_hidden: Tensor) -> Tensor:
        """Score the options: [questions * options, hidden] to [questions, options]."""
        return super().sequence_logits(cls_hidden).view(-1, self.options)


class TokenClassificationHead(Head):
    """Chooses a label for each token; targets are label indices, [tokens], -100 for none."""

    def __init__(self, settings: ModelSettings, head: HeadSettings):
        super().__init__()
        self.out = nn.Linear(settings.hidden_size, head.labels)
        self.dropout = head.dropout

    def logits(self, hidden: Tensor, cls_hidden: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Return logits [..., labels]."""
        return {"logits": self.token_logits(hidden)}

    def forward(self, hidden: Tensor, strip: Strip, targets: Tensor | None = None) -> PredictionOutput:  # noqa: ARG002  # all heads have this signature
        """Score the labels of each token, [tokens, labels]."""
        logits = self.token_logits(hidden)
        return PredictionOutput(logits, None if targets is None else mean_cross_entropy(logits, targets))

    def token_logits(self, hidden: Tensor) -> Tensor:
        """Score the labels: [..., hidden] to [..., labels]."""
        return linear(self.out, functional.dropout(hidden, self.dropout, self.training))

"""The heads: what reads the hidden states, and the loss that trains it.

A head takes the hidden states [N, H] of a strip and returns a small typed
output; given targets, the output carries the loss. Losses are computed in fp32
whatever the precision of the rest. A head owns everything above the encoder,
the pooler included; only the MLM decoder is borrowed: it is the token embedding.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from albertine.errors import InputError
from albertine.model.layers import gelu_approximation
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings


def _linear(layer: nn.Linear, values: Tensor) -> Tensor:
    """Apply a layer in the precision of its input."""
    return functional.linear(values, layer.weight.to(values.dtype), layer.bias.to(values.dtype))


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean loss over the targets that are not -100, in fp32; 0 where there are none."""
    summed = functional.cross_entropy(logits.float(), targets, reduction="sum")
    return summed / (targets != -100).sum().clamp(min=1)


class Pooler(nn.Module):
    """The first token of each sequence through a dense layer and tanh: [S, H]."""

    def __init__(self, width: int):
        super().__init__()
        self.dense = nn.Linear(width, width)

    def forward(self, hidden: Tensor, strip: Strip) -> Tensor:
        """Summarise each sequence."""
        return torch.tanh(_linear(self.dense, hidden.index_select(0, strip.cls_indices)))


@dataclass(frozen=True)
class MaskedLMTargets:
    """Which tokens were masked, as indices into the strip [M], and what stood there [M]."""

    indices: Tensor
    labels: Tensor


@dataclass(frozen=True)
class MaskedLMOutput:
    """Scores [M, V] of every piece at the tokens that were asked for; `loss` if the pieces were given."""

    logits: Tensor
    loss: Tensor | None


class MaskedLMHead(nn.Module):
    """Which piece was masked? A dense layer H to E, GELU, norm, then the token embedding as decoder."""

    def __init__(self, settings: ModelSettings, token_embedding: nn.Embedding):
        super().__init__()
        self.dense = nn.Linear(settings.hidden_size, settings.embedding_size)
        self.norm = nn.LayerNorm(settings.embedding_size, eps=settings.norm_epsilon)
        self.bias = nn.Parameter(torch.zeros(settings.vocab_size))
        self.gelu_approximation = gelu_approximation(settings)
        self._token_embedding = [token_embedding]  # in a list, so that its weight stays the encoder's alone

    def forward(self, hidden: Tensor, strip: Strip, targets: MaskedLMTargets | None = None) -> MaskedLMOutput:  # noqa: ARG002  # all heads are called alike
        """Score the masked tokens, or every token without targets."""
        selected = hidden if targets is None else hidden.index_select(0, targets.indices)
        values = functional.gelu(_linear(self.dense, selected), approximate=self.gelu_approximation)
        values = self.norm(values.to(self.norm.weight.dtype)).to(hidden.dtype)
        logits = functional.linear(
            values, self._token_embedding[0].weight.to(values.dtype), self.bias.to(values.dtype)
        )
        loss = None if targets is None else _cross_entropy(logits, targets.labels)
        return MaskedLMOutput(logits, loss)


@dataclass(frozen=True)
class PretrainingTargets:
    """The masked pieces; and [S], 1 where a pair is swapped (SOP) or foreign (NSP), else 0."""

    masked: MaskedLMTargets
    pair_labels: Tensor


@dataclass(frozen=True)
class PretrainingOutput:
    """Scores of the masked pieces [M, V] and of the pairs [S, 2]; losses if targets were given."""

    masked: MaskedLMOutput
    pair_logits: Tensor
    pair_loss: Tensor | None
    loss: Tensor | None


class PretrainingHead(nn.Module):
    """Both pre-training objectives: masked pieces, and the order (or company) of two segments."""

    def __init__(self, settings: ModelSettings, token_embedding: nn.Embedding, dropout: float):
        super().__init__()
        self.pooler = Pooler(settings.hidden_size)
        self.pair = nn.Linear(settings.hidden_size, 2)
        self.masked = MaskedLMHead(settings, token_embedding)
        self.dropout = dropout

    def forward(
        self, hidden: Tensor, strip: Strip, targets: PretrainingTargets | None = None
    ) -> PretrainingOutput:
        """Score both; the loss is their sum."""
        masked = self.masked(hidden, strip, None if targets is None else targets.masked)
        pooled = functional.dropout(self.pooler(hidden, strip), self.dropout, self.training)
        pair_logits = _linear(self.pair, pooled)
        if targets is None:
            return PretrainingOutput(masked, pair_logits, None, None)
        pair_loss = _cross_entropy(pair_logits, targets.pair_labels)
        return PretrainingOutput(masked, pair_logits, pair_loss, masked.loss + pair_loss)


@dataclass(frozen=True)
class PredictionOutput:
    """Scores [S, labels] (classification) or values [S] (regression); `loss` if targets were given."""

    logits: Tensor
    loss: Tensor | None


class ClassificationHead(nn.Module):
    """A label for each sequence; the targets are label numbers [S]."""

    def __init__(self, settings: ModelSettings, head: HeadSettings):
        super().__init__()
        self.pooler = Pooler(settings.hidden_size)
        self.out = nn.Linear(settings.hidden_size, head.labels)
        self.dropout = head.dropout

    def logits(self, hidden: Tensor, strip: Strip) -> Tensor:
        """Score each sequence: [S, labels]."""
        return _linear(self.out, functional.dropout(self.pooler(hidden, strip), self.dropout, self.training))

    def forward(self, hidden: Tensor, strip: Strip, targets: Tensor | None = None) -> PredictionOutput:
        """Score the labels."""
        logits = self.logits(hidden, strip)
        loss = None if targets is None else _cross_entropy(logits, targets)
        return PredictionOutput(logits, loss)


class RegressionHead(ClassificationHead):
    """A number for each sequence; the targets are numbers [S], the loss their mean squared error."""

    def forward(self, hidden: Tensor, strip: Strip, targets: Tensor | None = None) -> PredictionOutput:
        """Give the numbers."""
        values = self.logits(hidden, strip).squeeze(1)
        loss = None
        if targets is not None:
            summed = functional.mse_loss(values.float(), targets.float(), reduction="sum")
            loss = summed / max(1, len(values))
        return PredictionOutput(values, loss)


class MultipleChoiceHead(ClassificationHead):
    """One of several options, each a sequence with its question; sequences of one question lie side by side.

    The targets are [questions], the number of the right option; all questions of a strip
    have as many options.
    """

    def __init__(self, settings: ModelSettings, head: HeadSettings):
        super().__init__(settings, head)
        self.options = head.options

    def forward(self, hidden: Tensor, strip: Strip, targets: Tensor | None = None) -> PredictionOutput:
        """Score the options: [questions, options]."""
        if len(strip) % self.options:
            raise InputError(f"{len(strip)} sequences do not make questions of {self.options} options each")
        logits = self.logits(hidden, strip).view(-1, self.options)
        loss = None if targets is None else _cross_entropy(logits, targets)
        return PredictionOutput(logits, loss)


class TokenClassificationHead(nn.Module):
    """A label for each token; the targets are [N], with -100 where a token has none."""

    def __init__(self, settings: ModelSettings, head: HeadSettings):
        super().__init__()
        self.out = nn.Linear(settings.hidden_size, head.labels)
        self.dropout = head.dropout

    def forward(self, hidden: Tensor, strip: Strip, targets: Tensor | None = None) -> PredictionOutput:  # noqa: ARG002  # all heads are called alike
        """Score the labels of each token: [N, labels]."""
        logits = _linear(self.out, functional.dropout(hidden, self.dropout, self.training))
        loss = None if targets is None else _cross_entropy(logits, targets)
        return PredictionOutput(logits, loss)


@dataclass(frozen=True)
class SpanTargets:
    """Where each answer starts and ends, counted in its own sequence [S]; `answerable` is 1 or 0 [S].

    A question without answer has start and end at its first token.
    """

    start: Tensor
    end: Tensor
    answerable: Tensor | None = None


@dataclass(frozen=True)
class SpanOutput:
    """Scores of each token as start and end [N]; of each question as answerable [S], if decided here."""

    start_logits: Tensor
    end_logits: Tensor
    answerable_logits: Tensor | None
    loss: Tensor | None


class SpanHead(nn.Module):
    """The answer as a span of the text; with `answerable`, also whether there is one at all."""

    def __init__(self, settings: ModelSettings, head: HeadSettings):
        super().__init__()
        self.out = nn.Linear(settings.hidden_size, 2)
        self.answerable = nn.Linear(settings.hidden_size, 1) if head.answerable else None

    def forward(self, hidden: Tensor, strip: Strip, targets: SpanTargets | None = None) -> SpanOutput:
        """Score the tokens; each loss is a softmax over the tokens of one sequence."""
        start, end = _linear(self.out, hidden).unbind(-1)
        answerable = None
        if self.answerable is not None:
            answerable = _linear(self.answerable, hidden.index_select(0, strip.cls_indices)).squeeze(1)
        loss = None
        if targets is not None:
            loss = (_span_loss(start, strip, targets.start) + _span_loss(end, strip, targets.end)) / 2
            if answerable is not None:
                loss = loss + self._answerable_loss(answerable, targets)
        return SpanOutput(start, end, answerable, loss)

    @staticmethod
    def _answerable_loss(logits: Tensor, targets: SpanTargets) -> Tensor:
        if targets.answerable is None:
            raise InputError("this head decides whether there is an answer: give targets.answerable")
        labels = targets.answerable.float()
        summed = functional.binary_cross_entropy_with_logits(logits.float(), labels, reduction="sum")
        return summed / max(1, len(logits))


def _span_loss(logits: Tensor, strip: Strip, targets: Tensor) -> Tensor:
    """Return the loss of one end of the spans: a softmax over the tokens of each sequence."""
    for index, (target, length) in enumerate(zip(targets.tolist(), strip.lengths, strict=True)):
        if not 0 <= target < length:
            raise InputError(f"the answer of sequence {index} is at token {target}, it has {length}")
    return _cross_entropy(strip.pad(logits.float(), float("-inf")), targets)


def make_head(settings: ModelSettings, head: HeadSettings, token_embedding: nn.Embedding) -> nn.Module:
    """Make the head that the settings name."""
    match head.kind:
        case "pretrain":
            return PretrainingHead(settings, token_embedding, head.dropout)
        case "mlm":
            return MaskedLMHead(settings, token_embedding)
        case "classify":
            return ClassificationHead(settings, head)
        case "regress":
            return RegressionHead(settings, head)
        case "choice":
            return MultipleChoiceHead(settings, head)
        case "token":
            return TokenClassificationHead(settings, head)
        case "span":
            return SpanHead(settings, head)

"""The heads of pre-training: for masked tokens, and for the order of the two segments of a sample."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import torch
from torch import Tensor, nn
from torch.nn import functional

from albertine.model.head import Head, Pooler, linear, mean_cross_entropy
from albertine.model.layers import gelu_approximation
from albertine.model.strip import Strip
from albertine.settings import ModelSettings


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

    def logits_of_sequences(self, states: Tensor) -> dict[str, Tensor]:
        """Return pair_logits [..., 2]."""
        return {"pair_logits": self.pair_logits(states)}

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

"""The heads of fine-tuning that predict labels or numbers, of sequences, options or tokens."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from albertine.errors import InputError
from albertine.model.head import Head, Pooler, linear, mean_cross_entropy
from albertine.model.strip import Strip
from albertine.model.text_matching import NUM_VECTORS, TextMatching
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.exit_rule import ExitRule


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

    def logits_of_sequences(self, states: Tensor) -> dict[str, Tensor]:
        """Return logits with the shape that `sequence_logits` documents."""
        return {"logits": self.sequence_logits(states)}

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
        """Return for each token what `sequence_logits` reads of a [CLS]: [rows, length, states]."""
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

    def decisions(self, output: PredictionOutput, strip: Strip, rule: ExitRule) -> Tensor:  # noqa: ARG002
        """Return the index of each most probable label or option, [predictions, 1]."""
        return output.logits.argmax(1, keepdim=True)

    def confidence(self, output: PredictionOutput, strip: Strip, rule: ExitRule) -> Tensor:  # noqa: ARG002
        """Return the probability of each most probable label or option, [predictions]."""
        return output.logits.float().softmax(1).amax(1)


class MultiLabelHead(ClassificationHead):
    """Predicts any number of labels for each sequence; targets are 0 and 1, [sequences, labels]."""

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the mean binary cross-entropy."""
        summed = functional.binary_cross_entropy_with_logits(logits.float(), targets.float(), reduction="sum")
        return summed / max(1, logits.numel())

    def decisions(self, output: PredictionOutput, strip: Strip, rule: ExitRule) -> Tensor:  # noqa: ARG002
        """Return 1 for each label as probable as the rule's threshold, else 0, [sequences, labels]."""
        return (output.logits.float().sigmoid() >= rule.label_threshold).long()

    def confidence(self, output: PredictionOutput, strip: Strip, rule: ExitRule) -> Tensor:  # noqa: ARG002
        """Return the probability of the least certain decision about a label, [sequences]."""
        probabilities = output.logits.float().sigmoid()
        is_predicted = probabilities >= rule.label_threshold
        return torch.where(is_predicted, probabilities, 1 - probabilities).amin(1)


class RegressionHead(ClassificationHead):
    """Predicts a number for each sequence; targets are numbers, [sequences]."""

    def sequence_logits(self, states: Tensor) -> Tensor:
        """Return the predicted numbers: [..., states] to [...]."""
        return super().sequence_logits(states).squeeze(-1)

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the mean squared error."""
        summed = functional.mse_loss(logits.float(), targets.float(), reduction="sum")
        return summed / max(1, len(logits))

    def decisions(self, output: PredictionOutput, strip: Strip, rule: ExitRule) -> Tensor:  # noqa: ARG002
        """Return the predicted numbers, [sequences, 1]."""
        return output.logits.float()[:, None]

    def confidence(self, output: PredictionOutput, strip: Strip, rule: ExitRule) -> Tensor:  # noqa: ARG002
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

    def logits(self, hidden: Tensor, states: Tensor) -> dict[str, Tensor]:  # noqa: ARG002
        """Return logits [questions, options]."""
        return {"logits": self.sequence_logits(states).view(-1, self.options)}

    def sequence_logits(self, states: Tensor) -> Tensor:
        """Return the logit of each sequence, which is an option: [..., states] to [...]."""
        return super().sequence_logits(states).squeeze(-1)


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
        return {"logits": linear(self.out, functional.dropout(hidden, self.dropout, self.training))}

    def forward(self, hidden: Tensor, strip: Strip, targets: Tensor | None = None) -> PredictionOutput:  # noqa: ARG002  # all heads have this signature
        """Return the logits of each token, [tokens, labels], and the loss if there are targets."""
        logits = self.logits_of_tokens(hidden)["logits"]
        return PredictionOutput(logits, None if targets is None else mean_cross_entropy(logits, targets))

    def decisions(self, output: PredictionOutput, strip: Strip, rule: ExitRule) -> Tensor:  # noqa: ARG002
        """Return the index of each token's most probable label, -1 at padding, [sequences, longest]."""
        return strip.pad(output.logits.argmax(1), -1)

    def confidence(self, output: PredictionOutput, strip: Strip, rule: ExitRule) -> Tensor:  # noqa: ARG002
        """Return the mean probability of the most probable labels of each sequence's tokens, [sequences]."""
        probabilities = strip.pad(output.logits.float().softmax(1).amax(1))
        return probabilities.sum(1) / strip.attention_mask.sum(1).clamp(min=1)

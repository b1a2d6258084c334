"""The head for extractive question answering: where the answer starts and ends, and whether it exists."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from albertine.errors import InputError
from albertine.model.head import Head, linear, mean_cross_entropy
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings
from albertine.settings.exit_rule import ExitRule


@dataclass(frozen=True)
class SpanTargets:
    """Targets of the span head.

    Attributes:
        start: position of the answer's first token in its sequence, [sequences]; 0 without an answer.
        end: position of the answer's last token in its sequence, [sequences]; 0 without an answer.
        answerable: 1 if the question has an answer, else 0, [sequences].
    """

    start: Tensor
    end: Tensor
    answerable: Tensor | None = None

    def to(self, device: torch.device) -> "SpanTargets":
        """Return the targets on a device."""
        answerable = None if self.answerable is None else self.answerable.to(device)
        return SpanTargets(self.start.to(device), self.end.to(device), answerable)


@dataclass(frozen=True)
class SpanOutput:
    """Output of the span head.

    Attributes:
        start_logits: logit of each token as start of the answer, [tokens].
        end_logits: logit of each token as end of the answer, [tokens].
        answerable_logits: logit of each question as answerable, [sequences]; None if not predicted.
        loss: mean loss over the sequences; None without targets.
    """

    start_logits: Tensor
    end_logits: Tensor
    answerable_logits: Tensor | None
    loss: Tensor | None


class SpanHead(Head):
    """Predicts the answer as a span of the text; with `answerable`, also whether there is an answer."""

    token_outputs = ("start_logits", "end_logits")

    def __init__(self, settings: ModelSettings, head: HeadSettings):
        super().__init__()
        self.out = nn.Linear(settings.hidden_size, 2)
        self.answerable = nn.Linear(settings.hidden_size, 1) if head.answerable else None

    def logits_of_tokens(self, hidden: Tensor) -> dict[str, Tensor]:
        """Return start_logits [...] and end_logits [...]."""
        start_logits, end_logits = self.boundary_logits(hidden)
        return {"start_logits": start_logits, "end_logits": end_logits}

    def logits_of_sequences(self, states: Tensor) -> dict[str, Tensor]:
        """Return answerable_logits [...], if they are predicted."""
        if self.answerable is None:
            return {}
        return {"answerable_logits": linear(self.answerable, states).squeeze(-1)}

    def forward(self, hidden: Tensor, strip: Strip, targets: SpanTargets | None = None) -> SpanOutput:
        """Return the logits of the tokens and, if predicted, of the questions; the loss with targets."""
        start_logits, end_logits = self.boundary_logits(hidden)
        answerable_logits = None
        if self.answerable is not None:
            cls_hidden = hidden.index_select(0, strip.cls_indices)
            answerable_logits = self.logits_of_sequences(cls_hidden)["answerable_logits"]
        if targets is None:
            return SpanOutput(start_logits, end_logits, answerable_logits, None)
        start_loss = _boundary_loss(start_logits, strip, targets.start)
        end_loss = _boundary_loss(end_logits, strip, targets.end)
        loss = (start_loss + end_loss) / 2
        if answerable_logits is not None:
            loss = loss + _answerable_loss(answerable_logits, targets)
        return SpanOutput(start_logits, end_logits, answerable_logits, loss)

    def boundary_logits(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Return the logits of each token as start and as end: [..., hidden] to [...] and [...]."""
        start_logits, end_logits = linear(self.out, hidden).unbind(-1)
        return start_logits, end_logits

    def decisions(self, output: SpanOutput, strip: Strip, rule: ExitRule) -> Tensor:  # noqa: ARG002
        """Return the most probable answer and, if predicted, whether it is more probable than none.

        Answers begin before they end, and are in the last segment, the passage. Predictions of a task may
        also have a limit on the length, and another threshold for no answer.
        """
        start_logits, end_logits = _padded_boundaries(output, strip)
        segments = strip.pad(strip.segments, -1)
        is_outside = segments < segments.amax(1, keepdim=True)
        starts, ends = (
            logits.masked_fill(is_outside, float("-inf")) for logits in (start_logits, end_logits)
        )
        best_starts, start_indices = starts.cummax(1)  # of the starts up to each end
        end = (best_starts + ends).argmax(1, keepdim=True)
        decisions = [start_indices.gather(1, end), end]
        if output.answerable_logits is not None:
            decisions.append((output.answerable_logits > 0).long()[:, None])
        return torch.cat(decisions, 1)

    def confidence(self, output: SpanOutput, strip: Strip, rule: ExitRule) -> Tensor:  # noqa: ARG002
        """Return the smallest probability of the most probable start, end and answerability, [sequences]."""
        start, end = (logits.softmax(1).amax(1) for logits in _padded_boundaries(output, strip))
        smallest = torch.minimum(start, end)
        if output.answerable_logits is None:
            return smallest
        # The probability of the more probable of both answers.
        return torch.minimum(smallest, output.answerable_logits.float().abs().sigmoid())


def _padded_boundaries(output: SpanOutput, strip: Strip) -> tuple[Tensor, Tensor]:
    """Return the logits of starts and ends, each [sequences, longest]."""
    start, end = (
        strip.pad(logits.float(), float("-inf")) for logits in (output.start_logits, output.end_logits)
    )
    return start, end


def _boundary_loss(logits: Tensor, strip: Strip, targets: Tensor) -> Tensor:
    """Return the mean loss of the starts or of the ends, with a softmax over the tokens of each sequence.

    Args:
        logits: logit of each token, [tokens].
        strip: the sequences.
        targets: position of the right token in each sequence, [sequences].
    """
    for index, (target, length) in enumerate(zip(targets.tolist(), strip.lengths, strict=True)):
        if not 0 <= target < length:
            raise InputError(
                f"the answer of sequence {index} is at token {target}, but the sequence has {length} tokens"
            )
    return mean_cross_entropy(strip.pad(logits.float(), float("-inf")), targets)


def _answerable_loss(logits: Tensor, targets: SpanTargets) -> Tensor:
    if targets.answerable is None:
        raise InputError("targets.answerable is missing; this head predicts whether there is an answer")
    labels = targets.answerable.float()
    summed = functional.binary_cross_entropy_with_logits(logits.float(), labels, reduction="sum")
    return summed / max(1, len(logits))

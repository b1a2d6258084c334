"""The head for extractive question answering: start and end of the answer, and whether there is one."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from albertine.errors import InputError
from albertine.model.heads import Head, first_hidden, linear, mean_cross_entropy
from albertine.model.strip import Strip
from albertine.settings import HeadSettings, ModelSettings


@dataclass(frozen=True)
class SpanTargets:
    """First and last token of each answer, counted in its own sequence, [sequences].

    A question without an answer has both at its first token. `answerable` is 1 or 0, [sequences].
    """

    start: Tensor
    end: Tensor
    answerable: Tensor | None = None

    def to(self, device: torch.device) -> "SpanTargets":
        """Move the targets to a device."""
        answerable = None if self.answerable is None else self.answerable.to(device)
        return SpanTargets(self.start.to(device), self.end.to(device), answerable)


@dataclass(frozen=True)
class SpanOutput:
    """Logits of each token as start and as end, [tokens], and of each question as answerable, [sequences]."""

    start_logits: Tensor
    end_logits: Tensor
    answerable_logits: Tensor | None
    loss: Tensor | None


class SpanHead(Head):
    """Finds the answer as a span of the text; with `answerable`, also decides whether there is one."""

    def __init__(self, settings: ModelSettings, head: HeadSettings):
        super().__init__()
        self.out = nn.Linear(settings.hidden_size, 2)
        self.answerable = nn.Linear(settings.hidden_size, 1) if head.answerable else None

    def logits(self, hidden: Tensor, cls_hidden: Tensor) -> dict[str, Tensor]:
        """Return start_logits [...], end_logits [...] and maybe answerable_logits [sequences]."""
        start, end = self.boundary_logits(hidden)
        logits = {"start_logits": start, "end_logits": end}
        if self.answerable is not None:
            logits["answerable_logits"] = linear(self.answerable, cls_hidden).squeeze(1)
        return logits

    def forward(self, hidden: Tensor, strip: Strip, targets: SpanTargets | None = None) -> SpanOutput:
        """Score the tokens of each sequence as start and as end of the answer."""
        start, end = self.boundary_logits(hidden)
        answerable = None
        if self.answerable is not None:
            answerable = linear(self.answerable, first_hidden(hidden, strip)).squeeze(1)
        if targets is None:
            return SpanOutput(start, end, answerable, None)
        loss = (_boundary_loss(start, strip, targets.start) + _boundary_loss(end, strip, targets.end)) / 2
        if answerable is not None:
            loss = loss + _answerable_loss(answerable, targets)
        return SpanOutput(start, end, answerable, loss)

    def boundary_logits(self, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Score each token as start and as end: [..., hidden] to twice [...]."""
        start, end = linear(self.out, hidden).unbind(-1)
        return start, end


def _boundary_loss(logits: Tensor, strip: Strip, targets: Tensor) -> Tensor:
    """Return the loss of the starts or the ends: a softmax over the tokens of each sequence."""
    for index, (target, length) in enumerate(zip(targets.tolist(), strip.lengths, strict=True)):
        if not 0 <= target < length:
            raise InputError(f"the answer of sequence {index} is at token {target}, it has {length}")
    return mean_cross_entropy(strip.pad(logits.float(), float("-inf")), targets)


def _answerable_loss(logits: Tensor, targets: SpanTargets) -> Tensor:
    if targets.answerable is None:
        raise InputError("this head decides whether there is an answer: give targets.answerable")
    labels = targets.answerable.float()
    summed = functional.binary_cross_entropy_with_logits(logits.float(), labels, reduction="sum")
    return summed / max(1, len(logits))

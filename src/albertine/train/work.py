"""What the loop asks of whatever is trained: its batches in pieces, its objectives, where it is in the data.

Pre-training is one such work. The loop knows nothing of masks, pairs or labels, only that
an objective is a mean over so many things, of which so many were right.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor

from albertine.train.told import Told


@dataclass(frozen=True)
class Part:
    """One objective on one piece: its mean loss, and how many it got right (NaN: that means nothing)."""

    loss: Tensor
    right: Tensor


class Piece(Protocol):
    """What is computed at once."""

    @property
    def counts(self) -> Sequence[int]:
        """How many things each objective's mean is over."""

    def to(self, device: torch.device) -> "Piece":
        """Move it to a device."""


@dataclass(frozen=True)
class Share:
    """A process's part of a step.

    Attributes:
        pieces: what it is cut into; none, where there are fewer samples than processes.
        tokens: how many they have.
        operations: what they take.
        empty: a piece without anything in it.
    """

    pieces: Sequence[Piece]
    tokens: int
    operations: float
    empty: Piece

    def padded(self, pieces: int) -> "Share":
        """Return it with as many pieces, the last ones empty."""
        return replace(self, pieces=[*self.pieces, *[self.empty] * (pieces - len(self.pieces))])


class Work(Protocol):
    """What is trained."""

    @property
    def parts(self) -> Sequence[str]:
        """The names of its objectives."""

    @property
    def position(self) -> dict[str, Any]:
        """Where in the data it is, after the last share that it gave; as JSON."""

    @property
    def data(self) -> dict[str, Any]:
        """What tells the data from any other; as JSON."""

    def share(self, step: int) -> Share:
        """Give this process's part of a step, the next in order."""

    def measure(self, network: Any, piece: Any, step: int) -> Sequence[Part]:
        """Compute the objectives on a piece."""

    def go_to(self, step: int, position: dict[str, Any]) -> None:
        """Go to a place in the data."""

    def close(self) -> None:
        """Let go of what draws the batches."""

    def refuse_changed(self, before: dict[str, Any]) -> None:
        """Refuse to go on with other data than `data` told of."""

    def evaluate(self, network: Any, step: int) -> dict[str, float]:
        """Measure on held-out data; nothing if there is none."""

    def badness(self, scores: dict[str, float]) -> float:
        """Return a number by which scores compare; the least is best."""

    def turns(self, step: int) -> bool:
        """Tell whether a step asks for something else than the one before it."""

    def follow(self, network: Any, step: int) -> None:
        """Let weights that no gradient reaches follow those that a step has moved."""

    def remark(self, told: Told) -> str | None:
        """Say something about how it goes, if there is something to say."""

    def files(self, network: Any, step: int) -> Callable[[Path], None]:
        """Return what writes the model as it is now, whatever happens to it meanwhile."""

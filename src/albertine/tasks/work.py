"""Tuning on a task as work for the loop: samples in an order drawn anew in every epoch."""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from albertine.corpus.chance import ask
from albertine.errors import InputError
from albertine.interop.huggingface import frozen
from albertine.model.cost import count_flops
from albertine.model.heads import SpanTargets
from albertine.model.network import Model
from albertine.model.strip import Strip
from albertine.tasks.card import Card
from albertine.tasks.examples import Example
from albertine.tasks.kinds.kind import Kind, Sample, Sheet, strip_of
from albertine.tasks.kinds.spans import Spans
from albertine.tasks.metrics import headline
from albertine.tasks.scoring import Scorer
from albertine.text.tokenizer import Tokenizer
from albertine.train.ranks import Ranks
from albertine.train.sharding import whole
from albertine.train.told import Told
from albertine.train.work import Part, Share

_ORDER = 9  # what the hash is asked for


class Collapsed(Exception):  # noqa: N818  # a turn of events, which the run answers
    """All answers of the model are one and the same."""


@dataclass(frozen=True)
class Piece:
    """Samples that are computed at once."""

    strip: Strip
    targets: Any
    counts: Sequence[int]

    def to(self, device: torch.device) -> "Piece":
        """Move it to a device."""
        targets = self.targets
        if isinstance(targets, SpanTargets):
            answerable = None if targets.answerable is None else targets.answerable.to(device)
            targets = SpanTargets(targets.start.to(device), targets.end.to(device), answerable)
        else:
            targets = targets.to(device)
        return Piece(self.strip.to(device), targets, self.counts)


class Tuning:
    """Tuning on the samples of some sheets, measured on others."""

    def __init__(
        self,
        train: Sequence[Sheet],
        dev: Sequence[tuple[Example, Sheet]],
        kind: Kind,
        card: Card,
        tokenizer: Tokenizer,
        model: Any,
        *,
        batch: int,
        seed: int,
        ranks: Ranks,
        at_once: int,
        judged_from: int,
        spread: bool = False,
    ):
        self.samples = [sample for sheet in train for sample in sheet.samples]
        self._dev, self._kind, self._card, self._tokenizer = dev, kind, card, tokenizer
        self._model, self._batch, self._seed = model, batch, seed
        self._ranks, self._at_once, self._judged_from = ranks, at_once, judged_from
        self._spread = spread
        self.parts = tuple(kind.parts)
        self._place, self._varied = 0, False
        self._epoch, self._order = -1, np.empty(0, np.int64)

    # Where in the data.

    @property
    def position(self) -> dict[str, Any]:
        """How many samples have been taken, and whether answers have ever differed."""
        return {"place": self._place, "varied": self._varied}

    def go_to(self, step: int, position: dict[str, Any]) -> None:  # noqa: ARG002  # the place says it all
        """Go to a place."""
        self._place, self._varied = int(position["place"]), bool(position["varied"])

    def close(self) -> None:
        """Let go of nothing: samples lie in memory."""

    @property
    def data(self) -> dict[str, Any]:
        """What tells the samples from any others."""
        held_out = [sample for _, sheet in self._dev for sample in sheet.samples]
        return {
            "samples": len(self.samples),
            "sha256": _digest(self.samples),
            "held_out": len(held_out),
            "held_out_sha256": _digest(held_out),
        }

    def refuse_changed(self, before: dict[str, Any]) -> None:
        """Refuse other examples than the run began with."""
        if before != self.data:
            raise InputError(
                f"the examples are not those that the run began with ({before['samples']:,} samples and "
                f"{before['held_out']:,} to measure on then, {self.data['samples']:,} and "
                f"{self.data['held_out']:,} now, or others); bring those back, or name another --out"
            )

    # What is learned.

    def follow(self, network: Model, step: int) -> None:
        """Nothing does."""

    def turns(self, step: int) -> bool:  # noqa: ARG002
        """Tell that every step asks for the same."""
        return False

    def share(self, step: int) -> Share:  # noqa: ARG002  # the place says it all
        """Take this process's part of the next samples."""
        chosen = [self.samples[at] for at in self._next()]
        mine = chosen[self._ranks.rank :: self._ranks.all]
        pieces = [self._piece(part) for part in _within(mine, self._at_once)]
        tokens = sum(sample.tokens for sample in mine)
        longest = max((len(ids) for sample in mine for ids in sample.ids), default=1)
        operations = 3 * tokens * count_flops(self._model, longest).forward_per_token
        return Share(pieces, tokens, operations, self._piece([]))

    def _next(self) -> list[int]:
        """Return which samples come next, over the end of an epoch if need be."""
        found = []
        for place in range(self._place, self._place + self._batch):
            epoch, at = divmod(place, len(self.samples))
            if epoch != self._epoch:
                self._epoch, self._order = epoch, order_of(self._seed, epoch, len(self.samples))
            found.append(int(self._order[at]))
        self._place += self._batch
        return found

    def _piece(self, samples: Sequence[Sample]) -> Piece:
        return Piece(strip_of(samples), self._kind.targets(samples), self._kind.counts(samples))

    def measure(self, network: Any, piece: Piece, step: int) -> Sequence[Part]:  # noqa: ARG002
        """Compute the objectives on a piece."""
        return self._kind.measured(network(piece.strip, piece.targets), piece.targets, piece.strip)

    # How it goes.

    def evaluate(self, network: Any, step: int) -> dict[str, float]:
        """Score the answers on dev; find the threshold where some questions have none."""
        scorer = Scorer(network, self._kind, self._ranks.device, self._at_once)
        # Spread weights are gathered by all at once, so then all score all.
        mine = (
            range(len(self._dev))[self._ranks.rank :: self._ranks.all]
            if not self._spread
            else range(len(self._dev))
        )
        rows = scorer.rows([self._dev[at][1] for at in mine])
        gathered = dict(
            pair for part in self._ranks.gathered(list(zip(mine, rows, strict=True))) for pair in part
        )
        examples = [example for example, _ in self._dev]

        def answers() -> list[dict[str, Any]]:
            return [
                self._kind.answer(example, sheet, gathered[at])
                for at, (example, sheet) in enumerate(self._dev)
            ]

        given = answers()
        if self._kind.settle(examples, given):
            given = answers()
        scores = self._kind.assess(examples, given)
        collapse = self._kind.collapsed(examples, given)
        if collapse and step >= self._judged_from and not self._varied:
            raise Collapsed(collapse)
        self._varied = self._varied or (step > 0 and not collapse)
        return scores

    def badness(self, scores: dict[str, float]) -> float:
        """Return how far the task's score is from the best there could be."""
        return 1.0 - headline(self._card.task, scores)

    def remark(self, told: Told) -> str | None:  # noqa: ARG002
        """Say nothing between evaluations."""
        return None

    def files(self, network: Model, step: int) -> Callable[[Path], None]:  # noqa: ARG002
        """Return what writes the model with its tokenizer and its card."""
        parameters = {name: whole(one.detach()) for name, one in network.named_parameters()}
        write_model = frozen(network, tokenizer=self._tokenizer, parameters=parameters)
        card = self._card
        if isinstance(self._kind, Spans):
            card = replace(card, threshold=self._kind.threshold)

        def write(folder: Path) -> None:
            write_model(folder)
            card.write(folder)

        return write


def _digest(samples: Sequence[Sample]) -> str:
    digest = hashlib.sha256()
    for sample in samples:
        for ids in sample.ids:
            digest.update(ids.tobytes())
        target = sample.target
        digest.update(target.tobytes() if isinstance(target, np.ndarray) else repr(target).encode())
    return digest.hexdigest()


def order_of(seed: int, epoch: int, count: int) -> NDArray[np.int64]:
    """Return the order of an epoch, the same whenever it is asked for."""
    return np.argsort(ask(seed, _ORDER, epoch, np.arange(count)), kind="stable")


def _within(samples: Sequence[Sample], budget: int) -> Iterator[list[Sample]]:
    """Cut samples into pieces of at most so many tokens; one that has more is a piece by itself."""
    piece: list[Sample] = []
    filled = 0
    for sample in samples:
        if piece and filled + sample.tokens > budget:
            yield piece
            piece, filled = [], 0
        piece.append(sample)
        filled += sample.tokens
    if piece:
        yield piece

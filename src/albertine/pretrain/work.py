"""Pre-training as work for the loop: masked pieces and pairs out of a corpus, under a curriculum."""

from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from albertine.corpus.batches import Batch, Batches, Position, to_batch
from albertine.corpus.corpus import Corpus
from albertine.corpus.samples import Sampler
from albertine.corpus.settings import Objective
from albertine.errors import InputError
from albertine.interop.huggingface import frozen
from albertine.model.cost import count_flops
from albertine.model.network import Model
from albertine.pretrain.plateau import Plateau
from albertine.pretrain.scores import table_of
from albertine.pretrain.settings import PretrainSettings
from albertine.pretrain.waves import Waves
from albertine.train.ranks import Ranks
from albertine.train.sharding import like, whole
from albertine.train.told import Told
from albertine.train.work import Part, Share


@dataclass(frozen=True)
class Piece:
    """What is computed at once, and whether its pairs count."""

    batch: Batch
    paired: bool

    @property
    def counts(self) -> tuple[int, ...]:
        """How many pieces are masked, and how many pairs there are."""
        masked = len(self.batch.targets.masked.at)
        return (masked, len(self.batch.strip)) if self.paired else (masked,)

    def to(self, device: torch.device) -> "Piece":
        """Move it to a device."""
        return Piece(self.batch.to(device), self.paired)


class Pretraining:
    """Pre-training on a corpus."""

    def __init__(
        self, corpus: Corpus, settings: PretrainSettings, ranks: Ranks, plateau: Plateau, at_once: int
    ):
        self.corpus, self.settings, self.ranks = corpus, settings, ranks
        self._plateau, self._at_once = plateau, at_once
        self._paired = settings.objective.pair != "none"
        self.parts = ("mlm", "pair") if self._paired else ("mlm",)
        self._objective: Objective | None = None
        self._batches: Batches | None = None
        self._coming: Generator[Batch] | None = None
        self._start = {"place": 0, "batch": 0, "samples": 0}
        self._beyond: Tensor | None = None
        self._held_out: tuple[Objective, list[Batch]] | None = None

    # Where in the data.

    @property
    def position(self) -> dict[str, Any]:
        """The place after the last share, and how many samples an epoch has there."""
        if self._batches is None:
            return self._start
        now = self._batches.position
        return {"place": now.place, "batch": now.batch, "samples": self._batches.epoch}

    def go_to(self, step: int, position: dict[str, Any]) -> None:  # noqa: ARG002  # the place says it all
        """Go to a place."""
        self.close()
        self._start, self._objective, self._batches = position, None, None

    def close(self) -> None:
        """End the processes that draw samples, if there are any."""
        if self._coming is not None:
            self._coming.close()
            self._coming = None

    @property
    def data(self) -> dict[str, Any]:
        """What tells the corpus from any other."""
        manifest = self.corpus.manifest
        shards = {entry.file: entry.sha256 for entry in manifest.shards}
        return {"tokenizer": manifest.tokenizer, "shards": shards}

    def refuse_changed(self, before: dict[str, Any]) -> None:
        """Refuse a corpus that is not the one that the run began with."""
        now, what = self.data, None
        if before["tokenizer"] != now["tokenizer"]:
            what = f"its tokenizer was {before['tokenizer']} and is {now['tokenizer']}"
        else:
            for file in sorted(before["shards"].keys() | now["shards"].keys()):
                was, is_ = before["shards"].get(file), now["shards"].get(file)
                if was != is_:
                    what = f"{file} " + (
                        "is new" if was is None else "is gone" if is_ is None else "has changed"
                    )
                    break
        if what:
            raise InputError(
                f"{self.corpus.folder}: not the corpus that the run began with: {what}; "
                "bring that one back, or start another run with --init"
            )

    # What is learned.

    def turns(self, step: int) -> bool:
        """Tell whether length, masking or depth change with this step."""
        settings = self.settings
        now, before = ((settings.objective_at(at), settings.depth_at(at)) for at in (step, max(0, step - 1)))
        return now != before

    def share(self, step: int) -> Share:
        """Draw this process's part of the next batch and cut it into pieces."""
        objective = self.settings.objective_at(step)
        if objective != self._objective or self._coming is None:
            self._open(objective)
        assert self._coming is not None
        batch = next(self._coming)
        pieces = [Piece(one, self._paired) for one in batch.split(self._at_once)]
        tokens = len(batch.strip.tokens)
        flops = count_flops(
            replace(self.settings.model, layers=self.settings.depth_at(step)), objective.max_length
        )
        empty = Piece(to_batch([], batch.samples), self._paired)
        return Share(pieces, tokens, tokens * flops.training_per_token, empty)

    def _open(self, objective: Objective) -> None:
        """Go on with another objective, as far into the epoch as we are."""
        before, sampler = self.position, Sampler(self.corpus, objective)
        place, batch = before["place"], before["batch"]
        if before["samples"] not in (0, len(sampler)):
            place, batch = place * len(sampler) // before["samples"], 0
        self.close()
        self._objective = objective
        self._batches = Batches(
            sampler,
            self.settings.train.batch_tokens,
            position=Position(place, batch),
            rank=self.ranks.rank,
            ranks=self.ranks.all,
            workers=self.settings.workers,
        )
        self._coming = iter(self._batches)

    def measure(self, network: Any, piece: Piece, step: int) -> Sequence[Part]:
        """Compute both objectives on a piece."""
        targets = piece.batch.targets
        out = network(piece.batch.strip, targets, depth=self.settings.depth_at(step))
        with torch.no_grad():
            masked_right = (out.masked.logits.argmax(1) == targets.masked.pieces).sum()
            pair_right = (out.pair_logits.argmax(1) == targets.pair).sum()
        parts = (Part(out.masked.loss, masked_right), Part(out.pair_loss, pair_right))
        return parts if self._paired else parts[:1]

    def follow(self, network: Any, step: int) -> None:
        """Let the positions that no sample reached in so many steps go on as those do that were."""
        table: Tensor = network.encoder.embedding.positions.weight
        reached, waves = self.settings.longest(step), Waves.of(self.settings.model)
        if not self.settings.looks_at_neighbours or reached >= len(table) or not len(waves):
            return
        first = whole(table.detach())[:reached]
        if self._beyond is None or self._beyond.shape[1] != reached:
            self._beyond = waves.beyond(reached, len(table)).to(first)
        with torch.no_grad():
            table.copy_(like(torch.cat([first, self._beyond @ first]), table))

    # How it goes.

    def evaluate(self, network: Any, step: int) -> dict[str, float]:
        """Measure on the first samples of dev, always the same ones, as the run asks now."""
        if not self.corpus.manifest.documents["dev"]:
            return {}
        last = max(0, step - 1)
        depth = self.settings.depth_at(last)
        dev, mask = self._dev(self.settings.objective_at(last)), self.corpus.tokenizer.special.mask
        table = table_of(network, dev, self.ranks.device, mask, depth)
        masked, loss, right, *_, pair_loss, pair_right, samples = self.ranks.total(
            [*table.sum(0).tolist(), len(table)]
        )
        scores = {"mlm_loss": loss / max(1, masked), "mlm_accuracy": right / max(1, masked)}
        if self._paired:
            scores |= {"pair_loss": pair_loss / samples, "pair_accuracy": pair_right / samples}
        return {"loss": sum(value for name, value in scores.items() if name.endswith("loss")), **scores}

    def badness(self, scores: dict[str, float]) -> float:
        """Return the held-out loss."""
        return scores["loss"]

    def _dev(self, objective: Objective) -> list[Batch]:
        """Return this process's share of the held-out batches, drawn once."""
        if self._held_out is None or self._held_out[0] != objective:
            sampler = Sampler(self.corpus, objective, "dev")
            size = max(1, self._at_once // objective.max_length)
            wanted = max(1, self.evaluation_tokens // objective.max_length)
            places = np.arange(min(len(sampler), wanted))
            chunks = [places[at : at + size] for at in range(0, len(places), size)]
            # As many for each process, the last ones empty: spread weights are gathered by all.
            chunks += [places[:0]] * (-len(chunks) % self.ranks.all)
            mine = chunks[self.ranks.rank :: self.ranks.all]
            self._held_out = (objective, [to_batch(sampler.draw(one), len(one)) for one in mine])
        return self._held_out[1]

    @property
    def evaluation_tokens(self) -> int:
        """How many tokens an evaluation takes: a twentieth of what is trained on until the next."""
        train = self.settings.train
        every = train.evaluate_every or max(1, train.steps // 40)
        return train.evaluate_tokens or min(262_144, max(8_192, every * train.batch_tokens // 20))

    def remark(self, told: Told) -> str | None:
        """Say so if nothing but piece frequencies is being learned."""
        return self._plateau.look(told)

    def files(self, network: Model, step: int) -> Callable[[Path], None]:
        """Return what writes the network, as deep as it is now, with its tokenizer."""
        depth = self.settings.depth_at(max(0, step - 1))
        parameters = {name: whole(one.detach()) for name, one in network.named_parameters()}
        return frozen(network, tokenizer=self.corpus.tokenizer, depth=depth, parameters=parameters)
